/**
 * The entry point `@whittle/etf/inflate`, for decoders that have none:
 * inflates a zlib stream (RFC 1950 and 1951) whose inflated size is known. Synchronous and small:
 * terms are compressed now and then, and a platform's own inflate is asynchronous in browsers.
 * It is the part of the package that handles untrusted input bit by bit, so it checks as zlib
 * does: over-full and incomplete codes, distances before the start, the size and the checksum.
 * @module
 */
import { adler32 } from "./adler32.js";
import { EtfError } from "./error.js";
import type { Inflate } from "./reader.js";

/** The shortest copy of each length symbol, and how many bits add to it. */
const lengthBase: number[] = [];
const lengthExtra: number[] = [];
for (let symbol = 0, base = 3; symbol < 28; symbol++) {
    lengthExtra[symbol] = symbol < 8 ? 0 : (symbol >> 2) - 1;
    lengthBase[symbol] = base;
    base += 1 << lengthExtra[symbol];
}
lengthBase[28] = 258;
lengthExtra[28] = 0;
const lengthOrder = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const MAX_BITS = 15;
const WINDOW = 32768;
/** Deflate turns one bit into 258 bytes at best, so a byte into no more than this. */
const MAX_RATIO = 1032 * 2;
const WRONG_SIZE = "not of the size that its header gives";

/**
 * A canonical Huffman code: how many codes there are of each length, and their symbols in order.
 */
interface Code {
    counts: Uint16Array;
    symbols: Uint16Array;
}

/**
 * Inflates the stream that starts at `start`. The output grows with what comes out: `size` is the
 * sender's word and allocates nothing by itself.
 */
export const inflate: Inflate = (input, start, size) => new Inflater(input, start, size).run();

class Inflater {
    private out: Uint8Array;
    private length = 0;
    private bits = 0;
    private bitCount = 0;
    private at: number;

    constructor(
        private readonly input: Uint8Array,
        private readonly start: number,
        private readonly size: number,
    ) {
        this.at = start;
        if (size > (input.length - start) * MAX_RATIO) this.fail(WRONG_SIZE);
        this.out = new Uint8Array(Math.min(size, Math.max(1024, (input.length - start) * 4)));
    }

    run(): ReturnType<Inflate> {
        const { input, start } = this;
        if (input.length - start < 2) this.fail();
        const method = input[start];
        const flags = input[start + 1];
        if (
            (method & 15) !== 8 ||
            method >> 4 > 7 ||
            ((method << 8) | flags) % 31 !== 0 ||
            (flags & 32) !== 0
        ) {
            this.fail();
        }
        this.at = start + 2;
        let last: number;
        do {
            last = this.take(1);
            const kind = this.take(2);
            if (kind === 0) this.stored();
            else if (kind === 1) this.block(fixed().lengths, fixed().distances);
            else if (kind === 2) this.dynamic();
            else this.fail();
        } while (last === 0);
        if (this.length !== this.size) this.fail(WRONG_SIZE);
        this.at -= this.bitCount >> 3;
        if (this.at + 4 > input.length) this.fail();
        const bytes = this.out.subarray(0, this.size);
        const sum = new DataView(input.buffer, input.byteOffset, input.byteLength).getUint32(
            this.at,
        );
        if (sum !== adler32(bytes)) this.fail();
        return { bytes, used: this.at + 4 - start };
    }

    private fail(reason = "damaged"): never {
        throw new EtfError("inflate", `compressed data is ${reason}`, this.at);
    }

    /** The next `count` bits, at most 16. */
    private take(count: number): number {
        while (this.bitCount < count) this.refill();
        const value = this.bits & ((1 << count) - 1);
        this.bits >>>= count;
        this.bitCount -= count;
        return value;
    }

    private refill(): void {
        if (this.at >= this.input.length) this.fail();
        this.bits |= this.input[this.at++] << this.bitCount;
        this.bitCount += 8;
    }

    /** Room for `count` more bytes, never past the promised size. */
    private room(count: number): void {
        const wanted = this.length + count;
        if (wanted > this.size) this.fail(WRONG_SIZE);
        if (wanted <= this.out.length) return;
        const larger = new Uint8Array(Math.min(this.size, Math.max(wanted, this.out.length * 2)));
        larger.set(this.out.subarray(0, this.length));
        this.out = larger;
    }

    private stored(): void {
        this.take(this.bitCount & 7);
        const length = this.take(16);
        if (this.take(16) !== (~length & 0xffff)) this.fail();
        // Whole bytes may be waiting among the bits.
        this.at -= this.bitCount >> 3;
        this.bits = this.bitCount = 0;
        if (this.at + length > this.input.length) this.fail();
        this.room(length);
        this.out.set(this.input.subarray(this.at, this.at + length), this.length);
        this.at += length;
        this.length += length;
    }

    private dynamic(): void {
        const lengthCount = this.take(5) + 257;
        const distanceCount = this.take(5) + 1;
        const codeCount = this.take(4) + 4;
        if (lengthCount > 286 || distanceCount > 30) this.fail();
        const lengths = new Uint8Array(320);
        for (let i = 0; i < codeCount; i++) lengths[lengthOrder[i]] = this.take(3);
        const code = this.code(lengths.subarray(0, 19), false);
        lengths.fill(0);
        for (let i = 0; i < lengthCount + distanceCount; ) {
            const symbol = this.symbol(code);
            if (symbol < 16) {
                lengths[i++] = symbol;
                continue;
            }
            if (symbol === 16 && i === 0) this.fail();
            const repeated = symbol === 16 ? lengths[i - 1] : 0;
            let times =
                symbol === 16
                    ? 3 + this.take(2)
                    : symbol === 17
                      ? 3 + this.take(3)
                      : 11 + this.take(7);
            if (i + times > lengthCount + distanceCount) this.fail();
            while (times-- > 0) lengths[i++] = repeated;
        }
        if (lengths[256] === 0) this.fail();
        this.block(
            this.code(lengths.subarray(0, lengthCount), true),
            this.code(lengths.subarray(lengthCount, lengthCount + distanceCount), true),
        );
    }

    /** Builds a code and checks that it is whole. A lone code of one bit is allowed, as in zlib. */
    private code(lengths: Uint8Array, loneAllowed: boolean): Code {
        const code = makeCode(lengths);
        let left = 1;
        let used = 0;
        for (let bits = 1; bits <= MAX_BITS; bits++) {
            left = left * 2 - code.counts[bits];
            used += code.counts[bits];
            if (left < 0) this.fail();
        }
        if (left > 0 && !(loneAllowed && (used === 0 || (used === 1 && code.counts[1] === 1)))) {
            this.fail();
        }
        return code;
    }

    private symbol(code: Code): number {
        let value = 0;
        let first = 0;
        let index = 0;
        for (let length = 1; length <= MAX_BITS; length++) {
            if (this.bitCount === 0) this.refill();
            value |= this.bits & 1;
            this.bits >>>= 1;
            this.bitCount--;
            const count = code.counts[length];
            if (value - count < first) return code.symbols[index + (value - first)];
            index += count;
            first = (first + count) << 1;
            value <<= 1;
        }
        this.fail();
    }

    private block(lengths: Code, distances: Code): void {
        for (;;) {
            let symbol = this.symbol(lengths);
            if (symbol < 256) {
                this.room(1);
                this.out[this.length++] = symbol;
                continue;
            }
            if (symbol === 256) return;
            symbol -= 257;
            if (symbol >= 29) this.fail();
            const count = lengthBase[symbol] + this.take(lengthExtra[symbol]);
            const far = this.symbol(distances);
            if (far >= 30) this.fail();
            const extra = far < 2 ? 0 : (far >> 1) - 1;
            const distance = (far < 2 ? far : (2 + (far & 1)) << extra) + 1 + this.take(extra);
            if (distance > this.length || distance > WINDOW) this.fail();
            this.room(count);
            const out = this.out;
            let to = this.length;
            this.length += count;
            for (let from = to - distance; to < this.length; ) out[to++] = out[from++];
        }
    }
}

function makeCode(lengths: Uint8Array): Code {
    const counts = new Uint16Array(MAX_BITS + 1);
    for (const length of lengths) counts[length]++;
    counts[0] = 0;
    const offsets = new Uint16Array(MAX_BITS + 2);
    for (let bits = 1; bits <= MAX_BITS; bits++) offsets[bits + 1] = offsets[bits] + counts[bits];
    const symbols = new Uint16Array(lengths.length);
    lengths.forEach((length, symbol) => {
        if (length > 0) symbols[offsets[length]++] = symbol;
    });
    return { counts, symbols };
}

let fixedCodes: { lengths: Code; distances: Code } | undefined;

/** The codes of blocks that bring none of their own, made when first met. */
function fixed(): { lengths: Code; distances: Code } {
    if (fixedCodes === undefined) {
        const lengths = new Uint8Array(288)
            .fill(8, 0, 144)
            .fill(9, 144, 256)
            .fill(7, 256, 280)
            .fill(8, 280);
        fixedCodes = {
            lengths: makeCode(lengths),
            distances: makeCode(new Uint8Array(30).fill(5)),
        };
    }
    return fixedCodes;
}
