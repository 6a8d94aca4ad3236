/**
 * Provides typed encoders, the reverse of the decoders in read.ts. Each takes a value of one type
 * and makes one kind of term. The kind of term never depends on the form of the value.
 * @module
 */
import { atStep, kindName, noTerm, tooDeep } from "./error.js";
import { checkFields, checkOptions, checkOrder } from "./options.js";
import { Atom, Binary, ErlRecord, Float, Tuple, type Term } from "./term.js";
import { ErlMap, isMap, Keys } from "./map.js";
import { checkSurrogates, codePoints, isBytes } from "./utf8.js";

/** Turns a T into a term. */
export type Encoder<T> = (value: T) => Term;

/** An encoder for each of these types. */
export type Encoders<T extends readonly unknown[]> = { readonly [I in keyof T]: Encoder<T[I]> };
/** An encoder for each property. */
export type Fields<T> = { readonly [K in keyof T]: Encoder<T[K]> };

/** Encodes an integer. A number that is not an integer throws an EtfError of code `encode`. */
export const integer: Encoder<number | bigint> = (value) =>
    // The encoder writes -0 as a float.
    checked(typeof value === "bigint" || Number.isInteger(value), "an integer", value) || 0;

/** Returns the value. Throws an error if it does not have the type of the encoder. */
function checked<T>(isRight: boolean, type: string, value: T): T {
    if (!isRight)
        throw noTerm(`${typeof value === "number" ? value : kindName(value)} is not ${type}`);
    return value;
}

/** Returns a value that must be text. */
function text(value: string, type = "text"): string {
    return checked(typeof value === "string", type, value);
}

/** Encodes a part of a value. An error contains the path to the part. */
function under<T>(step: string | number, encode: Encoder<T>, value: T): Term {
    try {
        return encode(value);
    } catch (error) {
        throw atStep(step, error);
    }
}

/** Encodes a float, also for a whole number. */
export const float: Encoder<number> = (value) =>
    new Float(checked(Number.isFinite(value), "a float", value));

/** Refuses an invalid encoder when it is an argument, not later at its use. */
function needed(...encoders: readonly unknown[]): void {
    for (const encode of encoders)
        if (typeof encode !== "function")
            throw new TypeError("an encoder or a function is missing here");
}

/** Encodes text, as a binary of UTF-8. */
export const string: Encoder<string> = (value) => Binary.of(text(value));

/** Encodes text, as a list of characters. */
export const charlist: Encoder<string> = (value) => {
    checkSurrogates(text(value), -1);
    return codePoints(value);
};

/** Encodes bytes, as a binary. */
export const bytes: Encoder<Uint8Array> = (value) =>
    Binary.of(checked(isBytes(value), "a Uint8Array", value));

/** Encodes an atom, by name. */
export const atom = (value: string): Atom => new Atom(text(value, "an atom's name"));

/** Encodes the atoms true and false. */
export const boolean: Encoder<boolean> = (value) =>
    new Atom(String(checked(typeof value === "boolean", "a boolean", value)));

/** Encodes a term unchanged. */
export const term: Encoder<Term> = (value) => value;

/** Encodes the value, or an atom (default `nil`) for null. */
export function nullable<T>(value: Encoder<T>, none = "nil"): Encoder<T | null> {
    needed(value);
    return (given) => (given === null ? new Atom(none) : value(given));
}

/** Encodes a list of such elements. */
export function list<T>(element: Encoder<T>): Encoder<readonly T[]> {
    needed(element);
    // Array.from also visits holes, and calls no constructor of a subclass.
    return (values) => Array.from(array(values), (value, at) => under(at, element, value));
}

/** Encodes a tuple of these elements. */
export function tuple<T extends readonly unknown[]>(...elements: Encoders<T>): Encoder<T> {
    const { length } = elements;
    needed(...elements);
    return (values) => {
        if (array(values).length !== length)
            throw noTerm(`an array of ${values.length} is not a tuple of ${length}`);
        return new Tuple(elements.map((encode, at) => under(at, encode, values[at])));
    };
}

/** Checks values that must be an array. */
function array<T extends readonly unknown[]>(values: T): T {
    return checked(Array.isArray(values), "an array", values);
}

/** Returns the names of these fields, and the encoders of their values. */
function columns<T extends object>(
    fields: Fields<T>,
): readonly [names: string[], terms: (value: T) => Term[]] {
    checkFields(fields);
    const names = Object.keys(fields) as (keyof T & string)[];
    needed(...names.map((name) => fields[name]));
    return [
        names,
        (value) => {
            checked(Object(value) === value, "an object", value);
            return names.map((name) => under(name, fields[name], value[name]));
        },
    ];
}

/** Encodes a record as `-record` defines it: the name, then the fields in this order. */
export function record<T extends object>(name: string, fields: Fields<T>): Encoder<T> {
    checkOrder(fields);
    const [, terms] = columns(fields);
    return (value) => new Tuple([new Atom(name), ...terms(value)]);
}

/** Encodes a native record (OTP 29). The fields are in this order, as in its definition. */
export function nativeRecord<T extends object>(
    module: string,
    name: string,
    fields: Fields<T>,
    exported = true,
): Encoder<T> {
    checkOrder(fields);
    const [names, terms] = columns(fields);
    const head = [new Atom(module), new Atom(name), exported, names.map(atom)] as const;
    return (value) => new ErlRecord(...head, terms(value));
}

/** Encodes a map of these fields. `keys` (default `atom`) chooses the terms of their names. */
export function object<T extends object>(
    fields: Fields<T>,
    keys: "atom" | "binary" = "atom",
): Encoder<T> {
    checkOptions({ keys }, { keys: '"atom"|"binary"' });
    const [names, terms] = columns(fields);
    const own = new Keys(names.map(keys === "atom" ? atom : string));
    return (value) => ErlMap.of(own, terms(value));
}

/** Encodes a map with keys of one kind and values of one kind. Equal keys throw an EtfError. */
export function dict<K, V>(key: Encoder<K>, value: Encoder<V>): Encoder<ReadonlyMap<K, V>> {
    needed(key, value);
    return (map) => {
        const made = ErlMap.from(
            Array.from(checked(isMap(map), "a Map", map).entries(), ([k, v], at) => {
                const step = typeof k === "string" ? k : at;
                return [under(step, key, k), under(step, value, v)] as const;
            }),
        );
        if (made.size < map.size) throw noTerm("two keys become the same key");
        return made;
    };
}

/** Makes the encoder for the result of `change`. */
export function map<A, B>(change: (value: B) => A, inner: Encoder<A>): Encoder<B> {
    needed(change, inner);
    return (value) => inner(change(value));
}

/** Makes an encoder at its first use, for forms that contain themselves. */
export function lazy<T>(make: () => Encoder<T>): Encoder<T> {
    let made: Encoder<T> | undefined;
    let depth = 0;
    return (value) => {
        try {
            depth++;
            return (made ??= make())(value);
        } catch (error) {
            // Only the outermost encoder reports it: the path to the place has thousands of steps.
            throw depth > 1 ? error : tooDeep(error);
        } finally {
            depth--;
        }
    };
}
