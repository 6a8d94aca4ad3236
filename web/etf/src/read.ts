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

/** A failure on its way up to where the decoder was called. */
class Failure {
    readonly path: (string | number)[] = [];
    constructor(
        readonly expected: string,
        readonly found: string,
    ) {}

    under(step: string | number): this {
        this.path.unshift(step);
        return this;
    }
}

/** Makes a T of a term. */
export class Decoder<out T> {
    /** @internal */
    constructor(
        /** @internal What it wants, for messages. */
        readonly wants: string,
        /** @internal */
        readonly take: (term: Term) => T | Failure,
    ) {}

    /** Decodes a term. */
    read(term: Term): Result<T> {
        const taken = this.take(term);
        if (!(taken instanceof Failure)) return { ok: true, value: taken };
        const { path, expected, found } = taken;
        const place = path
            .map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`))
            .join("");
        const where = place === "" ? "" : `at ${place}: `;
        const message = `${where}expected ${expected}, found ${found}`;
        return { ok: false, error: { path, expected, found, message } };
    }

    /** Decodes bytes; what is wrong with the bytes themselves is a failure like others. */
    readBytes(bytes: Uint8Array, decode: (bytes: Uint8Array) => Term = decodeTerm): Result<T> {
        let term: Term;
        try {
            term = decode(bytes);
        } catch (error) {
            if (!(error instanceof EtfError)) throw error;
            const found = `bytes that are no term: ${error.message}`;
            return {
                ok: false,
                error: {
                    path: [],
                    expected: this.wants,
                    found,
                    message: `expected ${this.wants}, found ${found}`,
                },
            };
        }
        return this.read(term);
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
    return new Decoder(wants, (term) => {
        const made = make(term);
        return made === undefined ? new Failure(wants, show(term)) : made;
    });
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
    if (!(found instanceof Binary)) return undefined;
    try {
        return found.text();
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
    const points = found as readonly Term[];
    const valid = points.every(
        (point) =>
            typeof point === "number" &&
            point >= 0 &&
            point <= 0x10ffff &&
            (point & ~0x7ff) !== 0xd800,
    );
    return valid
        ? points.map((point) => String.fromCodePoint(point as number)).join("")
        : undefined;
});

/** The atoms true and false. */
export const boolean: Decoder<boolean> = simple("true or false", (found) =>
    !(found instanceof Atom)
        ? undefined
        : found.name === "true"
          ? true
          : found.name === "false"
            ? false
            : undefined,
);

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

/** Always this value, whatever the term. */
export function succeed<T>(value: T): Decoder<T> {
    return new Decoder("any term", () => value);
}

/** Never anything: `expected` says what would have been right. */
export function fail(expected: string): Decoder<never> {
    return new Decoder<never>(expected, (found) => new Failure(expected, show(found)));
}

/** A list of such elements. */
export function list<T>(element: Decoder<T>): Decoder<T[]> {
    const wants = `a list of ${element.wants}`;
    return new Decoder(wants, (found) => {
        if (!Array.isArray(found)) return new Failure(wants, show(found));
        const made: T[] = [];
        for (const [at, item] of (found as readonly Term[]).entries()) {
            const value = element.take(item);
            if (value instanceof Failure) return value.under(at);
            made.push(value);
        }
        return made;
    });
}

/** A tuple of exactly these elements. */
export function tuple<T extends readonly unknown[]>(...elements: Decoders<T>): Decoder<T> {
    const wants = `a tuple of ${elements.length}`;
    return new Decoder(wants, (found) => {
        if (!(found instanceof Tuple) || found.elements.length !== elements.length)
            return new Failure(wants, show(found));
        return inOrder(elements, found.elements, (at) => at) as T | Failure;
    });
}

/** The values of terms that stand in order, or the first failure, with its place. */
function inOrder(
    decoders: readonly Decoder<unknown>[],
    terms: readonly Term[],
    place: (at: number) => string | number,
): unknown[] | Failure {
    const made: unknown[] = [];
    for (let at = 0; at < decoders.length; at++) {
        const value = decoders[at].take(terms[at]);
        if (value instanceof Failure) return value.under(place(at));
        made.push(value);
    }
    return made;
}

/** The element of a tuple or a list at a place, counted from 0. */
export function index<T>(at: number, element: Decoder<T>): Decoder<T> {
    const wants = `a tuple or a list with an element ${at}`;
    return new Decoder(wants, (found) => {
        const items =
            found instanceof Tuple
                ? found.elements
                : Array.isArray(found)
                  ? (found as readonly Term[])
                  : [];
        if (!(at in items)) return new Failure(wants, show(found));
        const value = element.take(items[at]);
        return value instanceof Failure ? value.under(at) : value;
    });
}

/**
 * The value of a map or native record under a key. A string means the atom or the text of that
 * name, the atom first; for other keys give the term.
 */
export function field<T>(key: string | Term, value: Decoder<T>): Decoder<T> {
    const name = typeof key === "string" ? key : show(key);
    const wants = `a map with the key ${name}`;
    return new Decoder(wants, (found) => {
        const held = lookup(found, key);
        if (held === undefined) return new Failure(wants, show(found));
        const made = value.take(held);
        return made instanceof Failure ? made.under(name) : made;
    });
}

function lookup(found: Term, key: string | Term): Term | undefined {
    if (found instanceof ErlRecord) return typeof key === "string" ? found.get(key) : undefined;
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
    return new Decoder<T | F>("a map", (found) => {
        if (!(found instanceof ErlMap || found instanceof ErlRecord))
            return new Failure("a map", show(found));
        return lookup(found, key) === undefined ? fallback : present.take(found);
    });
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
    const names = Object.keys(fields) as (keyof T & string)[];
    const decoders = names.map((name) => field(name, fields[name]));
    return new Decoder("a map", (found) => {
        const made: Partial<T> = {};
        for (const [i, name] of names.entries()) {
            const value = decoders[i].take(found);
            if (value instanceof Failure) return value;
            define(made, name, value);
        }
        return made as T;
    });
}

/** Sets an own property, also where its name is one that prototypes react to. */
function define(target: object, name: string, value: unknown): void {
    Object.defineProperty(target, name, {
        value,
        writable: true,
        enumerable: true,
        configurable: true,
    });
}

/** A map whose keys and values are all alike, as a Map. */
export function dict<K, V>(key: Decoder<K>, value: Decoder<V>): Decoder<Map<K, V>> {
    return new Decoder("a map", (found) => {
        if (!(found instanceof ErlMap)) return new Failure("a map", show(found));
        const made = new Map<K, V>();
        for (const [k, v] of found) {
            const madeKey = key.take(k);
            if (madeKey instanceof Failure) return madeKey.under(`key ${show(k)}`);
            const madeValue = value.take(v);
            if (madeValue instanceof Failure)
                return madeValue.under(typeof madeKey === "string" ? madeKey : show(k));
            made.set(madeKey, madeValue);
        }
        return made;
    });
}

/**
 * A record as `-record` defines it: a tuple with the name first and the fields in this order.
 * (A native record of OTP 29 is read with {@link nativeRecord} or {@link object}.)
 */
export function record<T extends object>(name: string, fields: Fields<T>): Decoder<T> {
    const names = Object.keys(fields) as (keyof T & string)[];
    const decoders = names.map((field) => fields[field]);
    const wants = `a record ${name} of ${names.length} fields`;
    return new Decoder(wants, (found) => {
        if (!(found instanceof Tuple) || found.elements.length !== names.length + 1)
            return new Failure(wants, show(found));
        const [tag, ...values] = found.elements;
        if (!(tag instanceof Atom) || tag.name !== name) return new Failure(wants, show(found));
        const made = inOrder(decoders, values, (place) => names[place]);
        if (made instanceof Failure) return made;
        const result: Partial<T> = {};
        names.forEach((field, place) => define(result, field, made[place]));
        return result as T;
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
            : new Failure(wants, show(found)),
    );
}

/** The first of these that accepts the term. */
export function oneOf<T extends readonly unknown[]>(...choices: Decoders<T>): Decoder<T[number]> {
    const wants = choices.map((choice) => choice.wants).join(", or ");
    return new Decoder<T[number]>(wants, (found) => {
        for (const choice of choices) {
            const value = choice.take(found);
            if (!(value instanceof Failure)) return value;
        }
        return new Failure(wants, show(found));
    });
}

/** The value, or null for the atoms nil, null and undefined. */
export function nullable<T>(value: Decoder<T>): Decoder<T | null> {
    return new Decoder<T | null>(`${value.wants} or nil`, (found) =>
        found instanceof Atom &&
        (found.name === "nil" || found.name === "null" || found.name === "undefined")
            ? null
            : value.take(found),
    );
}

/** What `change` makes of the values of up to any number of decoders of the same term. */
export function map<A extends readonly unknown[], T>(
    change: (...values: A) => T,
    ...decoders: Decoders<A>
): Decoder<T> {
    return new Decoder(decoders.map((decoder) => decoder.wants).join(" and "), (found) => {
        const values: unknown[] = [];
        for (const decoder of decoders) {
            const value = decoder.take(found);
            if (value instanceof Failure) return value;
            values.push(value);
        }
        return change(...(values as unknown as A));
    });
}

/** Goes on with a decoder that depends on the value so far; it reads the same term. */
export function andThen<A, T>(first: Decoder<A>, next: (value: A) => Decoder<T>): Decoder<T> {
    return new Decoder(first.wants, (found) => {
        const value = first.take(found);
        return value instanceof Failure ? value : next(value).take(found);
    });
}

/** A decoder that is made when it is needed: for forms that hold themselves. */
export function lazy<T>(make: () => Decoder<T>): Decoder<T> {
    let made: Decoder<T> | undefined;
    return new Decoder("a term of this kind", (found) => (made ??= make()).take(found));
}
