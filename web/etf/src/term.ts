/**
 * The term model: one JavaScript value for every Erlang term, without any loss. Integers are
 * numbers (BigInt past 2^53), and lists are arrays. Each other kind of term has a class here.
 *
 * Values are plain data: compare them with `equal` or `compare`, not with `===`. The field `brand`
 * of the classes exists only for TypeScript. Without it TypeScript would accept a function or an
 * Error as an atom, because these have a name. Constructors check little: the encoder refuses a
 * term that has no external form, such as `new Float(NaN)`.
 */
import { checkBytes, decodeUtf8, encodeUtf8, utf8Text } from "./utf8.js";
import type { ErlMap } from "./map.js";

/** Any Erlang term. */
export type Term =
    | number
    | bigint
    | Float
    | Atom
    | readonly Term[]
    | ImproperList
    | Tuple
    | ErlMap
    | Binary
    | BitBinary
    | Pid
    | Port
    | Reference
    | ExportFun
    | Fun
    | OldFun
    | ErlRecord
    | LocalTerm;

/** An atom. Two atoms are equal when their names are. */
export class Atom {
    declare protected readonly brand: undefined;
    /** @param name at most 255 characters */
    constructor(readonly name: string) {}
    /**
     * Returns the name, with quotes if it is not an atom of ASCII letters. Reserved words (`end`)
     * get no quotes. Control characters stay unchanged; `show` escapes them.
     */
    toString(): string {
        return /^[a-z][\w@]*$/.test(this.name)
            ? this.name
            : `'${this.name.replace(/['\\]/g, "\\$&")}'`;
    }
}

/**
 * A float, also with a whole value: Erlang's 1.0 is another term than 1. A decoded float is never
 * NaN or infinite, and encoders refuse such values.
 */
export class Float {
    declare protected readonly brand: undefined;
    constructor(readonly value: number) {}
    /** Returns the number, so that `+float` works. */
    valueOf(): number {
        return this.value;
    }
}

/** A tuple. */
export class Tuple<T extends readonly unknown[] = readonly Term[]> {
    declare protected readonly brand: undefined;
    constructor(readonly elements: T) {
        if (!Array.isArray(elements)) throw new TypeError("a tuple needs an array");
    }
}

/** A list whose last tail is not the empty list: `[1, 2 | tail]`. */
export class ImproperList<T = Term> {
    declare protected readonly brand: undefined;
    /**
     * @param items at least one
     * @param tail any term but a list. The constructor does not check it. If the tail is a list,
     *   the encoder writes the proper list that Erlang sees, but `equal` finds this term different
     *   from that list
     */
    constructor(
        readonly items: readonly T[],
        readonly tail: T,
    ) {}
}

/** A binary. A decoded binary is a view of the input and shares its memory. */
export class Binary {
    private constructor(
        private readonly source: Uint8Array,
        private readonly start: number,
        readonly length: number,
    ) {}
    /** @internal */
    static within(source: Uint8Array, start: number, length: number): Binary {
        return new Binary(source, start, length);
    }
    /** Makes a binary of these bytes (without a copy), or of this text in UTF-8. */
    static of(value: Uint8Array | string): Binary {
        const bytes = typeof value === "string" ? encodeUtf8(value) : value;
        checkBytes(bytes, "a binary");
        return new Binary(bytes, 0, bytes.length);
    }
    /** Returns the bytes as a view, without a copy. */
    get bytes(): Uint8Array {
        return this.source.subarray(this.start, this.start + this.length);
    }
    /** Returns the text. Throws an EtfError of code `utf8` for bytes that are not UTF-8. */
    text(): string {
        return decodeUtf8(this.source, this.start, this.start + this.length);
    }
    /**
     * @internal Returns the text, or undefined for bytes that are not UTF-8.
     */
    utf8(): string | undefined {
        return utf8Text(this.source, this.start, this.start + this.length);
    }
    /**
     * Returns the bytes as numbers, because JSON must not show the rest of the memory that they
     * share.
     */
    toJSON(): number[] {
        return [...this.bytes];
    }
}

/** A bit string whose length is not a multiple of 8. */
export class BitBinary {
    declare protected readonly brand: undefined;
    /**
     * @param bytes at least one. The encoder writes 0 for the unused low bits of the last byte
     * @param bits the number of used high bits in the last byte, 1 to 7
     */
    constructor(
        readonly bytes: Uint8Array,
        readonly bits: number,
    ) {}
}

/** A process identifier. */
export class Pid {
    declare protected readonly brand: undefined;
    constructor(
        readonly node: Atom,
        readonly id: number,
        readonly serial: number,
        readonly creation: number,
    ) {}
}

/** A port identifier. Its number is a BigInt only past 2^53. */
export class Port {
    declare protected readonly brand: undefined;
    /**
     * @param wide whether the encoder writes the number with 64 bits. OTP 29 always does so, OTP 25
     *   only for large numbers. Both forms are the same port
     */
    constructor(
        readonly node: Atom,
        readonly id: number | bigint,
        readonly creation: number,
        readonly wide = true,
    ) {}
}

/** A reference of one to five 32-bit words, in the order of the external format. */
export class Reference {
    declare protected readonly brand: undefined;
    constructor(
        readonly node: Atom,
        readonly creation: number,
        readonly words: readonly number[],
    ) {}
}

/** An external fun: `fun Module:Function/Arity`. */
export class ExportFun {
    declare protected readonly brand: undefined;
    constructor(
        readonly module: Atom,
        readonly fun: Atom,
        readonly arity: number,
    ) {}
}

/** A local fun as Erlang sends it: the place of its code, and the values of its environment. */
export class Fun<T = Term> {
    declare protected readonly brand: undefined;
    constructor(
        readonly module: Atom,
        readonly arity: number,
        /** 16 bytes that identify the module's code. */
        readonly uniq: Uint8Array,
        readonly index: number,
        readonly oldIndex: number,
        readonly oldUniq: number,
        /** The process that made the fun. */
        readonly pid: Pid,
        readonly free: readonly T[],
    ) {}
}

/** A fun from before OTP R8. Today's VM does not read it. */
export class OldFun<T = Term> {
    declare protected readonly brand: undefined;
    constructor(
        readonly module: Atom,
        readonly index: number,
        readonly uniq: number,
        readonly pid: Pid,
        readonly free: readonly T[],
    ) {}
}

/** A native record (OTP 29). Older records are tuples, and this is not one. */
export class ErlRecord {
    declare protected readonly brand: undefined;
    /** Fields are in the order of the definition; values[i] belongs to fields[i]. */
    constructor(
        readonly module: Atom,
        readonly name: Atom,
        readonly exported: boolean,
        readonly fields: readonly Atom[],
        readonly values: readonly Term[],
    ) {}
    /** Returns the value of a field, or undefined. */
    get(field: string): Term | undefined {
        return this.values[this.fields.findIndex(({ name }) => name === field)];
    }
}

/**
 * The result of `term_to_binary(Term, [local])`. Only the node that wrote it can read it, so this
 * class keeps its bytes. The format has no length for it, so it reaches to the end of the input.
 */
export class LocalTerm {
    declare protected readonly brand: undefined;
    constructor(readonly bytes: Uint8Array) {}
}

/** Returns whether a term is a list. `Array.isArray` does the same, but with the type `any[]`. */
export function isList(term: Term): term is readonly Term[] {
    return Array.isArray(term);
}

/** Makes an atom, as `new Atom(name)` does. */
export function atom(name: string): Atom {
    return new Atom(name);
}

/** Makes a tuple, as `new Tuple(elements)` does. */
export function tuple<T extends readonly unknown[]>(...elements: T): Tuple<T> {
    return new Tuple(elements);
}
