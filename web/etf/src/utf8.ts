/**
 * Converts UTF-8 in both directions. It checks as `TextDecoder` with `fatal` does, and keeps a byte
 * order mark.
 */
import { EtfError, kindName, noTerm } from "./error.js";

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
/** @internal */
export const encoder = /* @__PURE__ */ new TextEncoder();

/** Up to so many bytes {@link decodeByHand} is faster than the platform (bench/etf/strings.js). */
const SHORT = 48;

/** Returns whether a value is a Uint8Array, also one of another window or of Node's vm. */
export function isBytes(value: unknown): value is Uint8Array {
    return ArrayBuffer.isView(value) && (value as Uint8Array)[Symbol.toStringTag] === "Uint8Array";
}

/** Refuses an argument that is not a Uint8Array. `what` is its name in the message. */
export function checkBytes(value: unknown, what: string): asserts value is Uint8Array {
    if (!isBytes(value))
        throw new TypeError(`${what} must be a Uint8Array, not ${kindName(value)}`);
}

/** Decodes the text in bytes[start, end), which must be UTF-8. */
export function decodeUtf8(bytes: Uint8Array, start: number, end: number): string {
    const text = utf8Text(bytes, start, end);
    if (text === undefined)
        throw new EtfError("utf8", 'not UTF-8: a binary needs binaries: "either"', start);
    return text;
}

/**
 * Decodes text, or returns undefined if it is not UTF-8. To throw an error would take as long as to
 * decode a hundred texts.
 */
export function utf8Text(bytes: Uint8Array, start: number, end: number): string | undefined {
    let text: string | undefined;
    if (end - start > SHORT) {
        text = decoder.decode(bytes.subarray(start, end));
        // The decoder writes U+FFFD for bytes that are not UTF-8. The bytes may also contain it.
        if (!text.includes("\ufffd")) return text;
    }
    return decodeByHand(bytes, start, end, text);
}

const units: number[] = [];

/**
 * Checks each byte. Returns undefined if the bytes are not UTF-8 (overlong forms and surrogates are
 * not). Otherwise returns `text`, or without `text` the decoded text if it is short.
 */
function decodeByHand(
    bytes: Uint8Array,
    start: number,
    end: number,
    text?: string,
): string | undefined {
    let at = start;
    let count = 0;
    while (at < end) {
        const lead = bytes[at++];
        if (lead < 0x80) {
            units[count++ & 63] = lead;
            continue;
        }
        if (lead < 0xc2 || lead > 0xf4) return undefined;
        const more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
        if (at + more > end) return undefined;
        let point = lead & (0x3f >> more);
        for (let i = 0; i < more; i++) {
            const next = bytes[at++];
            if ((next & 0xc0) !== 0x80) return undefined;
            point = (point << 6) | (next & 0x3f);
        }
        // Two bytes cannot be too many, because no lead byte is less than 0xc2.
        if (point < 1 << (5 * more + 1) || point > 0x10ffff || point >> 11 === 0x1b)
            return undefined;
        if (more === 3) {
            units[count++ & 63] = 0xd7c0 + (point >> 10);
            point = 0xdc00 + (point & 0x3ff);
        }
        units[count++ & 63] = point;
    }
    return text ?? String.fromCharCode.apply(undefined, units.slice(0, count));
}

/** Decodes bytes[start, end) with one character for each byte, as in ISO 8859-1. */
export function latin1Text(bytes: Uint8Array, start = 0, end = bytes.length): string {
    let text = "";
    for (let at = start; at < end; at += 4096) {
        const piece = bytes.subarray(at, Math.min(at + 4096, end));
        text += String.fromCharCode.apply(undefined, piece as never);
    }
    return text;
}

/** Encodes a text in UTF-8. A lone surrogate has no bytes, and is an EtfError of code `encode`. */
export function encodeUtf8(text: string): Uint8Array {
    const bytes = encoder.encode(text);
    checkSurrogates(text, bytes.length);
    return bytes;
}

/** Returns the code points of a text. */
export function codePoints(text: string): number[] {
    return Array.from(text, (character) => character.codePointAt(0)!);
}

/** Counts the bytes of a text in UTF-8. */
export function utf8Length(text: string): number {
    let length = text.length;
    for (let i = 0; i < text.length; i++) {
        const unit = text.charCodeAt(i);
        if (unit < 0x80) continue;
        // A surrogate pair is two units and four bytes: two for each.
        length += unit < 0x800 || (unit & 0xf800) === 0xd800 ? 1 : 2;
    }
    return length;
}

/**
 * Refuses a text with a lone surrogate: the platform's encoder would write U+FFFD for it and report
 * nothing. Only a text with more bytes than UTF-16 units can contain one.
 */
export function checkSurrogates(text: string, encodedLength: number): void {
    if (encodedLength === text.length) return;
    if (hasLone(text)) throw noTerm("the text has a lone surrogate");
}

/** Matches a lone surrogate: with the flag u, a pair is one code point, which does not match. */
const lone = /[\ud800-\udfff]/u;

function hasLone(text: string): boolean {
    // Node 20 and the browsers of 2023 have this function, which is many times as fast.
    const { isWellFormed } = text as { isWellFormed?: () => boolean };
    return isWellFormed ? !isWellFormed.call(text) : lone.test(text);
}
