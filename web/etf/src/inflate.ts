/**
 * Inflates a zlib stream (RFC 1950 and 1951) of known inflated size.
 *
 * This is the entry point `@whittle/etf/inflate`, for decoders without an inflate. It is
 * synchronous and small, because terms are rarely compressed, and a platform's own inflate is
 * asynchronous in browsers. Its input is untrusted, so it checks as much as zlib does: over-full
 * and incomplete codes, distances before the start, the size and the checksum.
 * @module
 */
import { adler32 } from "./adler32.js";
import { badStream } from "./error.js";
import { grown } from "./bytes.js";
import type { Inflate } from "./reader.js";

const lengthOrder = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const MAX_BITS = 15;
/** The most inflated bytes of one byte: deflate turns one bit into 258 bytes at best. */
const MAX_RATIO = 258 * 8;

/**
 * A canonical Huffman code: the symbols of each length, for lengths from 1 bit on.
 */
type Code = readonly (readonly number[])[];

/**
 * Inflates the stream that starts at `start`. The output grows with the inflated bytes. `size`
 * comes from the sender and allocates nothing by itself.
 */
export const inflate: Inflate = (input, start, size) => {
    let at = start;
    let bits = 0;
    let bitCount = 0;
    let length = 0;
    let codes = 0;
    const left = input.length - start;
    if (size > left * MAX_RATIO) wrongSize();
    let out: Uint8Array = new Uint8Array(Math.min(size, Math.max(1024, left * 4)));
    let fixed: readonly [lengths: Code, distances: Code] | undefined;

    function fail(reason = "damaged"): never {
        throw badStream(reason, at);
    }

    function wrongSize(): never {
        fail("not of the promised size");
    }

    function byte(): number {
        if (at >= input.length) fail();
        return input[at++];
    }

    /** Reads the next bytes as an integer, the highest first. */
    function bigEndian(count: number): number {
        let value = 0;
        while (count-- > 0) value = (value << 8) | byte();
        return value;
    }

    /** Reads the next `count` bits, at most 16. */
    function take(count: number): number {
        while (bitCount < count) {
            bits |= byte() << bitCount;
            bitCount += 8;
        }
        const value = bits & ((1 << count) - 1);
        bits >>>= count;
        bitCount -= count;
        return value;
    }

    /** Moves to the next byte. The buffer of bits may hold whole bytes. */
    function align(): void {
        at -= bitCount >> 3;
        bits = bitCount = 0;
    }

    /** Makes room for `count` more bytes, never beyond the announced size. */
    function room(count: number): void {
        const wanted = length + count;
        if (wanted > size) wrongSize();
        out = grown(out, length, wanted, size);
    }

    function stored(): void {
        align();
        const count = take(16);
        if (count + take(16) !== 0xffff || at + count > input.length) fail();
        room(count);
        out.set(input.subarray(at, at + count), length);
        at += count;
        length += count;
    }

    function dynamic(): void {
        // To build a code takes as long as to inflate thousands of bytes. Deflaters build no code
        // for fewer than 64 bytes.
        if (++codes > 1000 + (length >> 6)) fail("in too many blocks");
        const lengthCount = take(5) + 257;
        const count = lengthCount + take(5) + 1;
        const codeCount = take(4) + 4;
        if (lengthCount > 286 || count > lengthCount + 30) fail();
        const lengths = new Uint8Array(count);
        for (let i = 0; i < codeCount; i++) lengths[lengthOrder[i]] = take(3);
        const code = codeOf(lengths.slice(0, 19), false);
        lengths.fill(0);
        for (let i = 0; i < count; ) {
            const kind = symbol(code);
            if (kind < 16) {
                lengths[i++] = kind;
                continue;
            }
            const repeated = kind > 16 ? 0 : i > 0 ? lengths[i - 1] : fail();
            const end = i + (kind < 18 ? 3 + take(kind - 14) : 11 + take(7));
            if (end > count) fail();
            lengths.fill(repeated, i, end);
            i = end;
        }
        if (lengths[256] === 0) fail();
        block(
            codeOf(lengths.slice(0, lengthCount), true),
            codeOf(lengths.slice(lengthCount), true),
        );
    }

    /**
     * Builds a code and checks that it is complete. A code with one symbol of one bit is also
     * valid, as in zlib.
     */
    function codeOf(lengths: Uint8Array, loneAllowed: boolean): Code {
        const code: number[][] = [];
        let count = 0;
        let missing = 1;
        for (let size = 1; size <= MAX_BITS; size++) {
            const symbols: number[] = [];
            for (let symbol = 0; symbol < lengths.length; symbol++)
                if (lengths[symbol] === size) symbols.push(symbol);
            code.push(symbols);
            count += symbols.length;
            // A negative value stays negative.
            missing = 2 * missing - symbols.length;
        }
        if (missing !== 0 && !(loneAllowed && count < 2 && missing % 16384 === 0)) fail();
        return code;
    }

    /** Reads one bit at a time. Inflating spends most of its time here. */
    function symbol(code: Code): number {
        let index = 0;
        for (const symbols of code) {
            index = 2 * index + take(1);
            if (index < symbols.length) return symbols[index];
            index -= symbols.length;
        }
        fail();
    }

    /**
     * Returns a length or a distance, minus the smallest one. The symbols are in groups of 2^group.
     * Each group after the second has one additional bit more than the group before it.
     */
    function span(symbol: number, group: number): number {
        const extra = Math.max(0, (symbol >> group) - 1);
        const step = 1 << group;
        return (extra > 0 ? (step + (symbol % step)) << extra : symbol) + take(extra);
    }

    function block(lengths: Code, distances: Code): void {
        for (;;) {
            const kind = symbol(lengths);
            if (kind === 256) return;
            if (kind < 256) {
                room(1);
                out[length++] = kind;
                continue;
            }
            if (kind > 285) fail();
            const count = kind === 285 ? 258 : 3 + span(kind - 257, 2);
            const far = symbol(distances);
            if (far >= 30) fail();
            const distance = 1 + span(far, 1);
            // The largest distance lies within the window of 32 kB.
            if (distance > length) fail();
            room(count);
            const end = length + count;
            for (; length < end; length++) out[length] = out[length - distance];
        }
    }

    // Deflate, a window of at most 32 kB, and no dictionary.
    const header = bigEndian(2);
    if ((header & 0x8f20) !== 0x0800 || header % 31 !== 0) fail();
    let last: number;
    do {
        last = take(1);
        const kind = take(2);
        if (kind === 0) stored();
        else if (kind === 1) {
            fixed ??= [
                codeOf(new Uint8Array(288).fill(8).fill(9, 144, 256).fill(7, 256, 280), false),
                codeOf(new Uint8Array(32).fill(5), false),
            ];
            block(...fixed);
        } else if (kind === 2) dynamic();
        else fail();
    } while (last === 0);
    if (length !== size) wrongSize();
    align();
    const bytes = out.subarray(0, size);
    if (bigEndian(4) !== adler32(bytes)) fail();
    return { bytes, used: at - start };
};
