/**
 * Decoding alone: the entry point `@whittle/etf/decode`, for pages that only listen.
 * @module
 */
import { EtfError } from "./error.js";
import { checkedLimits, type Limits } from "./limits.js";
import { ModelReader } from "./model.js";
import { PlainReader, type PlainOptions } from "./plain.js";
import type { Prefix } from "./reader.js";
import type { Term } from "./term.js";

export { EtfError, type EtfErrorCode } from "./error.js";
export { defaultLimits, MAX_DEPTH, type Limits } from "./limits.js";
export { ErlMap } from "./map.js";
export type { PlainOptions } from "./plain.js";
export type { Prefix } from "./reader.js";
export * from "./term.js";

/**
 * Turns bytes into terms, again and again. A decoder remembers keys, atoms and short strings
 * between calls, so one that is kept is faster than one made for each message. It holds no input
 * between calls.
 */
export interface TermDecoder<T> {
    /**
     * The one term that `bytes` hold. Throws an EtfError for anything else.
     * @param bytes as `term_to_binary` writes them, the leading 131 included. Binaries that come
     *   out as bytes share their memory, so leave them unchanged while those are used.
     */
    decode(bytes: Uint8Array): T;
    /** The first term in `bytes`, and how many bytes it took. */
    decodePrefix(bytes: Uint8Array): Prefix<T>;
}

/** What a decoder is made with: limits, and how the plain view looks. */
export interface DecodeOptions extends PlainOptions {
    /** Limits that differ from {@link defaultLimits}. */
    readonly limits?: Partial<Limits>;
}

/** A decoder of the plain view. Its results are `unknown`: check them, or use a typed decoder. */
export function plainDecoder(options: DecodeOptions = {}): TermDecoder<unknown> {
    return decoderOf(new PlainReader(options, checkedLimits(options.limits)));
}

/** A decoder of the term model. */
export function termDecoder(options: { readonly limits?: Partial<Limits> } = {}): TermDecoder<Term> {
    return decoderOf(new ModelReader(checkedLimits(options.limits)));
}

function decoderOf<T>(reader: { read(bytes: Uint8Array): Prefix<T> }): TermDecoder<T> {
    return {
        decode(bytes) {
            const { value, used } = reader.read(bytes);
            if (used < bytes.length) throw new EtfError("trailing", "bytes follow the term", used);
            return value;
        },
        decodePrefix: (bytes) => reader.read(bytes),
    };
}

let plain: TermDecoder<unknown> | undefined;
let model: TermDecoder<Term> | undefined;

/** Decodes one term into the plain view with default options: maps to objects, binaries to strings. */
export function decode(bytes: Uint8Array): unknown {
    return (plain ??= plainDecoder()).decode(bytes);
}

/** Decodes one term into the term model. */
export function decodeTerm(bytes: Uint8Array): Term {
    return (model ??= termDecoder()).decode(bytes);
}
