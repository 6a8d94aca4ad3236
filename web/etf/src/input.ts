/**
 * Turns bytes into text and numbers. An Input is a position in the bytes of one call;
 * {@link Reader} and its two views extend it.
 *
 * Short strings come from a *window*: the reader decodes up to {@link WINDOW} bytes of the input
 * into one JavaScript string at once. Each string in the window then costs only a `substring`, for
 * which engines call no platform function and mostly copy nothing. The reader takes only ASCII from
 * a window, so the text of other bytes does not matter. If the page keeps a string of 13 characters
 * or more, that string keeps its whole window in memory. So a window has no more than
 * {@link WINDOW} bytes.
 */
import { viewOf } from "./bytes.js";
import { EtfError } from "./error.js";
import { narrowed } from "./integer.js";
import { decodeUtf8 } from "./utf8.js";

/**
 * The largest number of bytes in a window. V8 moves strings of up to 128 kB when it collects
 * garbage, and does not move larger ones. A string of this size is the smallest that
 * `v8.getHeapSpaceStatistics` lists among the large objects (Node 20). bench/etf/README.md has the
 * costs of other sizes.
 */
const WINDOW = 131072;
/** The largest number of bytes of a string from a window. The platform decodes longer strings. */
const LONG = 1024;
/** The number of entries (a power of 2) in the table of strings of 4 to 12 bytes. */
const SLOTS = 2048;
/**
 * The reader empties the table after windows of so many bytes, because its strings may keep them in
 * memory.
 */
const KEPT = 0x400000;
/** The highest bits of four bytes. ASCII sets none of them. */
const HIGH_BITS = 0x80808080 | 0;

type Latin1Slice = (this: Uint8Array, start: number, end: number) => string;

/** Node's (and Bun's) own conversion, where it exists. Its result is the same. */
const latin1Slice = (globalThis as { Buffer?: { prototype: { latin1Slice?: Latin1Slice } } }).Buffer
    ?.prototype.latin1Slice;

/** For `latin1` this decodes windows-1252: one character for each byte, and ASCII for ASCII. */
const bytewise = new TextDecoder("latin1");

/** Makes the text of one window. */
const windowText: (bytes: Uint8Array, start: number, end: number) => string = latin1Slice
    ? (bytes, start, end) => latin1Slice.call(bytes, start, end)
    : maskedText;

const masked = new Uint8Array(latin1Slice ? 0 : WINDOW);
const maskedWords = new Int32Array(masked.buffer);

/**
 * The code clears the high bits first, because text of only ASCII takes half the memory and is
 * faster.
 */
function maskedText(bytes: Uint8Array, start: number, end: number): string {
    masked.set(bytes.subarray(start, end));
    const words = (end - start + 3) >> 2;
    for (let i = 0; i < words; i++) maskedWords[i] &= 0x7f7f7f7f;
    return bytewise.decode(masked.subarray(0, end - start));
}

const noBytes = new Uint8Array(0);

/** Spreads the bits of a word to the higher bits. */
function spread(word: number): number {
    return Math.imul(word, 0x9e3779b1);
}

/** A position in the input, with the methods to read the bytes there. */
export abstract class Input {
    /** The `slice` of Node's Buffer copies nothing, so this uses `new Uint8Array`. */
    protected buf!: Uint8Array;
    protected view!: DataView;
    protected pos!: number;
    protected end!: number;

    private windowStart!: number;
    private windowEnd!: number;
    private window!: string;

    // The table of short strings. Four words identify a string: its bytes, and last its length.
    private readonly slotWords = new Int32Array(SLOTS * 4);
    private readonly slotTexts: string[] = new Array<string>(SLOTS).fill("");
    private windowed = 0;

    constructor() {
        this.load(noBytes);
    }

    /** Starts with other bytes. */
    protected load(bytes: Uint8Array): void {
        this.buf = bytes;
        this.view = viewOf(bytes);
        this.pos = 0;
        this.end = bytes.length;
        this.windowStart = this.windowEnd = 0;
        this.window = "";
    }

    /** Releases the bytes, so that an idle decoder keeps none in memory. */
    protected unload(): void {
        this.load(noBytes);
        if (this.windowed > KEPT) {
            this.windowed = 0;
            this.slotWords.fill(0);
            this.slotTexts.fill("");
        }
    }

    protected fail(code: EtfError["code"], reason: string, at: number = this.pos): never {
        throw new EtfError(code, reason, at);
    }

    protected truncated(): never {
        this.fail("truncated", "the input ends", this.end);
    }

    /** Checks that `count` bytes follow `at`. */
    protected need(at: number, count: number): void {
        if (count > this.end - at) this.truncated();
    }

    protected u8(): number {
        return this.view.getUint8(this.pos++);
    }

    protected u32(): number {
        const value = this.view.getUint32(this.pos);
        this.pos += 4;
        return value;
    }

    /**
     * Reads text of `length` bytes at `start`. It is UTF-8, unless `other` reads the bytes that are
     * not ASCII: atoms from before OTP 26 and charlists are in ISO 8859-1.
     */
    protected text(start: number, length: number, other = decodeUtf8): string {
        const end = start + length;
        if (end > this.end) this.truncated();
        const { buf, view } = this;
        if (length > 3 && length <= 12) {
            // The code reads all bytes as words. The last word overlaps the previous one.
            const a = view.getInt32(start);
            const b = length > 8 ? view.getInt32(start + 4) : 0;
            const c = view.getInt32(end - 4);
            if (((a | b | c) & HIGH_BITS) !== 0) return other(buf, start, end);
            const hash = spread(spread(spread(a) ^ b) ^ c ^ length);
            const slot = (hash ^ (hash >>> 15)) & (SLOTS - 1);
            const at = slot << 2;
            const words = this.slotWords;
            if (
                words[at] === a &&
                words[at + 1] === b &&
                words[at + 2] === c &&
                words[at + 3] === length
            ) {
                return this.slotTexts[slot];
            }
            words[at] = a;
            words[at + 1] = b;
            words[at + 2] = c;
            words[at + 3] = length;
            return (this.slotTexts[slot] = this.cut(start, end));
        }
        // The search for ASCII costs three times as much as the platform's own decoding of long
        // text.
        if (length > LONG) return other(buf, start, end);
        let bits = 0;
        let at = start;
        for (; at < end - 4; at += 4) bits |= view.getInt32(at);
        if (length > 3) bits |= view.getInt32(end - 4);
        else for (; at < end; at++) bits |= buf[at];
        return (bits & HIGH_BITS) !== 0 ? other(buf, start, end) : this.cut(start, end);
    }

    /** Takes ASCII out of the window. Moves the window first if it does not contain the bytes. */
    private cut(start: number, end: number): string {
        if (start < this.windowStart || end > this.windowEnd) {
            this.windowStart = start;
            // The first window is small, because more than a short term may follow (decodePrefix).
            this.windowEnd = Math.min(start + WINDOW, 9 * start + LONG, this.end);
            this.window = windowText(this.buf, start, this.windowEnd);
            this.windowed += this.windowEnd - start;
        }
        return this.window.substring(start - this.windowStart, end - this.windowStart);
    }

    /** Reads an integer of `length` bytes, least significant first, at `start`. */
    protected magnitude(start: number, length: number, negative: boolean): number | bigint {
        this.need(start, length);
        const { buf, view } = this;
        let at = start + length;
        if (length < 8) {
            let value = 0;
            while (at > start) value = value * 256 + buf[--at];
            if (Number.isSafeInteger(value)) return negative ? 0 - value : value;
        }
        let digits = "0x";
        // The code reads eight bytes at once, because times in nanoseconds have eight.
        for (at = start + length; at > start && length !== 8; )
            digits += (256 + buf[--at]).toString(16).slice(1);
        const big = length === 8 ? view.getBigUint64(start, true) : BigInt(digits);
        return narrowed(negative ? -big : big);
    }
}
