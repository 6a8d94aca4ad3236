// Tests that work and memory stay in proportion to the input.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { deflateSync } from "node:zlib";
import {
    Atom,
    atom,
    Binary,
    compare,
    decode,
    type Decoder,
    decodeTerm,
    encode,
    ErlMap,
    ErlRecord,
    EtfError,
    MAX_DEPTH,
    plainDecoder,
    read,
    show,
    type Term,
    termDecoder,
    tuple,
} from "@whittle/etf";
import { hex } from "./describe.js";
import { nests } from "./nested.js";
import { Random } from "./random.js";
import { vectors, decoders, refused, printed } from "./inputs.js";

test("the deepest nesting fits the stack, the default one half of it, more is refused", () => {
    for (const make of nests) {
        const limits = { maxDepth: MAX_DEPTH };
        termDecoder({ limits }).decode(make(MAX_DEPTH));
        plainDecoder({ limits, maps: "map" }).decode(make(MAX_DEPTH));
        for (const deep of [513, 5000, 100000]) refused(make(deep), "limit");
    }
    const half = spawnSync(process.execPath, [
        "--stack-size=492",
        fileURLToPath(new URL("./nested.js", import.meta.url)),
    ]);
    assert.equal(half.status, 0, half.stderr.toString());
});

test("the work on keys and failures is linear: large integers are never made decimal", async () => {
    const { canonical } = (await import(
        new URL("../../dist/canonical.js", import.meta.url).href
    )) as { canonical: (term: Term) => string };
    // In base 10 the number would have 2,467 digits and take the square of that in time.
    assert.equal(canonical(1n << 8192n).length, 2 + 2049);
    assert.equal(show(1n << 8192n), `16#1${"0".repeat(53)}...`);
    assert.equal(show(-(1n << 100n)), "-1267650600228229401496703205376");
    // The decoder makes a name only when a failure needs it.
    let named = 0;
    class Key extends Atom {
        override toString(): string {
            named++;
            return super.toString();
        }
    }
    const map = ErlMap.from([[new Key("k"), new Key("v")]]);
    const value = read.oneOf(read.integer, read.anyAtom);
    assert.ok(read.dict(read.anyAtom, value).read(map).ok);
    assert.equal(named, 0);
    assert.equal(read.string.read(new Key("k")).ok, false);
    assert.equal(named, 1);
});

test("a key that is deep or long is compared without copying it at each level", async () => {
    const { canonical } = (await import(
        new URL("../../dist/canonical.js", import.meta.url).href
    )) as { canonical: (term: Term) => string };
    const { join } = Array.prototype;
    let joined = 0;
    Array.prototype.join = function (separator) {
        joined++;
        return join.call(this, separator);
    };
    try {
        let deep: Term = Binary.of("x".repeat(10000));
        for (let i = 0; i < 300; i++) deep = i % 2 === 0 ? [deep, i] : ErlMap.from([[i, deep]]);
        assert.ok(canonical(deep).length < 10000 + 300 * 30);
    } finally {
        Array.prototype.join = join;
    }
    assert.equal(joined, 0);
});

test("the keys of a key are looked through once, not again at each level", (context) => {
    let deep: Term = Binary.of("a");
    for (let i = 0; i < 200; i++) deep = ErlMap.from([[deep, i]]);
    const input = encode(deep);
    const bytes = context.mock.getter(Binary.prototype, "bytes");
    const map = termDecoder().decode(input);
    assert.ok(bytes.mock.callCount() <= 4, `${bytes.mock.callCount()} times`);
    assert.equal(hex(encode(map)), hex(input));
});

test("maps in maps are sorted once each", () => {
    let asked = 0;
    const grown = (depth: number, side: number): Term => {
        if (depth === 0) {
            const name = () => (asked++, "a");
            return tuple(Object.defineProperty(atom("a"), "name", { get: name }), side);
        }
        return ErlMap.from([
            [grown(depth - 1, 2 * side), 0],
            [grown(depth - 1, 2 * side + 1), 1],
        ]);
    };
    const steps = (depth: number) => {
        const [a, b] = [grown(depth, 0), grown(depth, 0)];
        asked = 0;
        assert.equal(compare(a, b), 0);
        return asked;
    };
    // Four more levels have 16 times as many terms. If the decoder did not keep the order, the
    // work would be 256 times as much.
    assert.ok(steps(10) < 60 * steps(6), `${steps(10)} and ${steps(6)}`);
});

test("a list of bytes counts as many elements as it has", () => {
    for (const decoder of [
        plainDecoder({ limits: { maxElements: 9 } }),
        termDecoder({ limits: { maxElements: 9 } }),
    ]) {
        assert.ok(Array.isArray(decoder.decode(encode([1, 2, 3, 4, 5, 6, 7, 8, 9]))));
        for (const list of [
            Array<number>(10).fill(1),
            [
                [1, 2, 3, 4],
                [5, 6, 7, 8],
            ],
        ])
            assert.throws(() => decoder.decode(encode(list)), /exceeds maxElements \(9\)/);
        // The same holds for the tail of a list.
        const tail = Uint8Array.of(131, 108, 0, 0, 0, 5, 97, 1, 97, 1, 97, 1, 97, 1, 97, 1);
        const whole = Uint8Array.of(...tail, ...encode([1, 2, 3, 4, 5]).subarray(1));
        assert.throws(() => decoder.decode(whole), /exceeds maxElements \(9\)/);
    }
    // By default, 17 kB inflate to 17 MB of them.
    const row = Uint8Array.of(107, 255, 255, ...new Uint8Array(65535));
    const rows = Buffer.concat([
        Uint8Array.of(108, 0, 0, 1, 8),
        ...Array<Uint8Array>(264).fill(row),
        Uint8Array.of(106),
    ]);
    const size = [24, 16, 8, 0].map((shift) => (rows.length >>> shift) & 255);
    const bomb = Uint8Array.of(131, 80, ...size, ...deflateSync(rows));
    assert.throws(() => decode(bomb), /exceeds maxElements \(16777216\)/);
});

test("integers past 8 bytes as keys of a Map count for the keys before them", () => {
    const decoder = plainDecoder({ maps: "map" });
    const keys = (count: number, bytes: number) =>
        encode(
            new Map(
                Array.from({ length: count }, (_, i) => [
                    (BigInt(i + 1) << BigInt(8 * bytes - 16)) + 1n,
                    i,
                ]),
            ),
        );
    assert.equal((decoder.decode(keys(5000, 8)) as Map<unknown, unknown>).size, 5000);
    assert.equal((decoder.decode(keys(5000, 10)) as Map<unknown, unknown>).size, 5000);
    assert.throws(() => decoder.decode(keys(6000, 10)), /maxElements/);
    assert.throws(() => decoder.decode(keys(200, 8192)), /maxElements/);
    // The term model compares these by their bytes.
    assert.equal((decodeTerm(keys(6000, 10)) as ErlMap).size, 6000);
    assert.throws(() => decode(encode(new Map([[2n ** 2047n, 1]]))), /only maps: "map" takes/);
});

test("terms one after another do not each make text of all that follows", () => {
    const program = `
        const { prototype } = Buffer;
        const { latin1Slice } = prototype;
        let made = 0;
        prototype.latin1Slice = function (start, end) {
            made += end - start;
            return latin1Slice.call(this, start, end);
        };
        const { encode, plainDecoder } = await import("@whittle/etf");
        const term = encode({ name: "a name of more than twelve bytes" });
        const all = new Uint8Array(term.length * 2000);
        for (let at = 0; at < all.length; at += term.length) all.set(term, at);
        const decoder = plainDecoder();
        for (let at = 0; at < all.length; ) at += decoder.decodePrefix(all.subarray(at)).used;
        console.log(made / all.length);`;
    assert.ok(Number(printed(program)) < 50);
});

test("recursive alternatives read each term once", () => {
    let calls = 0;
    const counted = read.map((value: number) => {
        calls++;
        return value;
    }, read.integer);
    type Pairs = number | readonly [Pairs, number | string];
    const pairs: Decoder<Pairs> = read.lazy(() =>
        read.oneOf(read.tuple(pairs, counted), read.tuple(pairs, read.string), counted),
    );
    const other: Decoder<Pairs> = read.lazy(() =>
        read.oneOf(read.tuple(pairs, read.string), read.tuple(other, counted), counted),
    );
    for (const [decoder, last] of [
        [pairs, Binary.of("s")],
        [pairs, atom("neither")],
        [other, Binary.of("s")],
        [other, 1],
    ] as const) {
        let deep: Term = 1;
        for (let i = 0; i < 200; i++)
            deep = tuple(deep, i === 199 ? last : i % 3 ? 1 : Binary.of(""));
        calls = 0;
        decoder.read(deep);
        assert.ok(calls < 2000, `${calls} calls`);
    }
    // The decoder does not keep the values of one alternative for the next call, nor one atom for
    // another.
    const fresh = read.lazy(() => read.map((_: string) => ({}), read.anyAtom));
    const two = read.tuple(fresh, fresh).read(tuple(atom("a"), atom("a")));
    const same = atom("a");
    const again = read.tuple(fresh, fresh).read(tuple(same, same));
    assert.ok(two.ok && two.value[0] !== two.value[1]);
    assert.ok(again.ok && again.value[0] !== again.value[1]);
});

test("bytes that are no text make no error where either will do", () => {
    const made = printed(`
        let made = 0;
        globalThis.Error = class extends Error {
            constructor(...words) {
                super(...words);
                made++;
            }
        };
        const { decode, encode, plainDecoder, read, show } = await import("@whittle/etf");
        const bytes = encode([1, 20, 60, 5000].map((length) => new Uint8Array(length).fill(255)));
        const either = plainDecoder({ binaries: "either" }).decode(bytes);
        const typed = read.list(read.oneOf(read.string, read.bytes)).readBytes(bytes);
        const right = either.every((part) => part[0] === 255) && typed.value.length === 4;
        try { decode(bytes); } catch {}
        console.log(right, made);`);
    assert.equal(made, "true 1");
});

test("integers of every length come back, read in a step for each byte", () => {
    const random = new Random(17);
    for (let length = 4; length < 80; length++)
        for (let round = 0; round < 20; round++) {
            let value = 1n;
            for (const byte of random.bytes(length - 1)) value = (value << 8n) + BigInt(byte);
            for (const given of [value, -value, value - 1n, (value << 1n) - 1n]) {
                const small = Number(given);
                const expected = Number.isSafeInteger(small) ? small : given;
                assert.equal(decode(encode(given)), expected);
                assert.equal(decodeTerm(encode(given)), expected);
            }
        }
    const bytes = encode(1n << 65535n);
    const { toString } = Number.prototype;
    let calls = 0;
    Number.prototype.toString = function (base) {
        calls++;
        return toString.call(this, base);
    };
    try {
        decode(bytes);
    } finally {
        Number.prototype.toString = toString;
    }
    assert.ok(calls <= 8192, `${calls} calls`);
});

test("large integers as keys of a typed dict are bounded, too", () => {
    const keys = (count: number) =>
        ErlMap.from(Array.from({ length: count }, (_, i) => [(BigInt(i) << 65000n) + 1n, i]));
    const dict = read.dict(read.bigint, read.integer);
    assert.ok(dict.read(keys(150)).ok);
    const result = dict.read(keys(250));
    assert.equal(!result.ok && result.error.expected, "a map of fewer large keys");
    const short = ErlMap.from(Array.from({ length: 7000 }, (_, i) => [(1n << 63n) + BigInt(i), i]));
    assert.ok(dict.read(short).ok);
});

test("long keys, which engines hash by their length alone, are bounded", () => {
    const length = 16384;
    const count = 1200;
    const entry = 6 + length;
    const terms = Buffer.alloc(5 + count * entry, 97);
    terms[0] = 116;
    terms.writeUInt32BE(count, 1);
    for (let i = 0; i < count; i++) {
        const at = 5 + i * entry;
        terms[at] = 109;
        terms.writeUInt32BE(length, at + 1);
        terms.write(String(i).padStart(6, "0"), at + entry - 7);
        terms[at + entry - 1] = 106;
    }
    const bytes = Buffer.concat([Uint8Array.of(131), terms]);
    for (const decoder of decoders)
        assert.throws(() => decoder.decode(bytes), /exceeds maxElements \(16777216\)/);
    const few = bytes.subarray(0, 6 + 900 * entry);
    few.writeUInt32BE(900, 2);
    for (const decoder of decoders) decoder.decode(few);
});

test("a bit string counts as the memory that it takes", () => {
    const bits = Uint8Array.of(77, 0, 0, 0, 1, 1, 128);
    const limits = { maxElements: 34 };
    for (const decoder of [plainDecoder({ limits }), termDecoder({ limits })]) {
        const tuples = (count: number) =>
            Buffer.concat([Uint8Array.of(131, 104, count), ...Array<Uint8Array>(count).fill(bits)]);
        decoder.decode(tuples(2));
        assert.throws(() => decoder.decode(tuples(3)), /exceeds maxElements \(34\)/);
    }
});

test("fields of a native record count before they are read", () => {
    const name = [119, 1, 97];
    const record = (count: number) => [131, 67, 0, 0, 0, count, 1, ...name, ...name];
    const fields = Array.from({ length: 40 }, (_, at) => [119, 1, 64 + at]).flat();
    refused(record(200), "truncated");
    refused([...record(121), ...fields], "truncated");
    const limits = { maxElements: 39 };
    for (const decoder of [plainDecoder({ limits }), termDecoder({ limits })])
        assert.throws(
            () => decoder.decode(Uint8Array.of(...record(40), ...fields)),
            /exceeds maxElements \(39\) \(at byte 13\)/,
        );
    const whole = Uint8Array.of(...record(40), ...fields, ...Array<number>(40).fill(106));
    assert.equal((decodeTerm(whole) as ErlRecord).values.length, 40);
});

test("what the engine cannot hold is a limit, not the end of the input", () => {
    const bytes = encode(new Map([[1, ["a".repeat(99)]]]));
    const { set } = Map.prototype;
    const { decode } = plainDecoder({ maps: "map" });
    Map.prototype.set = () => {
        throw new RangeError("Map maximum size exceeded");
    };
    try {
        assert.throws(() => decode(Uint8Array.of(...bytes, ...new Uint8Array(9))), {
            code: "limit",
            message: /^too large for the engine \(at byte \d+\)/,
        });
    } finally {
        Map.prototype.set = set;
    }
    // The input may end in any of these.
    for (const vector of vectors)
        for (let length = 1; length < vector.length; length++)
            for (const decoder of decoders)
                try {
                    decoder.decode(vector.subarray(0, length));
                } catch (error) {
                    assert.notEqual((error as EtfError).code, "limit");
                }
});

test("an error is an overflow by what it is, not by a word in it", () => {
    assert.throws(() => encode({ stack: () => 1 } as never), /^EtfError: at \.stack: function/);
    const own = new Error("the stack is empty");
    const failing = {
        get x(): number {
            throw own;
        },
    };
    assert.throws(() => encode(failing), own);
    const bytes = Uint8Array.of(131, 80, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6);
    for (const error of [own, new RangeError("mine")]) {
        const inflate = () => {
            throw error;
        };
        assert.throws(() => plainDecoder({ inflate }).decode(bytes), error);
    }
});
