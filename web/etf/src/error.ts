import type { Limits } from "./limits.js";

/**
 * Names the kind of an error:
 * - `truncated`: the input ends inside a term;
 * - `version`: the input does not start with 131;
 * - `tag`: no term starts with this byte, or such a term is not allowed here;
 * - `value`: a field holds a value that its tag forbids (a NaN, an arity that is not an integer);
 * - `utf8`: bytes that must be text are not UTF-8;
 * - `duplicate`: a map or a record has the same key twice;
 * - `key`: a JavaScript object cannot safely hold a map key;
 * - `inflate`: compressed data is damaged or does not have the announced size;
 * - `limit`: the input is larger or deeper than {@link Limits} allow;
 * - `trailing`: bytes follow the term;
 * - `encode`: a value has no external form;
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

/**
 * Reports bad input. This package throws no other error for it. Misuse of an option is a TypeError.
 */
export class EtfError extends Error {
    override readonly name = "EtfError";
    /**
     * @param code the kind of the fault
     * @param reason a description of the fault
     * @param offset the position of the fault in the input (in compressed terms: in the inflated
     *   bytes), or -1 if the fault has no position, as in encoding
     */
    constructor(
        readonly code: EtfErrorCode,
        readonly reason: string,
        readonly offset: number,
    ) {
        super(offset < 0 ? reason : `${reason} (at byte ${offset})`);
    }
}

/** @internal The error of an exceeded limit. */
export function overLimit(name: keyof Limits, limits: Partial<Limits>, offset: number): EtfError {
    return new EtfError("limit", `the term exceeds ${name} (${limits[name]})`, offset);
}

/** @internal The error of a compressed term. */
export function badStream(reason: string, offset: number): EtfError {
    return new EtfError("inflate", `compressed data is ${reason}`, offset);
}

/** @internal The error of a value without a term. */
export function noTerm(reason: string): EtfError {
    return new EtfError("encode", reason, -1);
}

/** @internal The error of a buffer that ends before the term. */
export function noSpace(): EtfError {
    return new EtfError("space", "the buffer is too small", -1);
}

/**
 * @internal Tells whether an error means, in any engine's text, that the JavaScript stack is full.
 */
export function isOverflow(error: unknown): boolean {
    return (
        error instanceof Error && /^(Range|Internal)Error.*(stack|recursion)/i.test(String(error))
    );
}

/**
 * @internal Returns the error that the encoder throws: a special one if the stack was full.
 */
export function tooDeep(error: unknown): unknown {
    return isOverflow(error) ? noTerm("too deep, or holds itself") : error;
}

/**
 * @internal Names a value of a wrong kind for messages: its class, or its type.
 */
export function kindName(value: unknown): string {
    if (value === null) return "null";
    if (typeof value !== "object") return typeof value;
    return String(value.constructor?.name || "nameless object");
}

/**
 * @internal Escapes text for messages as Erlang does (`x`) or as JavaScript does (`u`). Otherwise a
 * line end, a color or a text direction in the text could look like a part of the message.
 */
export function escaped(text: string, as = "x"): string {
    return text.replace(
        /[\p{C}\u2028\u2029]/gu,
        (control) => `\\${as}{${control.codePointAt(0)!.toString(16)}}`,
    );
}

/**
 * @internal Writes a step on the path to a part, as JavaScript does.
 */
export function stepText(step: string | number): string {
    return /^[a-z_$][\w$]*$/i.test(String(step))
        ? `.${step}`
        : `[${escaped(JSON.stringify(step), "u")}]`;
}

/**
 * @internal Makes the error of a part of a value. The part is at this step of the path.
 */
export function atStep(step: string | number, error: unknown): unknown {
    if (!(error instanceof EtfError)) return error;
    // The path begins here or continues.
    return noTerm(
        error.reason.replace(/^at (?=[.[])|^/, (at) => `at ${stepText(step)}${at ? "" : ": "}`),
    );
}
