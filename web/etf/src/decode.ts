/**
 * Decodes only, for pages that only listen.
 *
 * This is the entry point `@whittle/etf/decode`. It contains no inflate. Pass one
 * (`@whittle/etf/inflate` has it) if you expect compressed terms.
 * @module
 */
import { EtfError } from "./error.js";
import type { Limits } from "./limits.js";
import { ModelReader } from "./model.js";
import { checkOptions, type Choices } from "./options.js";
import { PlainReader, type PlainOptions } from "./plain.js";
import type { Inflate, Prefix, Reader } from "./reader.js";
import type { Term } from "./term.js";

export { EtfError, type EtfErrorCode } from "./error.js";
export { defaultLimits, MAX_DEPTH, type Limits } from "./limits.js";
export { ErlMap } from "./map.js";
export type { PlainOptions } from "./plain.js";
export type { Inflate, Prefix } from "./reader.js";
export * from "./term.js";

/**
 * Turns bytes into terms. A decoder remembers keys, atoms and short strings between calls. So one
 * decoder for many messages is faster than one for each message. It holds no input between calls.
 */
export interface TermDecoder<T> {
    /**
     * Decodes the one term in `bytes`. Throws an EtfError for anything else.
     * @param bytes the bytes that `term_to_binary` writes, including the leading 131. Binaries that
     * become bytes share this memory, so do not change `bytes` while you use the result.
     */
    decode(bytes: Uint8Array): T;
    /** Decodes the first term in `bytes`, and gives the number of its bytes. */
    decodePrefix(bytes: Uint8Array): Prefix<T>;
}

/** The options that every decoder has. */
export interface ReaderOptions {
    /** Limits that differ from {@link defaultLimits}. */
    readonly limits?: Partial<Limits>;
    /** Inflates compressed terms. Without it the decoder refuses them, with the code `inflate`. */
    readonly inflate?: Inflate;
}

/** The options of a decoder of the plain view. */
export interface DecodeOptions extends ReaderOptions, PlainOptions {}

const termChoices: Choices<ReaderOptions> = { limits: undefined, inflate: "function" };
// This does not spread the object above, because esbuild keeps a spread even if nothing uses it.
const plainChoices: Choices<DecodeOptions> = {
    limits: undefined,
    inflate: "function",
    atoms: '"string"|"symbol"|"class"',
    binaries: '"text"|"bytes"|"either"',
    maps: '"object"|"map"',
    tuples: '"array"|"class"',
    charlists: '"array"|"text"',
    proplists: "false|true",
    records: undefined,
    structs: '"keep"|"drop"',
    codegen: "false|true",
};

/**
 * Makes a decoder of the plain view. Its results are `unknown`: check them, or use a typed decoder.
 */
export function plainDecoder(options: DecodeOptions = {}): TermDecoder<unknown> {
    checkOptions(options, plainChoices);
    return decoderOf(new PlainReader(options));
}

/** Makes a decoder of the term model. */
export function termDecoder(options: ReaderOptions = {}): TermDecoder<Term> {
    checkOptions(options, termChoices);
    return decoderOf(new ModelReader(options));
}

function decoderOf<T>(reader: Reader<T, unknown, unknown>): TermDecoder<T> {
    return {
        decode(bytes) {
            const { value, used } = reader.read(bytes);
            if (used < bytes.length) throw new EtfError("trailing", "bytes follow the term", used);
            return value;
        },
        decodePrefix: (bytes) => reader.read(bytes),
    };
}
