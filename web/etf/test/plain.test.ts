// The plain view's options, the encoder's, and what stands around them.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
    Atom,
    atom,
    Binary,
    byteSize,
    compare,
    decode,
    decodeTerm,
    encode,
    encodeInto,
    encoder,
    equal,
    ErlMap,
    EtfError,
    Float,
    frame,
    FrameReader,
    ImproperList,
    LocalTerm,
    plainDecoder,
    termDecoder,
    Tuple,
    tuple,
    write,
    type Encodable,
} from "@whittle/etf";
import * as light from "@whittle/etf/decode";
import { hex, unhex } from "./describe.js";
import { Random } from "./random.js";

/** A random plain value that both JSON and the plain view keep. */
function value(random: Random, depth: number): Encodable {
    const leaf = () =>
        random.of<() => Encodable>([
            () => random.below(400),
            () => -random.below(70000),
            () => random.next() * 1e6,
            () => random.text(30),
            () => random.of([true, false, null]),
            () => random.word() * 4096,
            () => "key",
        ])();
    if (depth === 0) return leaf();
    return random.of<() => Encodable>([
        leaf,
        () => random.some(5, () => value(random, depth - 1)),
        () =>
            Object.fromEntries(
                random.some(5, () => [random.text(6), value(random, depth - 1)] as const),
            ),
        () =>
            Array.from({ length: 10 }, (_, i) => ({
                id: i,
                name: random.text(20),
                more: value(random, depth - 1),
            })),
    ])();
}

test("what JSON can say comes back unchanged, with and without generated code", () => {
    const random = new Random(11);
    for (const keys of ["binary", "atom"] as const) {
        for (const codegen of [true, false]) {
            const writer = encoder({ keys, codegen });
            const reader = plainDecoder({ codegen });
            for (let round = 0; round < 300; round++) {
                const given = value(random, 3);
                const bytes = writer.encode(given);
                assert.deepEqual(reader.decode(bytes), given);
                assert.equal(byteSize(given, { keys }), bytes.length);
            }
        }
    }
});

test("atoms, binaries, maps, tuples and lists become what the options say", () => {
    const term = encode([
        atom("ok"),
        tuple(1, atom("true")),
        "text",
        new Map([[atom("k"), 1]]),
        atom("nil"),
        atom("undefined"),
    ]);
    assert.deepEqual(decode(term), ["ok", [1, true], "text", { k: 1 }, null, undefined]);
    assert.deepEqual(plainDecoder({ atoms: "symbol" }).decode(term), [
        Symbol.for("ok"),
        [1, true],
        "text",
        { k: 1 },
        null,
        undefined,
    ]);
    assert.deepEqual(
        plainDecoder({ atoms: "class", tuples: "class", binaries: "bytes", maps: "map" }).decode(
            term,
        ),
        [
            atom("ok"),
            tuple(1, true),
            new TextEncoder().encode("text"),
            new Map([[atom("k"), 1]]),
            null,
            undefined,
        ],
    );
    const bytes = encode(Uint8Array.of(255, 254));
    assert.throws(
        () => decode(bytes),
        (error: unknown) => error instanceof EtfError && error.code === "utf8",
    );
    assert.deepEqual(plainDecoder({ binaries: "either" }).decode(bytes), Uint8Array.of(255, 254));
    assert.equal(plainDecoder({ charlists: "text" }).decode(encode([104, 105])), "hi");
    assert.deepEqual(decode(encode([104, 105])), [104, 105]);
    assert.deepEqual(decode(encode(new ImproperList([1], 2))), new ImproperList([1], 2));
});

test("property lists, records and structs become objects where that is asked for", () => {
    const list = encode([tuple(atom("port"), 80), atom("quiet"), tuple(atom("port"), 81)]);
    assert.deepEqual(plainDecoder({ proplists: true }).decode(list), { port: 80, quiet: true });
    assert.deepEqual(decode(list), [["port", 80], "quiet", ["port", 81]]);
    const mixed = encode([tuple(atom("port"), 80), 7]);
    assert.deepEqual(plainDecoder({ proplists: true }).decode(mixed), [["port", 80], 7]);
    const joe = encode(tuple(atom("person"), "Joe", 68));
    assert.deepEqual(plainDecoder({ records: { person: ["name", "age"] } }).decode(joe), {
        name: "Joe",
        age: 68,
    });
    assert.deepEqual(plainDecoder({ records: { person: ["name"] } }).decode(joe), [
        "person",
        "Joe",
        68,
    ]);
    const date = encode({ __struct__: atom("Elixir.Date"), year: 2026 });
    for (let times = 0; times < 20; times++) {
        assert.deepEqual(plainDecoder({ structs: "drop" }).decode(date), { year: 2026 });
        assert.deepEqual(decode(date), { __struct__: "Elixir.Date", year: 2026 });
    }
});

test("a map that JavaScript cannot keep apart is an error, not a loss", () => {
    const code = (bytes: Uint8Array, options = {}) => {
        try {
            return plainDecoder(options).decode(bytes);
        } catch (error) {
            return (error as EtfError).code;
        }
    };
    const both = encode(
        new Map<Encodable, Encodable>([
            ["a", 1],
            [atom("a"), 2],
        ]),
    );
    assert.equal(code(both), "duplicate");
    const numbers = encode(
        new Map<Encodable, Encodable>([
            [1, 1],
            [new Float(1), 2],
        ]),
    );
    assert.equal(code(numbers), "key");
    assert.equal(code(numbers, { maps: "map" }), "duplicate");
    assert.equal((decodeTerm(numbers) as ErlMap).size, 2);
});

test("values that have no term are refused with a reason", () => {
    const loop: Encodable[] = [];
    loop.push(loop);
    for (const [bad, reason] of [
        [NaN, /finite/],
        [Infinity, /finite/],
        [() => 1, /a function is no term/],
        [new Date(0), /a Date is no term/],
        ["\ud800", /surrogate/],
        [loop, /holds itself/],
        [Symbol(), /description/],
        [new Atom("x".repeat(256)), /255 characters/],
    ] as [Encodable, RegExp][]) {
        assert.throws(
            () => encode(bad),
            (error: unknown) =>
                error instanceof EtfError && error.code === "encode" && reason.test(error.message),
        );
    }
    // The encoder is usable after each of them.
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
            // What was read is written in the same order.
            assert.equal(hex(writer.encode(term)), hex(bytes));
        }
    }
    // null goes where the atom goes that it becomes.
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
    refused(() => plainDecoder({ maxDepth: 3 }), /^TypeError: no option is called maxDepth/);
    // @ts-expect-error
    refused(() => termDecoder({ atoms: "class" }), /^TypeError: no option is called atoms/);
    const words = /^TypeError: atoms is string or symbol or class, not symbols/;
    // @ts-expect-error
    refused(() => plainDecoder({ atoms: "symbols" }), words);
    // @ts-expect-error
    refused(() => plainDecoder({ limits: { maxDepth: "3" } }), /^TypeError: maxDepth cannot be 3/);
    // @ts-expect-error
    refused(() => encoder({ keys: "atoms" }), /^TypeError: keys is binary or atom, not atoms/);
    // @ts-expect-error
    refused(() => encoder({ minorVersion: 3 }), /^TypeError: minorVersion is 0 or 1 or 2, not 3/);
    // @ts-expect-error
    refused(() => byteSize(1, { minor: 0 }), /^TypeError: no option is called minor/);
    // @ts-expect-error
    refused(() => ErlMap.from([]).get("name"), /^TypeError: no term but a JavaScript string/);
    // @ts-expect-error
    refused(() => compare({ a: 1 }, { a: 2 }), /^TypeError: no term but a JavaScript object/);
    // @ts-expect-error
    refused(() => Binary.of(undefined), /^TypeError: a binary is made of text or a Uint8Array/);
    // @ts-expect-error
    refused(() => encode(atom()), /^EtfError: an atom's name is a string, not undefined/);
    // @ts-expect-error
    refused(() => encode(new Float("1")), /finite/);
    refused(() => encode(new (class {})() as never), /a value of no named class is no term/);
    // @ts-expect-error
    refused(() => frame("text"), /^TypeError: a message is a Uint8Array/);
    // @ts-expect-error
    refused(() => new FrameReader().push(new ArrayBuffer(4)), /^TypeError: a piece of a stream/);
    // @ts-expect-error
    refused(() => new FrameReader({ maxbytes: 9 }), /^TypeError: no option is called maxbytes/);
    // @ts-expect-error
    refused(() => light.plainDecoder({ atom: "class" }), /^TypeError: no option is called atom/);
    const maps = /^TypeError: maps is object or map, not Map/;
    // @ts-expect-error
    refused(() => light.plainDecoder({ maps: "Map" }), maps);
    // @ts-expect-error
    refused(() => light.termDecoder({ maxDepth: 3 }), /^TypeError: no option is called maxDepth/);
    // @ts-expect-error
    refused(() => new Tuple(1), /^TypeError: a tuple needs an array/);
    // @ts-expect-error
    refused(() => write.dict(write.string, write.integer)({ a: 1 }), /^TypeError/);
    const records = { person: ["name", "__proto__"] };
    refused(() => plainDecoder({ records }), /^TypeError: __proto__ cannot be a property/);
});

test("an error of encoding says where in the value it was", () => {
    const where = (value: unknown, way: string) =>
        assert.throws(
            () => encode(value as Encodable),
            (error: EtfError) => {
                assert.equal(error.code, "encode");
                const [before] = error.message.split(/:? ?NaN is no term/);
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
    where(new Map([[tuple(), NaN]]), "at [entry 0]");
    where({ a: new Map([[NaN, 1]]) }, "at .a");
    // A class that is no term is to blame, not what is in it.
    assert.throws(
        () =>
            encode([
                new (class Box {
                    x = NaN;
                })() as never,
            ]),
        /^EtfError: at \[0\]: a Box/,
    );
    assert.throws(() => encodeInto({ a: [NaN] }, new Uint8Array(99)), /^EtfError: at .a\[0\]: NaN/);
    assert.throws(() => encodeInto({ a: [NaN] }, new Uint8Array(3)), /^EtfError: at .a\[0\]: NaN/);
    assert.throws(() => byteSize({ a: [NaN] }), /^EtfError: at .a\[0\]: NaN/);
    let deep: Encodable = NaN;
    for (let i = 0; i < 500; i++) deep = [deep];
    assert.throws(() => encode(deep), /^EtfError: at (\[0\]){67}: NaN is no term/);
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

test("every term comes back equal from the model, and its order is an order", () => {
    const random = new Random(13);
    const terms = Array.from({ length: 120 }, () => random.term(2, true));
    const decoder = termDecoder();
    for (const term of terms) assert.ok(equal(decoder.decode(encode(term)), term));
    const sorted = [...terms].sort((a, b) => compare(a, b, true));
    for (let i = 0; i < sorted.length; i++) {
        for (let j = i; j < sorted.length; j++) {
            assert.ok(
                compare(sorted[i], sorted[j], true) <= 0 &&
                    compare(sorted[j], sorted[i], true) >= 0,
            );
        }
    }
});

test("maps find their keys by Erlang's equality", () => {
    const map = ErlMap.from(
        [
            [1, "int"],
            [new Float(1), "float"],
            [tuple(atom("a"), [2]), "tuple"],
            [Binary.of("k"), "text"],
        ].map(([key, held]) => [key, Binary.of(held as string)] as never),
    );
    const text = (key: never) => (map.get(key) as Binary).text();
    assert.equal(text(1 as never), "int");
    assert.equal(text(new Float(1) as never), "float");
    assert.equal(text(tuple(atom("a"), [2]) as never), "tuple");
    assert.equal(map.get(2), undefined);
    assert.equal(map.has(Binary.of("k")), true);
    assert.equal(
        ErlMap.from([
            [1, 2],
            [1, 3],
        ]).get(1),
        3,
    );
});

test("the first of several terms is decoded with its length", () => {
    const bytes = Uint8Array.of(...encode({ a: 1 }), ...encode("x"));
    const { value: first, used } = plainDecoder().decodePrefix(bytes);
    assert.deepEqual(first, { a: 1 });
    assert.equal(decode(bytes.subarray(used)), "x");
});

test("local terms and funs of long ago, which no node here can be asked about, are kept", () => {
    const oldFun =
        "837500000001" +
        "5864000161000000010000000200000003" +
        "64000162" +
        "6103" +
        "620001e240" +
        "6101";
    for (const bytes of ["837901020304610a", oldFun]) {
        assert.equal(hex(encoder({ minorVersion: 1 }).encode(decodeTerm(unhex(bytes)))), bytes);
    }
    const local = decodeTerm(unhex("837901020304610a")) as LocalTerm;
    assert.deepEqual(local.bytes, Uint8Array.of(1, 2, 3, 4, 97, 10));
    assert.throws(() => encode([local]), /cannot stand inside another/);
});

test("frames come out whole however the stream is cut", () => {
    const random = new Random(14);
    const messages = Array.from({ length: 60 }, (_, i) =>
        random.bytes(random.of([0, 1, 3, 4, 5, 100, 9000]) + (i % 2)),
    );
    const stream = Buffer.concat(messages.map(frame));
    for (const most of [1, 2, 5, 50, 5000, stream.length]) {
        const frames = new FrameReader();
        const found: string[] = [];
        for (let at = 0; at < stream.length; ) {
            const size = 1 + random.below(most);
            for (const message of frames.push(stream.subarray(at, at + size)))
                found.push(hex(message));
            at += size;
        }
        assert.deepEqual(found, messages.map(hex));
        assert.equal(frames.pending, false);
    }
    // A loop that ends early loses the messages it did not take, and no place in the stream.
    const left = new FrameReader();
    const long = frame(encode("long"));
    const first = Uint8Array.of(...frame(Uint8Array.of(1)), ...long.subarray(0, 6));
    assert.throws(() => {
        for (const message of left.push(first)) decode(message);
    }, EtfError);
    left.push(long.subarray(6, 7));
    assert.deepEqual([...left.push(long.subarray(7))].map(decode), ["long"]);
    const cut = new FrameReader();
    assert.deepEqual([...cut.push(stream.subarray(0, 2))], []);
    assert.equal(cut.pending, true);
});

test("a decoder keeps nothing of one message for the next", () => {
    const decoder = plainDecoder();
    const buffer = encode({ name: "a longer name than thirteen characters", n: 1 });
    const first = decoder.decode(buffer);
    buffer.fill(0x41, 20, 40);
    assert.deepEqual(first, { name: "a longer name than thirteen characters", n: 1 });
    assert.throws(() => decoder.decode(Uint8Array.of(131, 109, 0, 0, 0, 9, 65)), EtfError);
    assert.deepEqual(decoder.decode(encode(["after an error"])), ["after an error"]);
});
