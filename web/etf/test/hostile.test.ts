// What the network may send: damaged, cut, huge, deep and malicious input.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { deflateSync, inflateSync } from "node:zlib";
import {
    Atom,
    atom,
    Binary,
    compare,
    decode,
    type Decoder,
    decodeTerm,
    defaultLimits,
    type Encodable,
    encode,
    encoder,
    ErlMap,
    ErlRecord,
    EtfError,
    ExportFun,
    FrameReader,
    Fun,
    LocalTerm,
    MAX_DEPTH,
    Pid,
    plainDecoder,
    read,
    show,
    type Term,
    termDecoder,
    type TermDecoder,
    tuple,
} from "@whittle/etf";
import { asyncDecoder, inflated } from "@whittle/etf/async";
import { hex, unhex } from "./describe.js";
import { nests } from "./nested.js";
import { Random } from "./random.js";

const vectors = ["otp25.tsv", "otp29.tsv"].flatMap((file) =>
    readFileSync(new URL(`../../../../vectors/etf/${file}`, import.meta.url), "utf8")
        .split("\n")
        .filter((line) => line.includes("\t"))
        .map((line) => unhex(line.split("\t")[2])),
);

const decoders: TermDecoder<unknown>[] = [
    termDecoder(),
    plainDecoder(),
    plainDecoder({
        codegen: false,
        atoms: "symbol",
        binaries: "either",
        maps: "map",
        tuples: "class",
        limits: { maxAtoms: 100000 },
    }),
    plainDecoder({
        atoms: "class",
        binaries: "bytes",
        charlists: "text",
        proplists: true,
        records: { person: ["a", "b"] },
        structs: "drop",
    }),
];

/** Decodes with every decoder; anything but a value or an EtfError is a fault. */
function survives(bytes: Uint8Array): number {
    let accepted = 0;
    for (const decoder of decoders) {
        try {
            decoder.decode(bytes);
            accepted++;
        } catch (error) {
            if (!(error instanceof EtfError)) throw error;
            assert.ok(
                error.offset >= 0 && error.offset <= Math.max(bytes.length, 1 << 20),
                `offset ${error.offset}`,
            );
        }
    }
    return accepted;
}

function refused(
    bytes: Uint8Array | readonly number[],
    code: EtfError["code"],
    offset?: number,
): void {
    assert.throws(
        () => decodeTerm(Uint8Array.from(bytes)),
        (error: unknown) => {
            assert.ok(error instanceof EtfError);
            assert.equal(error.code, code);
            if (offset !== undefined) assert.equal(error.offset, offset);
            return true;
        },
    );
}

test("every truncation of every vector is refused, never accepted", () => {
    for (const bytes of vectors) {
        for (let length = 0; length < bytes.length; length++) {
            for (const decoder of decoders) {
                assert.throws(() => decoder.decode(bytes.subarray(0, length)), EtfError);
            }
        }
    }
});

test("vectors with changed bytes give a value or an EtfError", () => {
    const random = new Random(Number(process.env["ETF_SEED"] ?? 1));
    for (let round = 0; round < Number(process.env["ETF_FUZZ"] ?? 20); round++) {
        for (const original of vectors) {
            const bytes = original.slice();
            for (let changes = 1 + random.below(4); changes > 0; changes--)
                bytes[1 + random.below(bytes.length - 1)] = random.below(256);
            survives(bytes);
        }
    }
});

test("random bytes give a value or an EtfError", () => {
    const random = new Random(2);
    const tags = [67, 70, 77, 80, 88, 89, 90, ...Array.from({ length: 25 }, (_, i) => 97 + i)];
    for (let round = 0; round < 20000; round++) {
        // Small numbers and tags, so that more than the first byte is looked at.
        const bytes = Uint8Array.from({ length: random.below(60) }, () =>
            random.below(3) === 0 ? random.of(tags) : random.below(random.of([3, 256])),
        );
        bytes[0] = 131;
        survives(bytes);
    }
});

/** What zlib makes of a stream, if it is whole and nothing follows it. */
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
            // Zlib accepts a change in the bits that fill the last byte.
            if (inflatedByZlib(bytes.subarray(6)) === undefined)
                assert.throws(() => decode(bytes), EtfError);
            else assert.deepEqual(decode(bytes), decode(plain));
        }
    }
});

test("headers allocate nothing before the bytes are there", () => {
    refused([131, 108, 0xff, 0xff, 0xff, 0xff, 106], "truncated");
    refused([131, 105, 0x7f, 0xff, 0xff, 0xff, 97, 1], "truncated");
    refused([131, 116, 0xff, 0xff, 0xff, 0xff, 97, 1], "truncated");
    refused([131, 109, 0xff, 0xff, 0xff, 0xff], "truncated");
    refused([131, 67, 0xff, 0xff, 0xff, 0xff, 0, 119, 1, 97, 119, 1, 97], "truncated");
    // Headers nested in headers: each promises as much as may still come.
    const nested = new Uint8Array(50000).fill(108);
    nested[0] = 131;
    for (let i = 1; i + 5 <= nested.length; i += 5)
        new DataView(nested.buffer).setUint32(i + 1, nested.length - i - 5);
    refused(nested, "limit");
});

test("limits are kept, each with its own message", () => {
    const limited = (limits: object, bytes: Uint8Array, reason: RegExp) => {
        for (const decoder of [
            termDecoder({ limits }),
            plainDecoder({ limits, atoms: "symbol" }),
        ]) {
            assert.throws(
                () => decoder.decode(bytes),
                (error: unknown) =>
                    error instanceof EtfError &&
                    error.code === "limit" &&
                    reason.test(error.message),
            );
        }
    };
    limited({ maxBytes: 3 }, encode("abc"), /the 3 of maxBytes/);
    limited(
        { maxElements: 10 },
        encode([
            [1000, 2],
            [3000, 4],
            [5000, 6],
            [7000, 8, 9],
        ]),
        /the 10 of maxElements/,
    );
    limited({ maxDepth: 3 }, encode([[[["x"]]]]), /the 3 of maxDepth/);
    limited({ maxBigBytes: 20 }, encode(2n ** 200n), /the 20 of maxBigBytes/);
    const compressed = encoder({ deflate: (bytes) => deflateSync(bytes) }).encode("a".repeat(5000));
    limited({ maxInflatedBytes: 4999 }, compressed, /the 4999 of maxInflatedBytes/);
    assert.throws(
        () =>
            plainDecoder({ atoms: "symbol", limits: { maxAtoms: 2 } }).decode(
                encode([Symbol.for("a1"), Symbol.for("a2"), Symbol.for("a3")]),
            ),
        /the 2 of maxAtoms/,
    );
    assert.throws(() => termDecoder({ limits: { maxDepth: MAX_DEPTH + 1 } }), TypeError);
    assert.throws(
        () => termDecoder({ limits: { maxBites: 1 } as object }),
        /no option is called maxBites/,
    );
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
    // 60 MB of zeros in 60 kB, said to be 100 bytes.
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

test("keys cannot reach a prototype", () => {
    assert.throws(
        () => decode(encode(new Map([["__proto__", 1]]))),
        (error: unknown) => error instanceof EtfError && error.code === "key",
    );
    assert.throws(() => decode(encode(new Map([[Symbol.for("__proto__"), {}]]))), EtfError);
    const record = new ErlRecord(
        new Atom("m"),
        new Atom("r"),
        true,
        [new Atom("__proto__")],
        [ErlMap.from([])],
    );
    assert.throws(
        () => decode(encode(record)),
        (error: unknown) => error instanceof EtfError && error.code === "key",
    );
    const many = new Map<string, unknown>(Array.from({ length: 100 }, (_, i) => [`k${i}`, i]));
    many.set("__proto__", { polluted: true });
    assert.throws(() => decode(encode(many as never)), EtfError);
    const names = ["constructor", "toString", "hasOwnProperty", "prototype", "valueOf"];
    for (let times = 0; times < 20; times++) {
        const made = decode(encode(new Map(names.map((name) => [name, 1])))) as Record<
            string,
            unknown
        >;
        assert.deepEqual(Object.keys(made), names);
        assert.equal(Object.getPrototypeOf(made), Object.prototype);
    }
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
    assert.deepEqual(
        plainDecoder({ maps: "map" }).decode(encode(new Map([["__proto__", 1]]))),
        new Map([["__proto__", 1]]),
    );
});

test("ten thousand different map shapes and atoms do not break a decoder", () => {
    const decoder = plainDecoder();
    for (let i = 0; i < 10000; i++)
        assert.deepEqual(decoder.decode(encode({ [`key ${i}`]: i, b: 2 })), {
            [`key ${i}`]: i,
            b: 2,
        });
    assert.deepEqual(decoder.decode(encode({ last: 1 })), { last: 1 });
});

test("what the VM refuses or misreads is refused, with the offset of the fault", () => {
    refused([], "truncated", 0);
    refused([130, 97, 1], "version", 0);
    refused([131], "truncated", 1);
    refused([131, 131, 97, 1], "tag", 1);
    refused([131, 82, 0], "tag", 1);
    refused([131, 97, 1, 0], "trailing", 3);
    refused([131, 70, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0], "value", 1);
    refused([131, 119, 2, 0xc3, 0x28], "utf8");
    refused([131, 116, 0, 0, 0, 2, 97, 1, 97, 1, 97, 1, 97, 2], "duplicate", 10);
    refused([131, 77, 0, 0, 0, 1, 9, 255], "value", 1);
    refused([131, 77, 0, 0, 0, 0, 1], "value", 1);
    refused([131, 90, 0, 6, 119, 1, 97, 0, 0, 0, 0], "value");
    // The VM takes these, and reads four bytes that are not theirs.
    refused([131, 90, 0, 0, 119, 1, 97, 0, 0, 0, 1], "value", 2);
    refused([131, 104, 2, 97, 1, 114, 0, 0, 119, 1, 97, 1], "value", 6);
    refused([131, 113, 119, 1, 97, 119, 1, 98, 98, 255, 255, 255, 255], "value");
    // Only today's tag has references whose first word has more than 18 bits.
    refused([131, 114, 0, 1, 119, 1, 97, 1, 0, 4, 0, 0], "value", 1);
    refused([131, 101, 119, 1, 97, 0, 4, 0, 0, 1], "value", 1);
    decodeTerm(Uint8Array.of(131, 114, 0, 1, 119, 1, 97, 1, 0, 3, 255, 255));
    decodeTerm(Uint8Array.of(131, 90, 0, 1, 119, 1, 97, 0, 0, 0, 1, 0, 4, 0, 0));
    const free = (count: number) =>
        new Fun(atom("m"), 1, new Uint8Array(16), 1, -1, -(2 ** 31), pid, Array(count).fill(1));
    const pid = new Pid(atom("n"), 1, 2, 3);
    const full = encode(free(255));
    assert.deepEqual(decodeTerm(full), free(255));
    full[27] = 1;
    refused(full, "value", 27);
    assert.throws(() => encode(free(256)), EtfError);
    const zero = new ExportFun(atom("m"), atom("f"), -0);
    assert.deepEqual(decodeTerm(encode(zero)), new ExportFun(atom("m"), atom("f"), 0));
    refused([131, 103, 119, 1, 97, 0, 0, 0, 1, 0, 0, 0, 0, 4], "value", 13);
    refused([131, 67, 0, 0, 0, 0, 2, 119, 1, 97, 119, 1, 98], "value");
    refused([131, 108, 0, 0, 0, 1, 121, 0, 0, 0, 0, 97, 1, 106], "tag");
});

test("text that is not UTF-8 is refused as TextDecoder refuses it", () => {
    const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    const random = new Random(4);
    const lead = [
        0x41, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xef, 0xf0, 0xf1, 0xf4, 0xf5, 0xff, 0x80, 0x8f,
        0x90, 0x9f, 0xa0, 0xbd, 0xbf,
    ];
    for (let round = 0; round < 40000; round++) {
        const bytes = Uint8Array.from({ length: random.of([1, 2, 3, 4, 5, 6, 7, 60]) }, () =>
            random.of(lead),
        );
        let expected: string | undefined;
        try {
            expected = strict.decode(bytes);
        } catch {
            expected = undefined;
        }
        let actual: unknown;
        try {
            actual = decode(encode(bytes));
        } catch (error) {
            assert.ok(error instanceof EtfError && error.code === "utf8");
        }
        assert.equal(actual, expected);
    }
});

test("a limit of the asynchronous decoder that cannot be meant is refused", async () => {
    const bytes = Uint8Array.of(131, 80, 0, 0, 0, 100, 1);
    // @ts-expect-error
    await assert.rejects(inflated(bytes, { maxInflated: 5 }), /no option is called maxInflated/);
    // @ts-expect-error
    await assert.rejects(inflated(bytes, { maxInflatedBytes: "5" }), TypeError);
    // @ts-expect-error
    await assert.rejects(inflated("text"), /^TypeError: the input is a Uint8Array/);
});

test("a frame's length over the limit is refused before anything is collected", () => {
    const frames = new FrameReader({ maxBytes: 1000 });
    const found: Uint8Array[] = [];
    const push = (...piece: number[]) => {
        for (const message of frames.push(Uint8Array.from(piece))) found.push(message);
    };
    const overLimit = { name: "EtfError", code: "limit" };
    push(0, 0, 3, 232, ...new Uint8Array(1000));
    assert.equal(found.pop()?.length, 1000);
    // What came before it is given first, and nothing after it is collected.
    assert.throws(() => push(0, 0, 0, 1, 7, 0, 0, 4, 0, 1), overLimit);
    assert.deepEqual(found, [Uint8Array.of(7)]);
    assert.throws(() => push(1, 2, 3), overLimit);
    assert.throws(() => push(), overLimit);
});

test("the work on keys and failures is linear: large integers are never made decimal", async () => {
    const { canonical } = (await import(
        new URL("../../dist/canonical.js", import.meta.url).href
    )) as { canonical: (term: Term) => string };
    // Base 10 would have 2,467 digits, for the square of their number in time.
    assert.equal(canonical(1n << 8192n).length, 2 + 2049);
    assert.equal(show(1n << 8192n), `16#1${"0".repeat(53)}...`);
    assert.equal(show(-(1n << 100n)), "-1267650600228229401496703205376");
    // A name is made when a failure says it, not before.
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
    // Four levels more are 16 times as many terms, and without the order kept 256 times the work.
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
            assert.throws(() => decoder.decode(encode(list)), /the 9 of maxElements/);
        // As the tail of a list, too.
        const tail = Uint8Array.of(131, 108, 0, 0, 0, 5, 97, 1, 97, 1, 97, 1, 97, 1, 97, 1);
        const whole = Uint8Array.of(...tail, ...encode([1, 2, 3, 4, 5]).subarray(1));
        assert.throws(() => decoder.decode(whole), /the 9 of maxElements/);
    }
    // By default, 17 MB of them in 17 kB.
    const row = Uint8Array.of(107, 255, 255, ...new Uint8Array(65535));
    const rows = Buffer.concat([
        Uint8Array.of(108, 0, 0, 1, 8),
        ...Array<Uint8Array>(264).fill(row),
        Uint8Array.of(106),
    ]);
    const size = [24, 16, 8, 0].map((shift) => (rows.length >>> shift) & 255);
    const bomb = Uint8Array.of(131, 80, ...size, ...deflateSync(rows));
    assert.throws(() => decode(bomb), /the 16777216 of maxElements/);
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
    // The term model compares them by what they are written as.
    assert.equal((decodeTerm(keys(6000, 10)) as ErlMap).size, 6000);
    assert.throws(() => decode(encode(new Map([[2n ** 2047n, 1]]))), /only maps: "map" takes/);
});

/** What a program prints that runs in the package's folder, in a Node of its own. */
function printed(program: string): string {
    const said = spawnSync(process.execPath, ["--input-type=module", "--eval", program], {
        cwd: fileURLToPath(new URL("../..", import.meta.url)),
    });
    assert.equal(said.status, 0, said.stderr.toString());
    return said.stdout.toString().trim();
}

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
    // What one alternative has read is not kept for the next call, nor is one atom for another.
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

test("a replacement character is text, what it stands for elsewhere is not", () => {
    const { decodePrefix } = plainDecoder();
    for (const length of [1, 16, 17, 40, 400, 4000]) {
        const text = "a\ufffd".repeat(length);
        assert.equal(decode(encode(text)), text);
        const bytes = encode(text);
        // Without its last byte, which follows the term instead.
        new DataView(bytes.buffer).setUint32(2, 4 * length - 1);
        assert.throws(() => decodePrefix(bytes), { name: "EtfError", code: "utf8" });
    }
});

test("blocks of a compressed term that give nothing are bounded", () => {
    const bits: number[] = [];
    const put = (value: number, count: number) => {
        for (let at = 0; at < count; at++) bits.push((value >> at) & 1);
    };
    for (let block = 0; block < 3000; block++) {
        // Codes for the lengths 18 (zeros) and 1; symbols for the block's end and a distance.
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

test("a decoder's keys outlast the input that they were read from", () => {
    const { decode } = termDecoder();
    const buffer = new Uint8Array(64);
    const kinds: Encodable[] = ["aaaa", tuple("aaaa", atom("b")), new Map([["aaaa", 1]]), ["aaaa"]];
    for (const key of kinds) {
        const bytes = encode(new Map([[key, 1]]));
        buffer.set(bytes);
        decode(buffer.subarray(0, bytes.length));
        buffer.fill(122);
        const term = decode(bytes) as ErlMap;
        assert.equal(hex(encode(term)), hex(bytes));
        assert.equal(term.get(decode(encode(key))), 1);
    }
    // Another message may stand in the same place, as in a socket's buffer.
    const names = ["name 1", "name 2", "a name of 16 (1)", "a name of 16 (2)"];
    const wraps: ((name: string) => Encodable)[] = [(name) => name, atom, (name) => tuple(name)];
    const makes = [plainDecoder, () => plainDecoder({ maps: "map" }), termDecoder];
    const reads = (decoder: TermDecoder<unknown>, bytes: Uint8Array) => {
        try {
            return hex(encode(decoder.decode(bytes) as Encodable));
        } catch (error) {
            return (error as EtfError).message;
        }
    };
    for (const place of [new Uint8Array(99), Buffer.alloc(99)])
        for (const make of makes) {
            const decoder = make();
            for (const name of [...names, ...names])
                for (const wrap of wraps) {
                    const bytes = encode([new Map([[wrap(name), wrap(name)]])]);
                    place.set(bytes);
                    const read = reads(decoder, place.subarray(0, bytes.length));
                    assert.equal(
                        read,
                        reads(make(), bytes),
                        `${name} in a ${place.constructor.name}`,
                    );
                }
        }
    // After a message that was cut in a key, binaries are windows on their input again.
    assert.throws(() => decode(encode(new Map([["cut", 1]])).subarray(0, 9)), EtfError);
    const whole = encode("text");
    assert.equal((decode(whole) as Binary).bytes.buffer, whole.buffer);
});

test("decoding changes nothing in the input, and what it copies stays as it was", () => {
    const node = atom("n");
    const pid = new Pid(node, 1, 2, 3);
    const fun = new Fun(node, 1, new Uint8Array(16).fill(7), 0, 0, 0, pid, []);
    const inputs = [
        // Its last byte has more bits than count.
        Uint8Array.of(131, 77, 0, 0, 0, 1, 3, 255),
        encode(fun),
        encode(new LocalTerm(Uint8Array.of(1, 2, 3))),
        encode(new Map([[fun, 1]])),
    ];
    for (const original of inputs)
        for (const bytes of [original.slice(), Buffer.from(original)])
            for (const decoder of [termDecoder(), plainDecoder({ maps: "map" })]) {
                bytes.set(original);
                const first = decoder.decode(bytes);
                assert.equal(hex(bytes), hex(original));
                bytes.fill(0);
                assert.deepEqual(first, decoder.decode(original));
            }
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
        assert.throws(() => decoder.decode(bytes), /the 16777216 of maxElements/);
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
        assert.throws(() => decoder.decode(tuples(3)), /the 34 of maxElements/);
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
            /over the 39 of maxElements \(at byte 13\)/,
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

test("code is generated for no more forms than are remembered", () => {
    const own = globalThis.Function;
    let made = 0;
    globalThis.Function = new Proxy(own, {
        construct(target, parameters) {
            made++;
            return Reflect.construct(target, parameters) as object;
        },
    });
    try {
        const forms = Array.from({ length: 100 }, (_, i) => ({ [`a${i}`]: 1, [`b${i}`]: 2 }));
        const { encode: write } = encoder();
        const decoder = plainDecoder();
        const bytes = forms.map((form) => encode(form));
        const times = (count: number, run: () => void) => {
            made = 0;
            for (let i = 0; i < count; i++) run();
            return made;
        };
        // Layouts of one width; the first orders of maps, and sets of keys.
        assert.equal(
            times(50, () => forms.forEach((form) => write(form))),
            16,
        );
        const read = () =>
            bytes.forEach((term, i) => assert.deepEqual(decoder.decode(term), forms[i]));
        const made100 = times(50, read);
        assert.ok(made100 >= 8 && made100 <= 100, `${made100}`);
        const names = Array.from({ length: 14 }, (_, i) => `k${i}`);
        const sets: Uint8Array[] = [];
        for (let bits = 0; bits < 1 << names.length; bits++) {
            const set = names.filter((_, i) => (bits >> i) & 1);
            if (set.length === 5) sets.push(encode(Object.fromEntries(set.map((k) => [k, 1]))));
        }
        assert.equal(sets.length, 2002);
        const { decode: readSet } = plainDecoder();
        const madeOfSets = times(12, () => sets.forEach((term) => readSet(term)));
        // MAX_SETS and MAX_ORDERS of src/plain.ts.
        assert.ok(madeOfSets >= 1024 && madeOfSets <= 1024 + 32, `${madeOfSets}`);
    } finally {
        globalThis.Function = own;
    }
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
    // What is no option is told before the first compressed message comes.
    // @ts-expect-error
    assert.throws(() => asyncDecoder(plainDecoder(), { maxInflated: 5 }), /no option is called/);
    // @ts-expect-error
    assert.throws(() => asyncDecoder(plainDecoder(), { maxBytes: 5 }), /no option is called/);
    assert.throws(() => asyncDecoder(plainDecoder(), { maxInflatedBytes: -1 }), TypeError);
    for (const none of [null, undefined, decode, {}])
        assert.throws(
            () => asyncDecoder(none as TermDecoder<unknown>),
            /^TypeError: asyncDecoder takes a plainDecoder/,
        );
    // @ts-expect-error
    await assert.rejects(inflated(encode(1), { maxInflated: 5 }), /no option is called/);
    // One who writes to them changes no decoder.
    assert.ok(Object.isFrozen(defaultLimits));
});

test("options are those that are named, not what every object has", async () => {
    // @ts-expect-error
    assert.throws(() => plainDecoder({ constructor: 1 }), /no option is called constructor/);
    const limits = { toString: 1 } as object;
    for (const make of [plainDecoder, termDecoder])
        assert.throws(() => make({ limits }), /no option is called toString/);
    // @ts-expect-error
    assert.throws(() => encoder({ valueOf: 1 }), /no option is called valueOf/);
    const nothing = { maxDepth: null } as object;
    assert.throws(() => plainDecoder({ limits: nothing }), /maxDepth cannot be null/);
    // An option that is undefined is none that was given.
    const none = { limits: { maxDepth: undefined }, inflate: undefined } as object;
    const deep = encode(Array.from({ length: 600 }).reduce((inner) => [inner]) as Encodable);
    const text = encoder({ deflate: (bytes) => deflateSync(bytes) }).encode("a".repeat(500));
    for (const decoder of [plainDecoder(none), termDecoder(none)]) {
        decoder.decode(text);
        assert.throws(() => decoder.decode(deep), /the 512 of maxDepth/);
    }
});

test("terms at the borders of the format are read or refused as the VM does", () => {
    const float = (text: string) =>
        Buffer.concat([Uint8Array.of(131, 99), Buffer.from(text.padEnd(31, "\0"))]);
    for (const [text, value] of [
        ["1.5\0xyz", 1.5],
        ["+1.5E2", 150],
        ["-1.25e-1", -0.125],
    ] as const)
        assert.equal(decode(float(text)), value);
    for (const text of [" 1.5", "1.5 ", "1.5e", ".5", "1.0e999", "1.", "1;5", "1.".padEnd(31, "0")])
        refused(float(text), "value");
    const bits = (...bytes: number[]) => Uint8Array.of(131, 77, 0, 0, 0, ...bytes);
    assert.equal(show(decodeTerm(bits(1, 8, 65))), '<<"A">>');
    // OTP 25 reads the first as <<>>, OTP 29 refuses it.
    for (const bytes of [bits(0, 0), bits(0, 1), bits(0, 8), bits(1, 0, 1), bits(1, 9, 1)])
        refused(bytes, "value");
});

const held = `
    import { setFlagsFromString } from "node:v8";
    import { runInNewContext } from "node:vm";
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc");
    const held = () => {
        for (let i = 0; i < 4; i++) gc();
        const { arrayBuffers, heapUsed } = process.memoryUsage();
        return (arrayBuffers + heapUsed) >> 20;
    };`;

test("atoms that a decoder remembers hold no text around them", () => {
    const kept = printed(`${held}
        import { atom, encode, termDecoder } from "@whittle/etf";
        const decoder = termDecoder();
        const before = held();
        const around = new TextEncoder().encode("around ".repeat(20000));
        for (let i = 0; i < 500; i++) {
            // ASCII that the decoder makes text of at once; what is cut out of that shares it.
            decoder.decode(encode([around, atom("thirteen letters " + i), around]));
        }
        console.log(held() - before, decoder !== undefined);`);
    const [mebibytes] = kept.split(" ").map(Number);
    assert.ok(mebibytes < 9, `${kept} MiB`);
});

test("keys that a decoder remembers hold no text around them, also of messages that fail", () => {
    const kept = printed(`${held}
        import { plainDecoder, termDecoder } from "@whittle/etf";
        const decoders = [plainDecoder(), termDecoder({ limits: { maxAtoms: 0 } })];
        const before = held();
        let failed = 0;
        for (const { decode } of decoders)
            for (let size = 1; size <= 64; size++)
                for (let choice = 0; choice < 8; choice++) {
                    // A text, then a map with an atom of 20 letters for its first key; 255 is no tag.
                    const bytes = Buffer.alloc(160000, 255);
                    bytes.set([131, 108, 0, 0, 0, 2, 109, 0, 0, 78, 32]);
                    bytes.fill(97, 11, 20011);
                    bytes.set([116, 0, 0, 0, size, 119, 20], 20011);
                    bytes.write(String(100 * size + choice).padStart(20, "k"), 20018);
                    try { decode(bytes); } catch { failed++; }
                }
        console.log(held() - before, failed, decoders.length);`);
    const [mebibytes, failed] = kept.split(" ").map(Number);
    assert.ok(mebibytes < 9 && failed === 1024, kept);
});

test("an idle encoder keeps little of what it wrote", () => {
    const kept = printed(`${held}
        import { encoder } from "@whittle/etf";
        const encoders = [encoder(), encoder(), encoder()];
        const [first, second, third] = encoders;
        const before = held();
        const large = { large: new Uint8Array(1 << 26) };
        first.encode(large);
        first.encode(1);
        second.encodeInto(large, new Uint8Array(1 << 27));
        for (let i = 0; i < 16; i++)
            for (let round = 0; round < 9; round++)
                third.encode({ [String(i).padStart(1 << 20, "k")]: 1 });
        large.large = 0;
        console.log(held() - before, encoders.length);`);
    const [mebibytes] = kept.split(" ").map(Number);
    assert.ok(mebibytes < 9, `${kept} MiB`);
});
