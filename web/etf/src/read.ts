/**
 * Typed decoders, built from small ones as in elm/json: each says what it wants of a term and
 * what it makes of it, and TypeScript knows the result. A term of another form is an expected
 * failure: it comes back as a value that says where it was and what was found there.
 * @module
 */
import { decodeTerm } from "./standard.js";
import { EtfError } from "./error.js";
import { ErlMap } from "./map.js";
import { show } from "./show.js";
import { Atom, Binary, ErlRecord, Float, Tuple, type Term } from "./term.js";

/** Why a term was not accepted. */
export interface ReadError {
    /** The way to the place: fields by name, elements by number (from 0). Empty at the top. */
    readonly path: readonly (string | number)[];
    /** What was wanted there. */
    readonly expected: string;
    /** What stands there, in Erlang's notation, shortened. */
    readonly found: string;
    /** All of it in one line. */
    readonly message: string;
}

/** What a decoder returns. */
export type Result<T> =
    | { readonly ok: true; readonly value: T }
    | { readonly ok: false; readonly error: ReadError };

/** A failure, thrown on its way up to where the decoder was called; it never leaves this module. */
class Failure {
    readonly path: (string | number)[] = [];
    constructor(
        readonly expected: string,
        readonly found: string,
    ) {}
}

/** Ends with the failure of a decoder that found this in the place of what it wants. */
function refuse(wants: string, found: Term): never {
    throw new Failure(wants, show(found));
}

/** Makes a T of a term. */
export class Decoder<out T> {
    /** @internal */
    constructor(
        /** @internal What it wants, for messages. */
        readonly wants: string,
        /** @internal Makes it, or throws a failure. */
        readonly take: (term: Term) => T,
    ) {}

    /** Decodes a term. */
    read(term: Term): Result<T> {
        return this.result(() => term);
    }

    /** Decodes bytes; what is wrong with the bytes themselves is a failure like others. */
    readBytes(bytes: Uint8Array, decode: (bytes: Uint8Array) => Term = decodeTerm): Result<T> {
        return this.result(() => {
            try {
                return decode(bytes);
            } catch (error) {
                if (!(error instanceof EtfError)) throw error;
                throw new Failure(this.wants, `bytes that are no term: ${error.message}`);
            }
        });
    }

    private result(term: () => Term): Result<T> {
        try {
            return { ok: true, value: this.take(term()) };
        } catch (failure) {
            if (!(failure instanceof Failure)) throw failure;
            const { path, expected, found } = failure;
            const place = path.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`));
            const where = path.length > 0 ? `at ${place.join("")}: ` : "";
            const message = `${where}expected ${expected}, found ${found}`;
            return { ok: false, error: { path, expected, found, message } };
        }
    }
}

/** What a decoder wants; a TypeError where something else was given for a decoder. */
function wanted(decoder: Decoder<unknown>): string {
    if (!(decoder instanceof Decoder)) throw new TypeError("a decoder is missing here");
    return decoder.wants;
}

/** What a decoder makes of what stands at `step`. */
function under<T>(step: string | number, decoder: Decoder<T>, term: Term): T {
    try {
        return decoder.take(term);
    } catch (failure) {
        if (failure instanceof Failure) failure.path.unshift(step);
        throw failure;
    }
}

/** What a decoder makes. */
export type Decoded<D> = D extends Decoder<infer T> ? T : never;

/** A decoder for each of these types. */
export type Decoders<T extends readonly unknown[]> = { readonly [I in keyof T]: Decoder<T[I]> };
/** A decoder for each property. */
export type Fields<T> = { readonly [K in keyof T]: Decoder<T[K]> };

/** A decoder of terms for which `make` gives something else than undefined. */
function simple<T>(wants: string, make: (term: Term) => T | undefined): Decoder<T> {
    return new Decoder(wants, (found) => make(found) ?? refuse(wants, found));
}

/** Any term, as it is. */
export const term: Decoder<Term> = new Decoder("any term", (found) => found);

/** An integer that a number holds exactly. */
export const integer: Decoder<number> = simple("an integer", (found) =>
    typeof found === "number" ? found : undefined,
);

/** An integer of any size. */
export const bigint: Decoder<bigint> = simple("an integer", (found) =>
    typeof found === "bigint" ? found : typeof found === "number" ? BigInt(found) : undefined,
);

/** A float. */
export const float: Decoder<number> = simple("a float", (found) =>
    found instanceof Float ? found.value : undefined,
);

/** A float, or an integer that a number holds exactly. */
export const number: Decoder<number> = simple("a number", (found) =>
    typeof found === "number" ? found : found instanceof Float ? found.value : undefined,
);

/** A binary of UTF-8, as text. */
export const string: Decoder<string> = simple("text", (found) => {
    try {
        return found instanceof Binary ? found.text() : undefined;
    } catch {
        return undefined;
    }
});

/** A binary, as bytes. */
export const bytes: Decoder<Uint8Array> = simple("a binary", (found) =>
    found instanceof Binary ? found.bytes : undefined,
);

/** A list of characters, as text. */
export const charlist: Decoder<string> = simple("a list of characters", (found) => {
    if (!Array.isArray(found)) return undefined;
    let text = "";
    for (const point of found as readonly Term[]) {
        const valid =
            typeof point === "number" &&
            point >= 0 &&
            point <= 0x10ffff &&
            (point & ~0x7ff) !== 0xd800;
        if (!valid) return undefined;
        text += String.fromCodePoint(point);
    }
    return text;
});

/** Any atom, by name. */
export const anyAtom: Decoder<string> = simple("an atom", (found) =>
    found instanceof Atom ? found.name : undefined,
);

/** One of these atoms, by name. */
export function atom<const N extends string>(...names: readonly N[]): Decoder<N> {
    return simple(names.join(" or "), (found) =>
        found instanceof Atom ? names.find((name) => name === found.name) : undefined,
    );
}

/** The atoms true and false. */
export const boolean: Decoder<boolean> = map((name) => name === "true", atom("true", "false"));

/** Always this value, whatever the term. */
export function succeed<T>(value: T): Decoder<T> {
    return new Decoder("any term", () => value);
}

/** Never anything: `expected` says what would have been right. */
export function fail(expected: string): Decoder<never> {
    return new Decoder<never>(expected, (found) => refuse(expected, found));
}

/** A list of such elements. */
export function list<T>(element: Decoder<T>): Decoder<T[]> {
    const wants = `a list of ${wanted(element)}`;
    return new Decoder(wants, (found) =>
        Array.isArray(found)
            ? (found as readonly Term[]).map((item, at) => under(at, element, item))
            : refuse(wants, found),
    );
}

/** A tuple of exactly these elements. */
export function tuple<T extends readonly unknown[]>(...elements: Decoders<T>): Decoder<T> {
    elements.forEach(wanted);
    const wants = `a tuple of ${elements.length}`;
    return new Decoder(wants, (found) =>
        found instanceof Tuple && found.elements.length === elements.length
            ? (elements.map((element, at) =>
                  under(at, element, found.elements[at]),
              ) as unknown as T)
            : refuse(wants, found),
    );
}

/** The element of a tuple or a list at a place, counted from 0. */
export function index<T>(at: number, element: Decoder<T>): Decoder<T> {
    wanted(element);
    const wants = `a tuple or a list with an element ${at}`;
    return new Decoder(wants, (found) => {
        const items = found instanceof Tuple ? found.elements : found;
        return Array.isArray(items) && at in items
            ? under(at, element, (items as readonly Term[])[at])
            : refuse(wants, found);
    });
}

/**
 * The value of a map or native record under a key. A string means the atom or the text of that
 * name, the atom first; for other keys give the term.
 */
export function field<T>(key: string | Term, value: Decoder<T>): Decoder<T> {
    wanted(value);
    const name = typeof key === "string" ? key : show(key);
    const wants = `a map with the key ${name}`;
    return new Decoder(wants, (found) =>
        under(name, value, lookup(found, key) ?? refuse(wants, found)),
    );
}

function lookup(found: Term, key: string | Term): Term | undefined {
    if (found instanceof ErlRecord && typeof key === "string") return found.get(key);
    if (!(found instanceof ErlMap)) return undefined;
    if (typeof key !== "string") return found.get(key);
    return found.get(new Atom(key)) ?? found.get(Binary.of(key));
}

/** As {@link field}, or the fallback where the key is missing. */
export function optionalField<T, F>(
    key: string | Term,
    value: Decoder<T>,
    fallback: F,
): Decoder<T | F> {
    const present = field<T>(key, value);
    return new Decoder<T | F>("a map", (found) =>
        lookup(found, key) !== undefined
            ? present.take(found)
            : found instanceof ErlMap || found instanceof ErlRecord
              ? fallback
              : refuse("a map", found),
    );
}

/** The value at the end of a way of keys (as in {@link field}) and places (as in {@link index}). */
export function at<T>(path: readonly (string | number)[], value: Decoder<T>): Decoder<T> {
    return path.reduceRight<Decoder<T>>(
        (inner, step) => (typeof step === "number" ? index(step, inner) : field(step, inner)),
        value,
    );
}

/** A map or native record with these fields at least, as an object. */
export function object<T extends object>(fields: Fields<T>): Decoder<T> {
    const decoders = entries(fields).map(([name, value]) => [name, field(name, value)] as const);
    return new Decoder("a map", (found) =>
        made<T>(decoders.map(([name, value]) => [name, value.take(found)])),
    );
}

/** Decoders by name, in order. */
function entries<T>(fields: Fields<T>): [string, Decoder<unknown>][] {
    return Object.entries<Decoder<unknown>>(fields as { [name: string]: Decoder<unknown> });
}

/** An object of these properties, all its own: `__proto__` is a name like others. */
function made<T>(properties: (readonly [string, unknown])[]): T {
    return Object.fromEntries(properties) as T;
}

/** A map whose keys and values are all alike, as a Map. */
export function dict<K, V>(key: Decoder<K>, value: Decoder<V>): Decoder<Map<K, V>> {
    return new Decoder("a map", (found) => {
        if (!(found instanceof ErlMap)) refuse("a map", found);
        return new Map(
            Array.from(found, ([k, v]) => {
                const name = under(`key ${show(k)}`, key, k);
                return [name, under(typeof name === "string" ? name : show(k), value, v)];
            }),
        );
    });
}

/**
 * A record as `-record` defines it: a tuple with the name first and the fields in this order.
 * (A native record of OTP 29 is read with {@link nativeRecord} or {@link object}.)
 */
export function record<T extends object>(name: string, fields: Fields<T>): Decoder<T> {
    const decoders = entries(fields);
    const wants = `a record ${name} of ${decoders.length} fields`;
    return new Decoder(wants, (found) => {
        if (!(found instanceof Tuple) || found.elements.length !== decoders.length + 1)
            refuse(wants, found);
        const [tag, ...values] = found.elements;
        if (!(tag instanceof Atom) || tag.name !== name) refuse(wants, found);
        return made<T>(
            decoders.map(([field, value], at) => [field, under(field, value, values[at])]),
        );
    });
}

/** A native record of this module and name, with these fields at least. */
export function nativeRecord<T extends object>(
    module: string,
    name: string,
    fields: Fields<T>,
): Decoder<T> {
    const inner = object<T>(fields);
    const wants = `a native record ${module}:${name}`;
    return new Decoder(wants, (found) =>
        found instanceof ErlRecord && found.module.name === module && found.name.name === name
            ? inner.take(found)
            : refuse(wants, found),
    );
}

/**
 * The first of these that accepts the term. Where none does, the failure is that of the one that
 * came farthest into the term, or says what all of them want.
 */
export function oneOf<T extends readonly unknown[]>(...choices: Decoders<T>): Decoder<T[number]> {
    const wants = choices.map(wanted).join(", or ");
    return new Decoder<T[number]>(wants, (found) => {
        let farthest: Failure | undefined;
        for (const choice of choices) {
            try {
                return choice.take(found);
            } catch (failure) {
                if (!(failure instanceof Failure)) throw failure;
                if (failure.path.length > (farthest?.path.length ?? 0)) farthest = failure;
            }
        }
        throw farthest ?? new Failure(wants, show(found));
    });
}

/** The value, or null for the atoms nil, null and undefined. */
export function nullable<T>(value: Decoder<T>): Decoder<T | null> {
    return new Decoder<T | null>(`${wanted(value)} or nil`, (found) =>
        found instanceof Atom && ["nil", "null", "undefined"].includes(found.name)
            ? null
            : value.take(found),
    );
}

/** What `change` makes of the values of up to any number of decoders of the same term. */
export function map<A extends readonly unknown[], T>(
    change: (...values: A) => T,
    ...decoders: Decoders<A>
): Decoder<T> {
    return new Decoder(decoders.map(wanted).join(" and "), (found) =>
        change(...(decoders.map((decoder) => decoder.take(found)) as unknown as A)),
    );
}

/** Goes on with a decoder that depends on the value so far; it reads the same term. */
export function andThen<A, T>(first: Decoder<A>, next: (value: A) => Decoder<T>): Decoder<T> {
    return new Decoder(wanted(first), (found) => next(first.take(found)).take(found));
}

/** A decoder that is made when it is needed: for forms that hold themselves. */
export function lazy<T>(make: () => Decoder<T>): Decoder<T> {
    let known: Decoder<T> | undefined;
    return new Decoder("a term of this kind", (found) => (known ??= make()).take(found));
}
