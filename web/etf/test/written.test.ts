// Tests the encoder, its options and its errors.
import assert from "node:assert/strict";
import { test } from "node:test";
import { runInNewContext } from "node:vm";
import {
    Atom,
    atom,
    Binary,
    BitBinary,
    byteSize,
    compare,
    decode,
    decodeTerm,
    encode,
    encodeInto,
    encoder,
    equal,
    ErlMap,
    ErlRecord,
    EtfError,
    ExportFun,
    Float,
    frame,
    FrameReader,
    Fun,
    ImproperList,
    LocalTerm,
    OldFun,
    Pid,
    plainDecoder,
    Port,
    Reference,
    termDecoder,
    Tuple,
    tuple,
    write,
    type Encodable,
    type Term,
} from "@whittle/etf";
import * as light from "@whittle/etf/decode";
import { hex } from "./describe.js";
import { Random } from "./random.js";
import { value } from "./values.js";

/** Numbers of every kind, also those that the encoder writes as an unexpected kind. */
function rawNumber(random: Random): number {
    return random.of([
        () => random.below(9),
        () => -random.word(),
        () => random.next(),
        () => 2 ** (53 + random.below(9)),
        () => random.of([-0, 1e300, -1e300, 0.5, 2 ** 53 - 1, 2 ** 53, 5e-324]),
    ])();
}

test("values that have no term are refused with a reason", () => {
    const loop: Encodable[] = [];
    loop.push(loop);
    for (const [bad, reason] of [
        [NaN, /is not a term/],
        [Infinity, /is not a term/],
        [() => 1, /function is not a term/],
        [new Date(0), /Date is not a term/],
        ["\ud800", /surrogate/],
        [loop, /holds itself/],
        [Symbol(), /name must be a string/],
        [new Atom("x".repeat(256)), /255 characters/],
    ] as [Encodable, RegExp][]) {
        assert.throws(
            () => encode(bad),
            (error: unknown) =>
                error instanceof EtfError && error.code === "encode" && reason.test(error.message),
        );
    }
    // The encoder works after each of these errors.
    assert.equal(decode(encode("still works")), "still works");
});

test("numbers become the terms that Erlang would write", () => {
    for (const [given, bytes] of [
        [0, "836100"],
        [255, "8361ff"],
        [256, "836200000100"],
        [-1, "8362ffffffff"],
        [-0, "83468000000000000000"],
        [1.5, "83463ff8000000000000"],
        [new Float(1), "83463ff0000000000000"],
        [2147483648, "836e040000000080"],
        [-9007199254740991, "836e0701ffffffffffff1f"],
        [18446744073709551615n, "836e0800ffffffffffffffff"],
        [5n, "836105"],
    ] as [Encodable, string][])
        assert.equal(hex(encode(given)), bytes);
    assert.equal(decode(encode(2 ** 60)), 1152921504606846976n);
});

test("deterministic output does not depend on the order of keys", () => {
    const writer = encoder({ deterministic: true });
    assert.equal(
        hex(writer.encode({ b: 1, a: 2, aa: 3 })),
        hex(writer.encode({ aa: 3, a: 2, b: 1 })),
    );
    assert.equal(
        hex(
            writer.encode(
                new Map<Encodable, Encodable>([
                    ["x", 1],
                    [2, 1],
                    [atom("y"), 1],
                ]),
            ),
        ),
        hex(
            writer.encode(
                new Map<Encodable, Encodable>([
                    [atom("y"), 1],
                    ["x", 1],
                    [2, 1],
                ]),
            ),
        ),
    );
});

test("deterministic output orders keys of any kind as the terms that they are written as", () => {
    const nameless = (name: string): Encodable => ({ [name]: [true, null] });
    const makes: readonly ((name: string) => Encodable)[] = [
        (name) => [name],
        (name) => tuple(1, name),
        (name) => new ImproperList<Encodable>([name], null),
        (name) => new Map<Encodable, Encodable>([[Symbol(name), 1]]),
        nameless,
    ];
    for (const keys of ["atom", "binary"] as const) {
        const writer = encoder({ deterministic: true, keys });
        for (const make of makes) {
            const [a, b] = [make("a"), make("b")];
            const bytes = writer.encode(
                new Map([
                    [b, 2],
                    [a, 1],
                ] as [Encodable, Encodable][]),
            );
            const term = decodeTerm(bytes) as ErlMap;
            assert.deepEqual(term.values, [1, 2]);
            assert.ok(compare(term.keys[0], term.keys[1], true) < 0);
            // The encoder writes a decoded map in the same order.
            assert.equal(hex(writer.encode(term)), hex(bytes));
        }
    }
    // null sorts as the atom that the encoder writes for it.
    const nil = encoder({ deterministic: true, null: "nil" });
    const written = (none: Encodable) =>
        hex(
            nil.encode(
                new Map([
                    [none, 1],
                    [atom("nj"), 2],
                ] as [Encodable, Encodable][]),
            ),
        );
    assert.equal(written(null), written(atom("nil")));
});

test("names of properties are written as other atoms and texts are", () => {
    for (const minorVersion of [0, 1, 2] as const) {
        const { encode } = encoder({ minorVersion, keys: "atom" });
        for (const name of ["a", "é", "λ", "x".repeat(255)]) {
            const map = new Map([[atom(name), 1]]);
            assert.equal(hex(encode({ [name]: 1 })), hex(encode(map)));
            assert.equal(
                byteSize({ [name]: 1 }, { minorVersion, keys: "atom" }),
                encode(map).length,
            );
        }
        assert.throws(() => encode({ ["x".repeat(256)]: 1 }), /at most 255 characters/);
    }
    assert.throws(() => encode({ "\ud800": 1 }), /lone surrogate/);
});

test("what TypeScript would refuse is refused in words", () => {
    const refused = (run: () => unknown, reason: RegExp) => assert.throws(run, reason);
    // @ts-expect-error
    refused(() => plainDecoder({ maxDepth: 3 }), /^TypeError: unknown option maxDepth/);
    // @ts-expect-error
    refused(() => termDecoder({ atoms: "class" }), /^TypeError: unknown option atoms/);
    const words = /^TypeError: atoms must be "string"\|"symbol"\|"class", not "symbols"/;
    // @ts-expect-error
    refused(() => plainDecoder({ atoms: "symbols" }), words);
    // @ts-expect-error
    refused(() => plainDecoder({ limits: { maxDepth: "3" } }), /^TypeError: maxDepth cannot be 3/);
    refused(
        // @ts-expect-error
        () => encoder({ keys: "atoms" }),
        /^TypeError: keys must be "binary"\|"atom", not "atoms"/,
    );
    // @ts-expect-error
    refused(() => encoder({ minorVersion: 3 }), /^TypeError: minorVersion must be 0\|1\|2, not 3/);
    // @ts-expect-error
    refused(() => byteSize(1, { minor: 0 }), /^TypeError: unknown option minor/);
    // @ts-expect-error
    refused(() => ErlMap.from([]).get("name"), /JavaScript string/);
    // @ts-expect-error
    refused(() => compare({ a: 1 }, { a: 2 }), /^TypeError: a JavaScript Object/);
    // @ts-expect-error
    refused(() => Binary.of(undefined), /^TypeError: a binary must be a Uint8Array, not undefined/);
    const buffer = /^TypeError: the input must be a Uint8Array, not ArrayBuffer$/;
    // @ts-expect-error
    refused(() => decode(new ArrayBuffer(4)), buffer);
    // @ts-expect-error
    refused(() => encode(atom()), /^EtfError: an atom's name must be a string/);
    // @ts-expect-error
    refused(() => encode(new Float("1")), /is not a term/);
    refused(() => encode(new (class {})() as never), /nameless object is not a term/);
    // @ts-expect-error
    refused(() => frame("text"), /^TypeError: a message must be a Uint8Array/);
    refused(
        // @ts-expect-error
        () => new FrameReader().push(new ArrayBuffer(4)),
        /^TypeError: a piece must be a Uint8/,
    );
    // @ts-expect-error
    refused(() => new FrameReader({ maxbytes: 9 }), /^TypeError: unknown option maxbytes/);
    // @ts-expect-error
    refused(() => new FrameReader({ maxDepth: 3 }), /^TypeError: unknown option maxDepth/);
    // @ts-expect-error
    refused(() => light.plainDecoder({ atom: "class" }), /^TypeError: unknown option atom/);
    const maps = /^TypeError: maps must be "object"\|"map", not "Map"/;
    // @ts-expect-error
    refused(() => light.plainDecoder({ maps: "Map" }), maps);
    // @ts-expect-error
    refused(() => light.termDecoder({ maxDepth: 3 }), /^TypeError: unknown option maxDepth/);
    // @ts-expect-error
    refused(() => new Tuple(1), /^TypeError: a tuple needs an array/);
    const numbers = write.dict(write.string, write.integer);
    // @ts-expect-error
    refused(() => numbers({ a: 1 }), /^EtfError: Object is not a Map/);
    for (const fields of [["name", "__proto__"], ["a", "a"], "ab"])
        refused(
            () => plainDecoder({ records: { person: fields as string[] } }),
            /^TypeError: records: fields must be different names/,
        );
    for (const none of [null, 1, "x", []] as never[]) {
        refused(() => plainDecoder(none), /^TypeError: options must be an object/);
        refused(() => plainDecoder({ limits: none }), /^TypeError: options must be an object/);
        refused(() => plainDecoder({ records: none }), /^TypeError: options must be an object/);
        refused(() => encoder(none), /^TypeError: options must be an object/);
        refused(() => new FrameReader(none), /^TypeError: options must be an object/);
        refused(() => termDecoder({ inflate: none }), /^TypeError: inflate must be function, not /);
        refused(() => encoder({ deflate: none }), /^TypeError: deflate must be function, not /);
    }
    refused(() => encoder({ codegen: "false" as never }), /codegen must be false\|true/);
    for (const offset of [1.5, "1", -1, 9] as never[])
        refused(() => encodeInto(1, new Uint8Array(8), offset), /^TypeError: the offset is/);
    // @ts-expect-error
    const later = encoder({ deflate: async (bytes) => bytes });
    refused(() => later.encode("x".repeat(99)), /^TypeError: deflate must return a zlib/);
    // @ts-expect-error
    refused(() => compare(null, 1), /^TypeError: a JavaScript null/);
});

test("an error of encoding says where in the value it was", () => {
    const where = (value: unknown, way: string) =>
        assert.throws(
            () => encode(value as Encodable),
            (error: EtfError) => {
                assert.equal(error.code, "encode");
                const [before] = error.message.split(/:? ?NaN is not a term/);
                assert.equal(before, way);
                return true;
            },
            way,
        );
    where(NaN, "");
    where([1, NaN], "at [1]");
    where({ people: [{ name: "x" }, { name: "y", age: NaN }] }, "at .people[1].age");
    where(tuple(1, new Map<Encodable, Encodable>([["a", [NaN]]])), "at [1].a[0]");
    where(ErlMap.from([[atom("a"), [new Float(NaN)]]]), "at .a[0]");
    where(new Map([[tuple(), NaN]]), "at [0]");
    where({ a: new Map([[NaN, 1]]) }, "at .a[0]");
    where(new Map([[7, NaN]]), "at [7]");
    where(ErlMap.from([[Binary.of("a"), new Float(NaN)]]), "at .a");
    where({ "content-type": { "": NaN } }, 'at ["content-type"][""]');
    where(write.object({ "a.b": write.term })({ "a.b": new Float(NaN) }), 'at ["a.b"]');
    // The message names the class that is not a term, not a value inside it.
    assert.throws(
        () =>
            encode([
                new (class Box {
                    x = NaN;
                })() as never,
            ]),
        /^EtfError: at \[0\]: Box/,
    );
    assert.throws(() => encodeInto({ a: [NaN] }, new Uint8Array(99)), /^EtfError: at .a\[0\]: NaN/);
    assert.throws(() => encodeInto({ a: [NaN] }, new Uint8Array(3)), /^EtfError: at .a\[0\]: NaN/);
    assert.throws(() => byteSize({ a: [NaN] }), /^EtfError: at .a\[0\]: NaN/);
    let deep: Encodable = NaN;
    for (let i = 0; i < 500; i++) deep = [deep];
    assert.throws(() => encode(deep), /^EtfError: at (\[0\]){500}: NaN is not a term/);
    const own = new RangeError("mine");
    const getter = {
        get name(): string {
            throw own;
        },
    };
    assert.throws(
        () => encode([getter]),
        (error) => error === own,
    );
});

test("encoding into a buffer fills it exactly or says that it is too small", () => {
    const given = { name: "Joe", list: [1, 2.5, "three"] };
    const bytes = encode(given);
    const buffer = new Uint8Array(bytes.length + 10);
    assert.equal(encodeInto(given, buffer, 7), bytes.length);
    assert.deepEqual(buffer.slice(7, 7 + bytes.length), bytes);
    for (let size = 0; size < bytes.length; size++) {
        assert.throws(
            () => encodeInto(given, new Uint8Array(size)),
            (error: unknown) => error instanceof EtfError && error.code === "space",
        );
    }
    assert.equal(encodeInto(given, new Uint8Array(bytes.length)), bytes.length);
    assert.throws(() => encodeInto(given, buffer, 99), TypeError);
});

test("byteSize agrees with encode for every term", () => {
    const random = new Random(12);
    for (let round = 0; round < 2000; round++) {
        const term = random.term(3, true);
        for (const minorVersion of [0, 1, 2] as const) {
            assert.equal(
                byteSize(term, { minorVersion }),
                encoder({ minorVersion }).encode(term).length,
            );
        }
    }
});

test("a getter that encodes spoils nothing", () => {
    const random = new Random(15);
    const inner = encode({ inner: "x".repeat(40) });
    for (const codegen of [true, false]) {
        const kept = encoder({ codegen });
        const buffer = new Uint8Array(100000);
        /** The same value. A getter that calls the encoder first returns each part of an object. */
        const busy = (given: Encodable): Encodable => {
            if (Array.isArray(given)) return given.map(busy);
            if (typeof given !== "object" || given === null) return given;
            const object = {};
            for (const [name, part] of Object.entries(given as object) as [string, Encodable][])
                Object.defineProperty(object, name, {
                    enumerable: true,
                    get: () => {
                        assert.deepEqual(kept.encode({ inner: "x".repeat(40) }), inner);
                        assert.deepEqual(encode({ inner: "x".repeat(40) }), inner);
                        kept.encodeInto(part, new Uint8Array(100000));
                        return busy(part);
                    },
                });
            return object;
        };
        for (let round = 0; round < 60; round++) {
            const given = value(random, 2);
            const expected = hex(kept.encode(given));
            assert.equal(hex(kept.encode(busy(given))), expected);
            const size = kept.encodeInto(busy(given), buffer, 3);
            assert.equal(hex(buffer.subarray(3, 3 + size)), expected);
        }
    }
    const nested = {
        get payload() {
            return encode("inner");
        },
        z: 3,
    };
    const reader = plainDecoder({ binaries: "bytes" });
    assert.deepEqual(reader.decode(encode(nested)), { payload: encode("inner"), z: 3 });
    // A getter may change an array during the encoding. The number of written items stays the
    // same.
    const items: Encodable[] = ["x"];
    items.unshift({
        get shrinks() {
            items.length = 1;
            return 1;
        },
    });
    assert.deepEqual(decode(encode(new Tuple(items))), [{ shrinks: 1 }, undefined]);
});

test("a number is the term that it is written as: as a key, compared, and in order", () => {
    const random = new Random(16);
    const stable = encoder({ deterministic: true });
    for (let round = 0; round < 2000; round++) {
        const raw = rawNumber(random);
        const term = decodeTerm(encode(raw));
        const pairs: (readonly [Term, Term])[] = [
            [raw, term],
            [tuple(raw), tuple(term)],
            [[[raw]], [[term]]],
        ];
        for (const [a, b] of pairs) {
            assert.ok(equal(a, b), `${raw}`);
            assert.equal(compare(a, b, true), 0);
            // A Map turns -0 into 0.
            const key = Object.is(a, -0) ? b : a;
            assert.equal((decodeTerm(encode(new Map([[key, 1]]))) as ErlMap).get(a), 1);
            assert.equal(ErlMap.from([[a, 1]]).get(b), 1);
            const both = ErlMap.from([
                [a, 1],
                [b, 2],
            ]);
            assert.deepEqual((decodeTerm(encode(both)) as ErlMap).values, [2]);
        }
        const wrap = random.of<(raw: number) => Term>([(raw) => raw, (raw) => [raw], tuple]);
        const map = ErlMap.from(random.some(4, () => [wrap(rawNumber(random)), 0] as const));
        const bytes = stable.encode(map);
        assert.equal(hex(stable.encode(decodeTerm(bytes))), hex(bytes));
        assert.equal(hex(stable.encode(ErlMap.from([...map].reverse()))), hex(bytes));
    }
    assert.ok(equal(1n, 1) && equal(2 ** 60, 2n ** 60n) && !equal(1, new Float(1)));
    assert.ok(!equal(2 ** 60, 2n ** 60n + 1n) && !equal(0, -0));
});

test("fields that the format has no room for are refused, in every class", () => {
    const node = atom("n");
    const pid = new Pid(node, 1, 2, 3);
    const uniq = new Uint8Array(16);
    const words = [2 ** 32, -1, 1.5, NaN, "1", null, undefined];
    const integers = [2 ** 31, -(2 ** 31) - 1, 1.5, NaN, "1", null];
    const bad: (readonly [makes: (value: never) => Term, values: readonly unknown[]])[] = [
        [(id) => new Pid(node, id, 0, 0), words],
        [(serial) => new Pid(node, 0, serial, 0), words],
        [(creation) => new Pid(node, 0, 0, creation), words],
        [(id) => new Port(node, id, 1), [2n ** 64n, 2 ** 64, -1, -1n, 1.5, "1"]],
        [(id) => new Port(node, id, 1, false), [-1, -1n, 1.5, 2n ** 64n]],
        [(creation) => new Port(node, 1, creation), words],
        [(creation) => new Reference(node, creation, [1]), words],
        [(word) => new Reference(node, 1, [1, word]), words],
        [(count) => new Reference(node, 1, Array<number>(count).fill(1)), [0, 6]],
        [(arity) => new ExportFun(node, node, arity), [256, -1, 1.5, "1"]],
        [(arity) => new Fun(node, arity, uniq, 0, 0, 0, pid, []), [256, -1, 1.5, "1"]],
        [(size) => new Fun(node, 1, new Uint8Array(size), 0, 0, 0, pid, []), [0, 3, 15, 17]],
        [(index) => new Fun(node, 1, uniq, index, 0, 0, pid, []), words],
        [(index) => new Fun(node, 1, uniq, 0, index, 0, pid, []), integers],
        [(hash) => new Fun(node, 1, uniq, 0, 0, hash, pid, []), integers],
        [(id) => new Fun(node, 1, uniq, 0, 0, 0, new Pid(node, id, 0, 0), []), words],
        [(index) => new OldFun(node, index, 0, pid, []), integers],
        [(hash) => new OldFun(node, 0, hash, pid, []), integers],
        [(bits) => new BitBinary(Uint8Array.of(1), bits), [0, 8, 1.5, -1, "1"]],
        [(size) => new BitBinary(new Uint8Array(size), 1), [0]],
        [(bytes) => new BitBinary(bytes, 1), [[1], "x"]],
        [(bytes) => new LocalTerm(bytes), [5, "x", [1], undefined]],
        [(bytes) => new Fun(node, 1, bytes, 0, 0, 0, pid, []), ["0123456789abcdef"]],
        [(items) => new ImproperList(items, 1), [[], 5, {}]],
        [(values) => new ErlRecord(node, node, true, [atom("a")], values), [[], [1, 2]]],
        [(fields) => new ErlRecord(node, node, true, fields, [1, 2]), [[node, node], [node]]],
        [(value) => new Float(value), [NaN, Infinity, "1", null]],
        [(name) => new Atom(name), [1, null, "x".repeat(256)]],
    ];
    for (const [make, values] of bad)
        for (const value of values) {
            const term = make(value as never);
            const what = `${make} of ${String(value)}`;
            assert.throws(() => encode(term), { name: "EtfError", code: "encode" }, what);
            assert.throws(() => byteSize(term), { name: "EtfError", code: "encode" }, what);
        }
    // Values just inside the limits come back unchanged.
    for (const term of [
        new Pid(node, 2 ** 32 - 1, 0, 2 ** 32 - 1),
        new Port(node, 2n ** 64n - 1n, 1),
        new Port(node, 2 ** 32, 1, false),
        new Reference(node, 1, [0, 0, 0, 0, 2 ** 32 - 1]),
        new ExportFun(node, node, 255),
        new Fun(node, 255, uniq, 2 ** 32 - 1, 2 ** 31 - 1, -(2 ** 31), pid, [1]),
        new BitBinary(Uint8Array.of(128), 1),
        new ErlRecord(node, node, false, [atom("a"), atom("b")], [1, 2]),
    ])
        assert.ok(equal(decodeTerm(encode(term)), term));
});

test("values of another window, or of Node's vm, are like one's own", () => {
    const made = runInNewContext(`({
        list: [1, { deep: null }], bytes: Uint8Array.of(1), map: new Map([["k", 1]]),
    })`) as Encodable;
    const own = { list: [1, { deep: null }], bytes: Uint8Array.of(1), map: new Map([["k", 1]]) };
    assert.equal(hex(encode(made)), hex(encode(own)));
    assert.equal(byteSize(made), encode(own).length);
    const stable = encoder({ deterministic: true });
    assert.equal(hex(stable.encode(new Map([[made, 1]]))), hex(stable.encode(new Map([[own, 1]]))));
    const foreign = runInNewContext("Uint8Array.of(131, 97, 7)") as Uint8Array;
    assert.equal(decode(foreign), 7);
    assert.equal(Binary.of(foreign).length, 3);
    assert.equal([...new FrameReader().push(frame(foreign))].length, 1);
    assert.throws(
        () => encode(runInNewContext("new (class Own {})()") as never),
        /Own is not a term/,
    );
    assert.throws(() => encode(runInNewContext("new Date(0)") as never), /Date is not a term/);
});
