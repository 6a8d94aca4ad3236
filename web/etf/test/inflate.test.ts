// Tests compressed terms: damaged streams, false sizes, and inflating by the platform.
import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync, inflateSync } from "node:zlib";
import {
    decode,
    defaultLimits,
    encode,
    encoder,
    EtfError,
    plainDecoder,
    type TermDecoder,
} from "@whittle/etf";
import { asyncDecoder, inflated } from "@whittle/etf/async";
import { Random } from "./random.js";
import { refused } from "./inputs.js";

/** Returns the bytes that zlib inflates, if the stream is complete and nothing follows it. */
function inflatedByZlib(stream: Uint8Array): Uint8Array | undefined {
    try {
        const { buffer, engine } = inflateSync(stream, { info: true }) as unknown as {
            buffer: Buffer;
            engine: { bytesWritten: number };
        };
        return engine.bytesWritten === stream.length ? buffer : undefined;
    } catch {
        return undefined;
    }
}

test("a damaged zlib stream is refused or read as zlib does", () => {
    const random = new Random(3);
    const plain = encode(
        Array.from({ length: 400 }, (_, i) => ({ name: `name ${i % 7}`, value: i })),
    );
    for (const level of [0, 1, 9]) {
        const whole = encoder({ deflate: (bytes) => deflateSync(bytes, { level }) }).encode(
            decode(plain) as never,
        );
        assert.deepEqual(decode(whole), decode(plain));
        for (let round = 0; round < 1500; round++) {
            const bytes = whole.slice();
            bytes[6 + random.below(bytes.length - 6)] ^= 1 << random.below(8);
            if (whole[1] !== 80) continue;
            // zlib ignores the bits that fill the last byte.
            if (inflatedByZlib(bytes.subarray(6)) === undefined)
                assert.throws(() => decode(bytes), EtfError);
            else assert.deepEqual(decode(bytes), decode(plain));
        }
    }
});

test("a compressed term must have the size that it says, and not be a bomb", () => {
    const stream = deflateSync(Buffer.from([97, 5]));
    const term = (size: number, more: readonly number[] = []) =>
        Uint8Array.of(131, 80, 0, 0, 0, size, ...stream, ...more);
    assert.equal(decode(term(2)), 5);
    refused(term(1), "inflate");
    refused(term(3), "inflate");
    refused(term(2, [0]), "trailing");
    refused([131, 80, 0xff, 0xff, 0xff, 0xff, ...stream], "limit");
    refused([131, 80, 3, 0, 0, 0, ...stream], "inflate");
    // 60 kB inflate to 60 MB of zeros, and the header says 100 bytes.
    const bomb = deflateSync(Buffer.alloc(60_000_000));
    refused([131, 80, 0, 0, 0, 100, ...bomb], "inflate");
});

test("inflating by the platform stops where the promised size is passed", async () => {
    const stream = deflateSync(Buffer.alloc(60_000_000));
    const { prototype } = ReadableStreamDefaultReader;
    const { read } = prototype;
    let reads = 0;
    prototype.read = function (this: ReadableStreamDefaultReader) {
        reads++;
        return read.call(this);
    } as typeof read;
    try {
        const bomb = Uint8Array.of(131, 80, 0, 0, 0, 100, ...stream);
        await assert.rejects(inflated(bomb), { name: "EtfError", code: "inflate" });
    } finally {
        prototype.read = read;
    }
    assert.equal(reads, 1);
    const small = { maxInflatedBytes: 99 };
    await assert.rejects(inflated(Uint8Array.of(131, 80, 0, 0, 0, 100, ...stream), small), {
        name: "EtfError",
        code: "limit",
    });
});

test("a limit of the asynchronous decoder that cannot be meant is refused", async () => {
    const bytes = Uint8Array.of(131, 80, 0, 0, 0, 100, 1);
    // @ts-expect-error
    await assert.rejects(inflated(bytes, { maxInflated: 5 }), /unknown option maxInflated/);
    // @ts-expect-error
    await assert.rejects(inflated(bytes, { maxInflatedBytes: "5" }), TypeError);
    // @ts-expect-error
    await assert.rejects(inflated("text"), /^TypeError: the input must be a Uint8Array/);
});

test("blocks of a compressed term that give nothing are bounded", () => {
    const bits: number[] = [];
    const put = (value: number, count: number) => {
        for (let at = 0; at < count; at++) bits.push((value >> at) & 1);
    };
    for (let block = 0; block < 3000; block++) {
        // The stream has codes for the lengths 18 (zeros) and 1, and symbols for the block's end
        // and a distance.
        for (const [value, count] of [
            [0, 1],
            [2, 2],
            [0, 10],
            [14, 4],
        ])
            put(value, count);
        for (let at = 0; at < 18; at++) put(at === 2 || at === 17 ? 1 : 0, 3);
        for (const zeros of [138, 118]) put(1 | ((zeros - 11) << 1), 8);
        put(0, 3);
    }
    const blocks = new Uint8Array((bits.length + 7) >> 3);
    bits.forEach((bit, at) => (blocks[at >> 3] |= bit << (at & 7)));
    const bytes = Uint8Array.of(131, 80, 0, 0, 0, 2, 0x78, 0x9c, ...blocks);
    assert.throws(() => decode(bytes), /in too many blocks \(at byte 1\d{4}\)/);
});

test("the asynchronous decoder reads nothing of memory that may be used again", async () => {
    const memory = new Uint8Array(2000);
    const later = asyncDecoder(plainDecoder());
    const texts = ["one", "two", "six"].map((text) => text.repeat(300));
    for (const { encode: write } of [encoder(), encoder({ deflate: deflateSync })]) {
        const decoded = texts.map((text) => {
            const bytes = write(text);
            memory.set(bytes);
            return later.decode(memory.subarray(0, bytes.length));
        });
        memory.fill(0);
        assert.deepEqual(await Promise.all(decoded), texts);
    }
});

test("the asynchronous decoder refuses what the other does", async () => {
    const compressed = (terms: Uint8Array) => {
        const size = Buffer.alloc(4);
        size.writeUInt32BE(terms.length);
        return Buffer.concat([Uint8Array.of(131, 80), size, deflateSync(terms)]);
    };
    const twice = compressed(compressed(Uint8Array.of(97, 7)).subarray(1));
    const refusal = { code: "tag", message: "no term starts with 80 (at byte 0)" };
    assert.throws(() => decode(twice), refusal);
    await assert.rejects(asyncDecoder(plainDecoder()).decode(twice), refusal);
    // An invalid option throws before the first compressed message comes.
    // @ts-expect-error
    assert.throws(() => asyncDecoder(plainDecoder(), { maxInflated: 5 }), /unknown option/);
    // @ts-expect-error
    assert.throws(() => asyncDecoder(plainDecoder(), { maxBytes: 5 }), /unknown option/);
    assert.throws(() => asyncDecoder(plainDecoder(), { maxInflatedBytes: -1 }), TypeError);
    for (const none of [null, undefined, decode, {}])
        assert.throws(
            () => asyncDecoder(none as TermDecoder<unknown>),
            /^TypeError: asyncDecoder needs a plainDecoder/,
        );
    // @ts-expect-error
    await assert.rejects(inflated(encode(1), { maxInflated: 5 }), /unknown option/);
    // Code that writes to the defaults changes no decoder.
    assert.ok(Object.isFrozen(defaultLimits));
});
