import type { Limits } from "./limits.js";

/**
 * What went wrong, in one word:
 * - `truncated`: the input ends inside a term;
 * - `version`: the input does not start with 131;
 * - `tag`: a byte that starts no term, or no term allowed in this place;
 * - `value`: a field holds what its tag forbids (a NaN, an arity that is no integer);
 * - `utf8`: text that is not UTF-8;
 * - `duplicate`: a map or a record has the same key twice;
 * - `key`: a map key that a JavaScript object cannot hold safely;
 * - `inflate`: compressed data that is damaged or not of the promised size;
 * - `limit`: larger or deeper than {@link Limits} allow;
 * - `trailing`: bytes after the term;
 * - `encode`: a value that has no external form;
 * - `space`: the caller's buffer is too small.
 */
export type EtfErrorCode =
    | "truncated"
    | "version"
    | "tag"
    | "value"
    | "utf8"
    | "duplicate"
    | "key"
    | "inflate"
    | "limit"
    | "trailing"
    | "encode"
    | "space";

/** The one error that this package throws for bad input. Misuse of an option is a TypeError. */
export class EtfError extends Error {
    override readonly name = "EtfError";
    /**
     * @param code what kind of fault it is
     * @param reason the same in words
     * @param offset the byte where it was found (in compressed terms: of the inflated bytes),
     *   or -1 where no byte is to blame, as when encoding
     */
    constructor(
        readonly code: EtfErrorCode,
        readonly reason: string,
        readonly offset: number,
    ) {
        super(offset < 0 ? reason : `${reason} (at byte ${offset})`);
    }
}

/** @internal The error of a limit that was passed. */
export function overLimit(name: keyof Limits, limits: Partial<Limits>, offset: number): EtfError {
    return new EtfError("limit", `the term exceeds ${name} (${limits[name]})`, offset);
}

/** @internal The error of a compressed term. */
export function badStream(reason: string, offset: number): EtfError {
    return new EtfError("inflate", `compressed data is ${reason}`, offset);
}

/** @internal The error of a value that has no term. */
export function noTerm(reason: string): EtfError {
    return new EtfError("encode", reason, -1);
}

/** @internal The error of a buffer that ends before the term. */
export function noSpace(): EtfError {
    return new EtfError("space", "the buffer is too small", -1);
}

/** @internal Whether an error says, in any engine's words, that the JavaScript stack is used up. */
export function isOverflow(error: unknown): boolean {
    return (
        error instanceof Error && /^(Range|Internal)Error.*(stack|recursion)/i.test(String(error))
    );
}

/** @internal What encoding throws in the place of an error: another one where the stack is used up. */
export function tooDeep(error: unknown): unknown {
    return isOverflow(error) ? noTerm("too deep, or holds itself") : error;
}

/** @internal What messages call a value that is not what is wanted: its class, or its type. */
export function kindName(value: unknown): string {
    if (value === null) return "null";
    if (typeof value !== "object") return typeof value;
    return String(value.constructor?.name || "nameless object");
}

/**
 * @internal Text for messages, escaped as Erlang does it (`x`) or JavaScript (`u`): a line, a
 * colour or a direction of the text's own would pass for one of the message.
 */
export function escaped(text: string, as = "x"): string {
    return text.replace(
        /[\p{C}\u2028\u2029]/gu,
        (control) => `\\${as}{${control.codePointAt(0)!.toString(16)}}`,
    );
}

/** @internal A step on the way to a part, as JavaScript writes it. */
export function stepText(step: string | number): string {
    return /^[a-z_$][\w$]*$/i.test(String(step))
        ? `.${step}`
        : `[${escaped(JSON.stringify(step), "u")}]`;
}

/** @internal An error of encoding a part of a value, which is at this step on the way to it. */
export function atStep(step: string | number, error: unknown): unknown {
    if (!(error instanceof EtfError)) return error;
    // The way begins here, or goes on.
    return noTerm(
        error.reason.replace(/^at (?=[.[])|^/, (at) => `at ${stepText(step)}${at ? "" : ": "}`),
    );
}
