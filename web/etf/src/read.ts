/**
 * Provides typed decoders, built from small ones as in elm/json.
 *
 * Each decoder states the term that it expects and the value that it returns, so TypeScript knows
 * the type of the result. A term of another form gives a failure, not an exception. The failure
 * names the place and the term that the decoder found there.
 * @module
 */
import { decodeTerm } from "./standard.js";
import { canonical } from "./canonical.js";
import { EtfError, isOverflow, stepText } from "./error.js";
import { ErlMap } from "./map.js";
import { checkFields, checkOrder } from "./options.js";
import { written } from "./parts.js";
import { show } from "./show.js";
import { Atom, Binary, ErlRecord, Float, isList, Tuple, type Term } from "./term.js";

/** Describes why a decoder refused a term. */
export interface ReadError {
    /**
     * The path to the place: fields by name, elements by number (from 0). It is empty at the top.
     * Two kinds of keys appear in Erlang's notation, shortened: a key of {@link field} that is a
     * term other than an atom, and a key of {@link dict} that does not become text. Examples are
     * `{1, 2}`, and `key {1, 2}` if the dict expected another key.
     */
    readonly path: readonly (string | number)[];
    /** The term that the decoder expected there. */
    readonly expected: string;
    /** The term that the decoder found there, in Erlang's notation, shortened. */
    readonly found: string;
    /** The whole failure in one line. */
    readonly message: string;
}

/** The result of a decoder. */
export type Result<T> =
    | { readonly ok: true; readonly value: T }
    | { readonly ok: false; readonly error: ReadError };

type Step = string | number;

/** The number of accepted values in the current call. */
let accepted = 0;

/** Carries a failure up to the call of the decoder. It never leaves this module. */
class Failure {
    readonly after = accepted;
    constructor(
        readonly wants: readonly string[],
        /**
         * Describes the found term. This is a function, because most failures belong to an
         * alternative and nobody reads them.
         */
        readonly found: () => string,
        readonly path: Step[] = [],
    ) {}
}

/** Throws the failure of a decoder that found this term. */
function refuse(wants: string, found: Term): never {
    throw new Failure([wants], () => show(found));
}

/** Turns a term into a T. */
export class Decoder<out T> {
    /** @internal */
    constructor(
        /**
         * @internal The expected term, for messages.
         */
        readonly wants: string,
        /**
         * @internal Makes the value, or throws a failure.
         */
        readonly take: (term: Term) => T,
        /**
         * @internal Makes the value of a missing optional field.
         */
        readonly absent?: () => T,
    ) {}

    /** Decodes a term. A term that is too deep for the stack gives a failure too. */
    read(term: Term): Result<T> {
        const outer = outcomes;
        outcomes = new Map();
        try {
            return { ok: true, value: this.take(term) };
        } catch (error) {
            return isOverflow(error)
                ? this.failure("a term too deep for the stack")
                : failed(caught(error));
        } finally {
            outcomes = outer;
        }
    }

    /** Decodes bytes. A fault in the bytes themselves gives a failure too. */
    readBytes(bytes: Uint8Array, decode: (bytes: Uint8Array) => Term = decodeTerm): Result<T> {
        let term: Term;
        try {
            term = decode(bytes);
        } catch (error) {
            if (!(error instanceof EtfError)) throw error;
            return this.failure(`bytes that are not a term: ${error.message}`);
        }
        return this.read(term);
    }

    private failure(found: string): Result<never> {
        return failed(new Failure([this.wants], () => found));
    }
}

function failed({ wants, found: find, path }: Failure): Result<never> {
    const expected = wants.join(", or ");
    const found = find();
    const where = path.length > 0 ? `at ${path.map(stepText).join("")}: ` : "";
    const message = `${where}expected ${expected}, found ${found}`;
    return { ok: false, error: { path, expected, found, message } };
}

/** Returns the expected term of a decoder. Throws a TypeError for another argument. */
function wanted(decoder: Decoder<unknown> | undefined): string {
    if (!(decoder instanceof Decoder)) missing("a decoder");
    return decoder.wants;
}

function missing(what: string): never {
    throw new TypeError(`${what} is missing here`);
}

/** Returns an error that is a failure. Throws any other error again: it belongs to the program. */
function caught(error: unknown): Failure {
    if (error instanceof Failure) return error;
    throw error;
}

/** Decodes the term at `step`. */
function under<T>(step: Step | (() => Step), decoder: Decoder<T>, term: Term): T {
    try {
        return decoder.take(term);
    } catch (error) {
        const failure = caught(error);
        failure.path.unshift(typeof step === "function" ? step() : step);
        throw failure;
    }
}

/** The type of the values that a decoder returns. */
export type Decoded<D> = D extends Decoder<infer T> ? T : never;

/** A decoder for each of these types. */
export type Decoders<T extends readonly unknown[]> = { readonly [I in keyof T]: Decoder<T[I]> };
/** A decoder for each property. */
export type Fields<T> = { readonly [K in keyof T]: Decoder<T[K]> };

/**
 * Makes a decoder of the terms for which `make` does not return undefined. A number in a term that
 * was not decoded counts as the term that the encoder writes for it.
 */
function simple<T>(wants: string, make: (term: Term) => T | undefined): Decoder<T> {
    return new Decoder(wants, (found) => {
        const value = make(written(found)) ?? refuse(wants, found);
        accepted++;
        return value;
    });
}

/**
 * Makes a decoder of the terms for which `make` returns a value. It is for terms that contain other
 * terms, whose own decoders count the accepted values.
 */
function composed<T>(wants: string, make: (term: Term) => T | false): Decoder<T> {
    return new Decoder(wants, (found) => make(found) || refuse(wants, found));
}

/**
 * Accepts any term unchanged. A number is the term that the encoder writes for it, so 1.5 is `new
 * Float(1.5)`.
 */
export const term: Decoder<Term> = simple("any term", (found) => found);

/** Accepts an integer that a number holds exactly. */
export const integer: Decoder<number> = simple("an integer", exact);

/** Returns the number for an integer that a number holds exactly. */
function exact(found: Term): number | undefined {
    if (typeof found === "bigint") refuse("an integer of at most 53 bits", found);
    return typeof found === "number" ? found : undefined;
}

/** Accepts an integer of any size. */
export const bigint: Decoder<bigint> = simple("an integer", (found) =>
    typeof found === "bigint" ? found : typeof found === "number" ? BigInt(found) : undefined,
);

/** Accepts a float. */
export const float: Decoder<number> = simple("a float", finite);

/** Returns the number for a float. */
function finite(found: Term): number | undefined {
    return found instanceof Float && Number.isFinite(found.value) ? found.value : undefined;
}

/** Accepts a float, or an integer that a number holds exactly. */
export const number: Decoder<number> = simple("a number", (found) => exact(found) ?? finite(found));

/** Accepts a binary of UTF-8, as text. */
export const string: Decoder<string> = simple("text", (found) =>
    found instanceof Binary ? found.utf8() : undefined,
);

/** Accepts a binary, as bytes. */
export const bytes: Decoder<Uint8Array> = simple("a binary", (found) =>
    found instanceof Binary ? found.bytes : undefined,
);

/** Accepts a list of characters, as text. */
export const charlist: Decoder<string> = simple("a list of characters", (found) => {
    if (!Array.isArray(found)) return undefined;
    let text = "";
    for (const item of found as readonly Term[]) {
        const point = written(item);
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

/** Accepts any atom, by name. */
export const anyAtom: Decoder<string> = simple("an atom", (found) =>
    found instanceof Atom ? found.name : undefined,
);

/** Accepts one of these atoms, by name. */
export function atom<const N extends string>(...names: readonly N[]): Decoder<N> {
    if (names.length === 0) missing("an atom");
    return simple(names.join(" or "), (found) =>
        found instanceof Atom ? names.find((name) => name === found.name) : undefined,
    );
}

/** Accepts the atoms true and false. */
export const boolean: Decoder<boolean> = map((name) => name === "true", atom("true", "false"));

/** Accepts any term, and always returns this value. */
export function succeed<T>(value: T): Decoder<T> {
    return new Decoder("any term", () => value);
}

/** Refuses every term. `expected` names the right one. */
export function fail(expected: string): Decoder<never> {
    return new Decoder<never>(expected, (found) => refuse(expected, found));
}

/** Accepts a list of such elements. */
export function list<T>(element: Decoder<T>): Decoder<T[]> {
    return composed(
        `a list of ${wanted(element)}`,
        (found) => isList(found) && Array.from(found, (item, at) => under(at, element, item)),
    );
}

/** Accepts a tuple of exactly these elements. */
export function tuple<T extends readonly unknown[]>(...elements: Decoders<T>): Decoder<T> {
    elements.forEach(wanted);
    return composed(
        `a tuple of ${elements.length}`,
        (found) =>
            found instanceof Tuple &&
            found.elements.length === elements.length &&
            (elements.map((element, at) => under(at, element, found.elements[at])) as unknown as T),
    );
}

/** Accepts the element of a tuple or a list at a position, counted from 0. */
export function index<T>(at: number, element: Decoder<T>): Decoder<T> {
    wanted(element);
    if (!(Number.isInteger(at) && at >= 0))
        throw new TypeError("an index must be an integer from 0");
    const wants = `a tuple or a list with an element ${at}`;
    return new Decoder(wants, (found) => {
        const items = found instanceof Tuple ? found.elements : found;
        return Array.isArray(items) && at < items.length
            ? under(at, element, (items as readonly Term[])[at])
            : refuse(wants, found);
    });
}

/**
 * Accepts the value of a map or native record under a key. A string means the atom or the text of
 * that name, the atom first. For other keys give the term. An {@link optional} value may be
 * missing.
 */
export function field<T>(key: string | Term, value: Decoder<T>): Decoder<T> {
    wanted(value);
    const terms = typeof key === "string" ? [new Atom(key), Binary.of(key)] : [key];
    const name = terms[0] instanceof Atom ? terms[0].name : show(terms[0]);
    // The keys for the search in a map. The decoder makes them only once.
    const [first, second = first] = terms.map(canonical);
    const wants = `a map with the key ${name}`;
    return new Decoder(wants, (found) => {
        const isMap = found instanceof ErlMap;
        const isRecord = found instanceof ErlRecord;
        const held = isMap
            ? (found.at(first) ?? found.at(second))
            : isRecord && terms[0] instanceof Atom
              ? found.get(name)
              : undefined;
        if (held !== undefined) return under(name, value, held);
        return value.absent && (isMap || isRecord) ? value.absent() : refuse(wants, found);
    });
}

/**
 * Gives a field a fallback for a missing key, in {@link field}, {@link object} and similar
 * decoders. They look only at the outermost decoder of a field, so `nullable(optional(...))` has no
 * fallback.
 */
export function optional<T, F>(value: Decoder<T>, fallback: F): Decoder<T | F> {
    return new Decoder<T | F>(wanted(value), value.take, () => fallback);
}

/**
 * Accepts the value at the end of a path of keys (as in {@link field}) and positions (as in {@link
 * index}).
 */
export function at<T>(path: readonly (string | number)[], value: Decoder<T>): Decoder<T> {
    return path.reduceRight<Decoder<T>>(
        (inner, step) => (typeof step === "number" ? index(step, inner) : field(step, inner)),
        value,
    );
}

/** Accepts a map or native record with at least these fields, as an object. */
export function object<T extends object>(fields: Fields<T>): Decoder<T> {
    const decoders = entries(fields).map(([name, value]) => [name, field(name, value)] as const);
    return new Decoder("a map", (found) =>
        made<T>(decoders.map(([name, value]) => [name, value.take(found)])),
    );
}

/**
 * Accepts a property list with at least these fields, as an object. A property list has pairs
 * `{name, Value}`; an atom `name` means `{name, true}`. The first entry with a name counts, as in
 * the proplists module. The decoder skips other elements. An {@link optional} field may be missing.
 */
export function proplist<T extends object>(fields: Fields<T>): Decoder<T> {
    const decoders = entries(fields);
    const wants = "a property list";
    return new Decoder(wants, (found) => {
        if (!isList(found)) refuse(wants, found);
        const held = new Map<string, Term>();
        for (const item of found) {
            const isPair = item instanceof Tuple && item.elements.length === 2;
            const [key, value] = isPair ? item.elements : [item, new Atom("true")];
            if (key instanceof Atom && !held.has(key.name)) held.set(key.name, value);
        }
        return made<T>(
            decoders.map(([name, value]) => {
                const term = held.get(name);
                if (term !== undefined) return [name, under(name, value, term)];
                if (!value.absent) refuse(`${wants} with ${name}`, found);
                return [name, value.absent()];
            }),
        );
    });
}

/** Decoders by name, in order. */
function entries<T>(fields: Fields<T>): [string, Decoder<unknown>][] {
    checkFields(fields);
    const named = Object.entries(fields as { [name: string]: Decoder<unknown> });
    for (const [, value] of named) wanted(value);
    return named;
}

/** Makes an object with these own properties. `__proto__` is an ordinary name here. */
function made<T>(properties: (readonly [string, unknown])[]): T {
    const object: { [name: string]: unknown } = {};
    for (const [name, value] of properties) {
        // This takes twice as long as an assignment, but it sets no prototype.
        if (name === "__proto__") return Object.fromEntries(properties) as T;
        object[name] = value;
    }
    return object as T;
}

/** Accepts a map with keys of one kind and values of one kind, as a Map. */
export function dict<K, V>(key: Decoder<K>, value: Decoder<V>): Decoder<Map<K, V>> {
    wanted(key);
    wanted(value);
    return new Decoder("a map", (found) => {
        if (!(found instanceof ErlMap)) refuse("a map", found);
        let work = 0;
        const map = new Map(
            Array.from(found, ([k, v], at) => {
                const name = under(() => `key ${show(k)}`, key, k);
                // Engines hash a BigInt by its last 64 bits alone, so they may compare each with
                // all.
                if (typeof name === "bigint") work += at * ((name.toString(16).length - 2) >> 4);
                if (work > 1 << 24) refuse("a map of fewer large keys", found);
                const step = () => (typeof name === "string" ? name : show(k));
                return [name, under(step, value, v)];
            }),
        );
        return map.size < found.size ? refuse("a map whose keys stay different", found) : map;
    });
}

/**
 * Accepts a record as `-record` defines it: a tuple with the name first and the fields in this
 * order. (Use {@link nativeRecord} or {@link object} for a native record of OTP 29.)
 */
export function record<T extends object>(name: string, fields: Fields<T>): Decoder<T> {
    checkOrder(fields);
    const decoders = entries(fields);
    return composed(`a record ${name} of ${decoders.length} fields`, (found) => {
        if (!(found instanceof Tuple) || found.elements.length !== decoders.length + 1)
            return false;
        const [tag, ...values] = found.elements;
        if (!(tag instanceof Atom) || tag.name !== name) return false;
        return made<T>(
            decoders.map(([field, value], at) => [field, under(field, value, values[at])]),
        );
    });
}

/** Accepts a native record of this module and name, with at least these fields. */
export function nativeRecord<T extends object>(
    module: string,
    name: string,
    fields: Fields<T>,
): Decoder<T> {
    const inner = object<T>(fields);
    return composed(
        `a native record ${module}:${name}`,
        (found) =>
            found instanceof ErlRecord &&
            found.module.name === module &&
            found.name.name === name &&
            inner.take(found),
    );
}

/**
 * Tries these decoders in order, and uses the first that accepts the term. If none does, the
 * failure comes from the decoder that accepted the most values. Among decoders with the same number
 * it comes from the one that looked deepest. If several of these failed at the same place, the
 * failure names the expected terms of all of them.
 */
export function oneOf<T extends readonly unknown[]>(...choices: Decoders<T>): Decoder<T[number]> {
    wanted(choices[0]);
    const wants = choices.map(wanted).join(", or ");
    return new Decoder<T[number]>(wants, (found) => {
        const before = accepted;
        let best: Failure | undefined;
        for (const choice of choices) {
            accepted = before;
            try {
                return choice.take(found);
            } catch (error) {
                const failure = caught(error);
                best = best ? farther(best, failure) : failure;
            }
        }
        accepted = best!.after;
        throw best;
    });
}

function farther(a: Failure, b: Failure): Failure {
    const ahead = a.after - b.after || a.path.length - b.path.length;
    accepted = a.after;
    if (ahead !== 0 || a.path.join() !== b.path.join()) return ahead < 0 ? b : a;
    return new Failure([...new Set([...a.wants, ...b.wants])], a.found, a.path);
}

/** Accepts the value, or null for the atoms nil, null and undefined. */
export function nullable<T>(value: Decoder<T>): Decoder<T | null> {
    return new Decoder<T | null>(`${wanted(value)} or nil`, (found) =>
        found instanceof Atom && ["nil", "null", "undefined"].includes(found.name)
            ? null
            : value.take(found),
    );
}

/**
 * Passes the values of any number of decoders of the same term to `change`, and gives its result.
 */
export function map<A extends readonly unknown[], T>(
    change: (...values: NoInfer<A>) => T,
    ...decoders: Decoders<A>
): Decoder<T> {
    const wants = decoders.map(wanted).join(" and ");
    if (typeof change !== "function") missing("a function");
    return new Decoder(wants, (found) =>
        change(...(decoders.map((decoder) => decoder.take(found)) as unknown as A)),
    );
}

/** Continues with a decoder that depends on the value. It reads the same term. */
export function andThen<A, T>(first: Decoder<A>, next: (value: A) => Decoder<T>): Decoder<T> {
    return new Decoder(wanted(first), (found) => {
        const second = next(first.take(found));
        wanted(second);
        return second.take(found);
    });
}

/** Returns the result of a lazy decoder for a term again, and counts its accepted values. */
type Known = readonly [again: () => unknown, accepted: number];
/** The results of the lazy decoders for each term in the current call. */
let outcomes = new Map<Decoder<unknown>, Map<Term, Known>>();

/**
 * Makes a decoder at its first use, for forms that contain themselves. It reads each term once in a
 * call, because otherwise the time of alternatives with a common beginning would double with each
 * level. So several alternatives may get the same value. A decoder that calls itself before it
 * looks into the term throws a TypeError when you use it.
 */
export function lazy<T>(make: () => Decoder<T>): Decoder<T> {
    let inner: Decoder<T> | undefined;
    const decoder: Decoder<T> = new Decoder("a term of this kind", (found) => {
        if (!inner) wanted((inner = make()));
        let mine = outcomes.get(decoder);
        if (!mine) outcomes.set(decoder, (mine = new Map()));
        const known = mine.get(found);
        if (known) {
            accepted += known[1];
            return known[0]() as T;
        }
        mine.set(found, begun);
        const before = accepted;
        let again: () => unknown;
        try {
            const value = inner.take(found);
            again = () => value;
        } catch (error) {
            const { wants, found, path } = caught(error);
            again = () => {
                throw new Failure(wants, found, [...path]);
            };
        }
        // The same number or atom may occur in several places.
        if (typeof found !== "object" || found instanceof Atom) mine.delete(found);
        else mine.set(found, [again, accepted - before]);
        return again() as T;
    });
    return decoder;
}

/** The result of a lazy decoder for a term that it is still reading: an error. */
const begun: Known = [
    () => {
        throw new TypeError("a lazy decoder begins with itself");
    },
    0,
];
