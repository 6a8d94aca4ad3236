// Tests input from the network: damaged, truncated, huge and malicious.
import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import {
    Atom,
    atom,
    decode,
    decodeTerm,
    type Encodable,
    encode,
    encoder,
    ErlMap,
    ErlRecord,
    EtfError,
    ExportFun,
    FrameReader,
    Fun,
    MAX_DEPTH,
    Pid,
    plainDecoder,
    show,
    termDecoder,
} from "@whittle/etf";
import { Random } from "./random.js";
import { vectors, decoders, refused } from "./inputs.js";

/** Decodes with every decoder. Each must return a value or throw an EtfError. */
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
        // Small numbers and tags occur often, so that the decoders read more than the first byte.
        const bytes = Uint8Array.from({ length: random.below(60) }, () =>
            random.below(3) === 0 ? random.of(tags) : random.below(random.of([3, 256])),
        );
        bytes[0] = 131;
        survives(bytes);
    }
});

test("headers allocate nothing before the bytes are there", () => {
    refused([131, 108, 0xff, 0xff, 0xff, 0xff, 106], "truncated");
    refused([131, 105, 0x7f, 0xff, 0xff, 0xff, 97, 1], "truncated");
    refused([131, 116, 0xff, 0xff, 0xff, 0xff, 97, 1], "truncated");
    refused([131, 109, 0xff, 0xff, 0xff, 0xff], "truncated");
    refused([131, 67, 0xff, 0xff, 0xff, 0xff, 0, 119, 1, 97, 119, 1, 97], "truncated");
    // Headers inside headers each promise as many bytes as may still follow.
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
    limited({ maxBytes: 3 }, encode("abc"), /exceeds maxBytes \(3\)/);
    limited(
        { maxElements: 10 },
        encode([
            [1000, 2],
            [3000, 4],
            [5000, 6],
            [7000, 8, 9],
        ]),
        /exceeds maxElements \(10\)/,
    );
    limited({ maxDepth: 3 }, encode([[[["x"]]]]), /exceeds maxDepth \(3\)/);
    limited({ maxBigBytes: 20 }, encode(2n ** 200n), /exceeds maxBigBytes \(20\)/);
    const compressed = encoder({ deflate: (bytes) => deflateSync(bytes) }).encode("a".repeat(5000));
    limited({ maxInflatedBytes: 4999 }, compressed, /exceeds maxInflatedBytes \(4999\)/);
    assert.throws(
        () =>
            plainDecoder({ atoms: "symbol", limits: { maxAtoms: 2 } }).decode(
                encode([Symbol.for("a1"), Symbol.for("a2"), Symbol.for("a3")]),
            ),
        /exceeds maxAtoms \(2\)/,
    );
    assert.throws(() => termDecoder({ limits: { maxDepth: MAX_DEPTH + 1 } }), TypeError);
    assert.throws(
        () => termDecoder({ limits: { maxBites: 1 } as object }),
        /unknown option maxBites/,
    );
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

test("what the VM refuses or misreads is refused, with the offset of the fault", () => {
    refused([], "truncated", 0);
    refused([130, 97, 1], "version", 0);
    refused([131], "truncated", 1);
    refused([131, 131, 97, 1], "tag", 1);
    refused([131, 82, 0], "tag", 1);
    refused([131, 97, 1, 0], "trailing", 3);
    refused([131, 70, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0], "value", 1);
    refused([131, 119, 2, 0xc3, 0x28], "utf8"); // an atom: no option helps
    refused([131, 116, 0, 0, 0, 2, 97, 1, 97, 1, 97, 1, 97, 2], "duplicate", 10);
    refused([131, 77, 0, 0, 0, 1, 9, 255], "value", 1);
    refused([131, 77, 0, 0, 0, 0, 1], "value", 1);
    refused([131, 90, 0, 6, 119, 1, 97, 0, 0, 0, 0], "value");
    // The VM accepts these, and reads four bytes that do not belong to them.
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

test("a frame's length over the limit is refused before anything is collected", () => {
    const frames = new FrameReader({ maxBytes: 1000 });
    const found: Uint8Array[] = [];
    const push = (...piece: number[]) => {
        for (const message of frames.push(Uint8Array.from(piece))) found.push(message);
    };
    const overLimit = { name: "EtfError", code: "limit" };
    push(0, 0, 3, 232, ...new Uint8Array(1000));
    assert.equal(found.pop()?.length, 1000);
    // The reader gives the earlier messages first, and collects nothing after it.
    assert.throws(() => push(0, 0, 0, 1, 7, 0, 0, 4, 0, 1), overLimit);
    assert.deepEqual(found, [Uint8Array.of(7)]);
    assert.throws(() => push(1, 2, 3), overLimit);
    assert.throws(() => push(), overLimit);
});

test("a replacement character is text, what it stands for elsewhere is not", () => {
    const { decodePrefix } = plainDecoder();
    for (const length of [1, 16, 17, 40, 400, 4000]) {
        const text = "a\ufffd".repeat(length);
        assert.equal(decode(encode(text)), text);
        const bytes = encode(text);
        // The stream lacks its last byte, which follows the term instead.
        new DataView(bytes.buffer).setUint32(2, 4 * length - 1);
        assert.throws(() => decodePrefix(bytes), { name: "EtfError", code: "utf8" });
    }
});

test("options are those that are named, not what every object has", async () => {
    // @ts-expect-error
    assert.throws(() => plainDecoder({ constructor: 1 }), /unknown option constructor/);
    const limits = { toString: 1 } as object;
    for (const make of [plainDecoder, termDecoder])
        assert.throws(() => make({ limits }), /unknown option toString/);
    // @ts-expect-error
    assert.throws(() => encoder({ valueOf: 1 }), /unknown option valueOf/);
    const nothing = { maxDepth: null } as object;
    assert.throws(() => plainDecoder({ limits: nothing }), /maxDepth cannot be null/);
    for (const maxDepth of [5n, "5", -1, NaN])
        assert.throws(
            () => plainDecoder({ limits: { maxDepth } as object }),
            new TypeError(`maxDepth cannot be ${maxDepth}`),
        );
    // An option that is undefined counts as not given.
    const none = { limits: { maxDepth: undefined }, inflate: undefined } as object;
    const deep = encode(Array.from({ length: 600 }).reduce((inner) => [inner]) as Encodable);
    const text = encoder({ deflate: (bytes) => deflateSync(bytes) }).encode("a".repeat(500));
    for (const decoder of [plainDecoder(none), termDecoder(none)]) {
        decoder.decode(text);
        assert.throws(() => decoder.decode(deep), /exceeds maxDepth \(512\)/);
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
