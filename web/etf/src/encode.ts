/**
 * Writes values in the external term format, byte for byte as `term_to_binary` writes them.
 * Plain values and the term model may be mixed freely.
 */
import { sized, type Bytes } from "./bytes.js";
import { noSpace } from "./error.js";
import { Output } from "./output.js";
import { Tag } from "./tags.js";
import { checkBytes, isBytes } from "./utf8.js";
import type { ImproperList, Term, Tuple } from "./term.js";

/** How plain JavaScript values are written, and in which variant of the format. */
export interface EncodeOptions {
    /** What the names of an object's properties become: `binary` (default) or `atom`. */
    readonly keys?: "binary" | "atom";
    /** What JavaScript's null becomes: the atom `null` (default), `nil` (Elixir) or `undefined`. */
    readonly null?: "null" | "nil" | "undefined";
    /**
     * Whether equal terms always have equal bytes: maps are written in the order of their keys,
     * as with Erlang's option of that name. (What a decoder read keeps its form where there are
     * two: a port, say, that came in one of OTP 23's.) Default false: in the order in which they come.
     */
    readonly deterministic?: boolean;
    /**
     * Erlang's `minor_version`: 2 (default), 1 (atoms in Latin-1 where they can be), 0 (floats as
     * text, too).
     */
    readonly minorVersion?: 0 | 1 | 2;
    /**
     * Compresses into a zlib stream, `zlib.deflateSync` for example. The result is used where it
     * is smaller. Default none: compressing synchronously needs more code than all the rest.
     */
    readonly deflate?: (bytes: Uint8Array) => Uint8Array;
    /**
     * Whether objects may be read by generated code, which is faster. Default: where the page
     * allows it.
     */
    readonly codegen?: boolean;
}

/**
 * What can be encoded: terms; and strings (binaries), booleans, null and undefined (atoms),
 * symbols (atoms), Uint8Array (binaries), Map, arrays (lists) and objects (maps) of such.
 * Whole numbers become integers; write `new Float(1)` for 1.0.
 */
export type Encodable =
    | Term
    | string
    | boolean
    | null
    | undefined
    | symbol
    | Uint8Array
    | readonly Encodable[]
    | Tuple<readonly Encodable[]>
    | ImproperList<Encodable>
    | ReadonlyMap<Encodable, Encodable>
    | { readonly [key: string]: Encodable };

export type { Bytes } from "./bytes.js";

/** Turns values into bytes, again and again; one that is kept remembers the keys it wrote. */
export interface TermEncoder {
    /**
     * The bytes of a value, the leading 131 included. Throws an EtfError of code `encode` for what
     * has no term.
     */
    encode(value: Encodable): Bytes;
    /**
     * Writes into the caller's buffer from `offset` (default 0) on and returns how many bytes it
     * wrote. Where they do not fit it throws an EtfError of code `space`, and writes none.
     */
    encodeInto(value: Encodable, buffer: Uint8Array, offset?: number): number;
}

/** An encoder with these options. */
export function encoder(options: EncodeOptions = {}): TermEncoder {
    let idle: Output | undefined = new Output(options);
    const { deflate } = options;
    // What encodes while this encodes, as a getter may, does so with an output of its own.
    const using = <T>(run: (output: Output) => T): T => {
        const output = idle ?? new Output(options);
        idle = undefined;
        try {
            return run(output);
        } finally {
            output.rest();
            idle = output;
        }
    };
    const encode = (value: Encodable): Bytes => {
        const bytes = using((output) => output.fresh(value));
        return deflate ? compressed(bytes, deflate) : bytes;
    };
    return {
        encode,
        encodeInto(value, buffer, offset = 0) {
            checkBytes(buffer, "the buffer");
            if (!(Number.isInteger(offset) && offset >= 0 && offset <= buffer.length))
                throw new TypeError("the offset is outside the buffer");
            const bytes = deflate ? encode(value) : using((output) => output.written(value));
            if (bytes.length > buffer.length - offset) throw noSpace();
            buffer.set(bytes, offset);
            return bytes.length;
        },
    };
}

/** The term as a compressed one, if that is smaller. */
function compressed(bytes: Bytes, deflate: (bytes: Uint8Array) => Uint8Array): Bytes {
    const stream = deflate(bytes.subarray(1));
    // Its first two bytes: the method, and a number that both make a multiple of 31.
    if (!isBytes(stream) || (stream[0] & 15) !== 8 || ((stream[0] << 8) | stream[1]) % 31 !== 0)
        throw new TypeError("deflate must return a zlib stream");
    const whole = sized([Tag.Version, Tag.Compressed], bytes.length - 1, stream);
    return whole.length < bytes.length ? whole : bytes;
}

let standard: TermEncoder | undefined;

/** Encodes one value with default options. */
export function encode(value: Encodable): Bytes {
    return (standard ??= encoder()).encode(value);
}

/**
 * Encodes one value into the caller's buffer with default options; see {@link
 * TermEncoder.encodeInto}.
 */
export function encodeInto(value: Encodable, buffer: Uint8Array, offset?: number): number {
    return (standard ??= encoder()).encodeInto(value, buffer, offset);
}
