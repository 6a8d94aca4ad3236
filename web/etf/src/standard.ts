/** Makes the decoders of the main entry point, which inflate by themselves. */
import {
    plainDecoder as plainDecoderOf,
    termDecoder as termDecoderOf,
    type DecodeOptions,
    type ReaderOptions,
    type TermDecoder,
} from "./decode.js";
import { inflate } from "./inflate.js";
import { checkNames } from "./options.js";
import type { Term } from "./term.js";

/** Adds the package's inflate to these options, if they have none. */
function inflating<T extends ReaderOptions>(options: T): T {
    checkNames(options, options);
    const { inflate: own = inflate } = options;
    return { ...options, inflate: own };
}

/**
 * Makes a decoder of the plain view. Its results are `unknown`: check them, or use a typed decoder.
 */
export function plainDecoder(options: DecodeOptions = {}): TermDecoder<unknown> {
    return plainDecoderOf(inflating(options));
}

/** Makes a decoder of the term model. */
export function termDecoder(options: ReaderOptions = {}): TermDecoder<Term> {
    return termDecoderOf(inflating(options));
}

let plain: TermDecoder<unknown> | undefined;
let model: TermDecoder<Term> | undefined;

/**
 * Decodes one term into the plain view with default options: maps to objects, binaries to
 * strings.
 */
export function decode(bytes: Uint8Array): unknown {
    return (plain ??= plainDecoder()).decode(bytes);
}

/** Decodes one term into the term model. */
export function decodeTerm(bytes: Uint8Array): Term {
    return (model ??= termDecoder()).decode(bytes);
}
