/**
 * Writes values in the external term format, with the same bytes as `term_to_binary`. You may mix
 * plain values and the term model.
 */
import { sized, type Bytes } from "./bytes.js";
import { noSpace } from "./error.js";
import { Output } from "./output.js";
import { Tag } from "./tags.js";
import { checkBytes, isBytes } from "./utf8.js";
import type { ImproperList, Term, Tuple } from "./term.js";

/** The options for plain JavaScript values and for the variant of the format. */
export interface EncodeOptions {
    /** The term for the names of an object's properties: `binary` (default) or `atom`. */
    readonly keys?: "binary" | "atom";
    /** The term for JavaScript's null: the atom `null` (default), `nil` (Elixir) or `undefined`. */
    readonly null?: "null" | "nil" | "undefined";
    /**
     * Whether equal terms always have equal bytes. Then maps are in the order of their keys, as
     * with Erlang's option of that name. (If a term has two forms, a decoded term keeps its
     * own, for example a port in the form of OTP 23.) Default false: maps keep the order of their
     * entries.
     */
    readonly deterministic?: boolean;
    /**
     * Erlang's `minor_version`: 2 (default), 1 (atoms in Latin-1 where possible), 0 (floats as
     * text, too).
     */
    readonly minorVersion?: 0 | 1 | 2;
    /**
     * Compresses into a zlib stream, for example `zlib.deflateSync`. The encoder uses the result if
     * it is smaller. Default none: a synchronous compressor would be larger than the whole package.
     */
    readonly deflate?: (bytes: Uint8Array) => Uint8Array;
    /**
     * Whether generated code may read objects, which is faster. Default: where the page allows it.
     */
    readonly codegen?: boolean;
}

/**
 * All values that the encoder accepts: terms, strings (binaries), booleans, null and undefined
 * (atoms), symbols (atoms), Uint8Array (binaries), and Map, arrays (lists) and objects (maps) of
 * such values. Whole numbers become integers. Write `new Float(1)` for 1.0.
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

/** Turns values into bytes. An encoder for many values remembers the keys that it wrote. */
export interface TermEncoder {
    /**
     * Encodes a value, with the leading 131. Throws an EtfError of code `encode` for a value
     * without a term.
     */
    encode(value: Encodable): Bytes;
    /**
     * Writes into the caller's buffer from `offset` (default 0) on, and returns the number of
     * written bytes. If they do not fit, it throws an EtfError of code `space` and leaves the
     * buffer unchanged.
     */
    encodeInto(value: Encodable, buffer: Uint8Array, offset?: number): number;
}

/** Makes an encoder with these options. */
export function encoder(options: EncodeOptions = {}): TermEncoder {
    let idle: Output | undefined = new Output(options);
    const { deflate } = options;
    // A getter may call the encoder during a call. The inner call uses its own output.
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

/** Gives the compressed form of the term, if it is smaller. */
function compressed(bytes: Bytes, deflate: (bytes: Uint8Array) => Uint8Array): Bytes {
    const stream = deflate(bytes.subarray(1));
    // The first two bytes are the method and a number. Both together are a multiple of 31.
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
