/**
 * Decoding alone, for pages that only listen: the entry point `@whittle/etf/decode`. It holds no
 * inflate: pass one (`@whittle/etf/inflate` has it) where compressed terms are expected.
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

/** What every decoder is made with. */
export interface ReaderOptions {
    /** Limits that differ from {@link defaultLimits}. */
    readonly limits?: Partial<Limits>;
    /** What inflates compressed terms. Without it they are refused, with the code `inflate`. */
    readonly inflate?: Inflate;
}

/** What a decoder of the plain view is made with. */
export interface DecodeOptions extends ReaderOptions, PlainOptions {}

const termChoices: Choices<ReaderOptions> = { limits: undefined, inflate: "function" };
// No spread of the one before, which esbuild would keep where it is not used.
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

/** A decoder of the plain view. Its results are `unknown`: check them, or use a typed decoder. */
export function plainDecoder(options: DecodeOptions = {}): TermDecoder<unknown> {
    checkOptions(options, plainChoices);
    return decoderOf(new PlainReader(options));
}

/** A decoder of the term model. */
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
