// Tests the values that encoders refuse, with their messages, and the bytes for values with
// several forms.
import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateRawSync, deflateSync, gzipSync } from "node:zlib";
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
    Float,
    ImproperList,
    LocalTerm,
    show,
    Tuple,
    tuple,
    write,
    ErlMap,
    ErlRecord,
    type Encodable,
    type Encoder,
    type EtfError,
    type Term,
} from "@whittle/etf";
import { hex } from "./describe.js";

/** Checks that a call throws an EtfError of code `encode` with this message. */
function fails(run: () => unknown, message: string | RegExp): void {
    assert.throws(run, { name: "EtfError", code: "encode", message });
}

test("a typed encoder leaves no element of a tuple out", () => {
    const pair = write.tuple(write.string, write.string);
    for (const [given, said] of [
        [["a"], "an array of 1 is not a tuple of 2"],
        [["a", "b", "c"], "an array of 3 is not a tuple of 2"],
    ] as const)
        fails(() => write.list(pair)([given as never]), `at [0]: ${said}`);
    // @ts-expect-error
    fails(() => write.tuple()([1]), "an array of 1 is not a tuple of 0");
});

test("a typed encoder says in words, and where, that a value has no fields or entries", () => {
    const fields = { a: write.integer };
    const makes: Encoder<never>[] = [
        write.object(fields),
        write.record("r", fields),
        write.nativeRecord("m", "r", fields),
        write.dict(write.string, write.integer),
    ];
    for (const [at, make] of makes.entries()) {
        const type = at < 3 ? "an object" : "a Map";
        for (const [shown, none] of Object.entries({ null: null, undefined, 5: 5, string: "x" }))
            fails(() => write.list(make)([none as never]), `at [0]: ${shown} is not ${type}`);
    }
    for (const none of [[1], new Set([1]), { a: 1 }] as never[])
        fails(() => makes[3](none), /^[A-Z][a-z]+ is not a Map$/);
    // For a value that String cannot show, the message has its class.
    for (const none of [Object.create(null), [Symbol()]] as never[])
        fails(() => write.integer(none), /^(nameless object|Array) is not an integer$/);
    fails(() => write.integer(Symbol("s") as never), "symbol is not an integer");
});

test("a typed encoder tells the type of a value, not its text, which may be long or escape", () => {
    for (const value of ["\x1b[31m\n", "x".repeat(1e6)])
        fails(() => write.integer(value as never), "string is not an integer");
    fails(() => write.integer((() => "\x1b") as never), "function is not an integer");
    const Odd = class {};
    Object.defineProperty(Odd, "name", { value: Symbol("\x1b") });
    fails(() => encode([new Odd() as never]), "at [0]: Symbol(\\x{1b}) is not a term");
});

test("a typed encoder visits each element, also holes and those of a subclass", () => {
    const integers = write.list(write.integer);
    fails(() => integers([1, , 2] as never), "at [1]: undefined is not an integer");
    /** Its constructor takes elements, not a length. */
    class One extends Array<number> {
        constructor(element: number) {
            super();
            this.push(element);
        }
    }
    const made = integers(new One(7));
    assert.ok(Object.getPrototypeOf(made) === Array.prototype);
    assert.equal(hex(encode(made)), "836b000107");
});

test("what is given for an encoder and is none is refused when it is given", () => {
    const none = undefined as never;
    for (const make of [
        () => write.list(none),
        () => write.tuple(write.integer, none),
        () => write.object({ a: none }),
        () => write.record("r", { a: none }),
        () => write.nativeRecord("m", "r", { a: none }),
        () => write.dict(write.string, none),
        () => write.dict(none, write.string),
        () => write.nullable(none),
        () => write.map(none, write.integer),
        () => write.map((value) => value, none),
    ])
        assert.throws(make, { name: "TypeError", message: /^an encoder or a function is missing/ });
});

test("a list of bytes whose getters change it has the length and the bytes that were read", () => {
    const made = (get: (items: number[]) => number, items: number[]) =>
        hex(encode(Object.defineProperty(items, 0, { get: () => get(items) })));
    assert.equal(
        made((items) => (items.length < 3 ? items.push(9) : 0) && 1, [0, 2]),
        "836b00020102",
    );
    let reads = 0;
    assert.equal(
        made(() => (reads++ ? 300 : 1), [0, 2]),
        "836b00020102",
    );
    // If a getter makes the array shorter, the missing items become undefined.
    assert.equal(
        made((items) => ((items.length = 1), 1), [0, 2]),
        hex(encode([1, undefined])),
    );
});

test("an object with the tag of another class is an object", () => {
    for (const name of ["Uint8Array", "Map"]) {
        const tagged = Object.assign(Object.create(null) as object, {
            [Symbol.toStringTag]: name,
            a: 1,
        });
        const bytes = hex(encode({ a: 1 }));
        assert.equal(hex(encode(tagged as never)), bytes);
        const keyed = encoder({ deterministic: true }).encode(new Map([[tagged as never, 1]]));
        assert.equal(hex(keyed), `837400000001${bytes.slice(2)}6101`);
        class Tagged {
            readonly [Symbol.toStringTag] = "Uint8Array";
            readonly length = 4;
        }
        fails(() => encode(new Tagged() as never), "Tagged is not a term");
        assert.throws(() => decode(tagged as never), /^TypeError: the input must be a Uint8Array/);
    }
});

test("a value that holds itself is an error of encoding to a typed encoder, too", () => {
    interface Node {
        next: Node | null;
    }
    const node: Encoder<Node> = write.lazy(() => write.object({ next: write.nullable(node) }));
    const loop: Node = { next: null };
    loop.next = loop;
    fails(() => node(loop), "too deep, or holds itself");
    fails(() => write.list(node)([loop]), "at [0]: too deep, or holds itself");
    // Encoders call each other.
    const odd: Encoder<Node> = write.lazy(() => write.object({ next: write.nullable(even) }));
    const even: Encoder<Node> = write.lazy(() => write.object({ next: write.nullable(odd) }));
    fails(() => odd(loop), /^(at \.next: )?too deep, or holds itself$/);
    // The encoder works after that, and passes on exceptions of the program.
    assert.ok(node({ next: { next: null } }));
    const own = new RangeError("mine");
    const broken = write.lazy((): ((value: Encodable) => Term) => () => {
        throw own;
    });
    assert.throws(
        () => broken(1),
        (error) => error === own,
    );
});

/** Objects with names of every kind of character, in a random order. */
function wide(count: number): { [name: string]: number } {
    const object: { [name: string]: number } = {};
    for (let at = 0; at < count; at++)
        object[`${["k", "é", "\uffff", "😀"][at % 4]}${(at * 7919) % count}`] = at;
    return object;
}

test("an object of many names is written as the Map of its names, in either order", () => {
    for (const keys of ["binary", "atom"] as const)
        for (const deterministic of [false, true])
            for (const minorVersion of [1, 2] as const) {
                const { encode } = encoder({ keys, deterministic, minorVersion });
                for (const count of [2, 64, 65, 1000]) {
                    const object = wide(count);
                    const entries = Object.entries(object).map(
                        ([name, value]): [Encodable, Encodable] => [
                            keys === "atom" ? atom(name) : name,
                            value,
                        ],
                    );
                    const bytes = encode(object);
                    assert.equal(hex(encode(new Map(entries))), hex(bytes));
                    assert.equal(byteSize(object, { keys, minorVersion }), bytes.length);
                    const term = decodeTerm(bytes) as ErlMap;
                    assert.equal(hex(encode(term)), hex(bytes));
                    if (!deterministic) continue;
                    const sorted = [...term.keys].sort((a, b) => compare(a, b, true));
                    assert.deepEqual(term.keys, sorted);
                }
            }
});

test("names of properties are in the order of their characters, not of their UTF-16 units", () => {
    const { encode } = encoder({ deterministic: true });
    const names = ["", "a", "aa", "b", "é", "\uffff", "😀", "😁"];
    const object = Object.fromEntries([...names].reverse().map((name) => [name, 1]));
    assert.deepEqual(Object.keys(decode(encode(object)) as object), names);
});

test("keys are turned into what orders them only once", (context) => {
    const object = wide(2000);
    const map = ErlMap.from(Object.keys(object).map((name) => [Binary.of(name), 1]));
    const { encode } = encoder({ deterministic: true });
    // The sort compares each of so many keys about eleven times.
    const bytes = context.mock.getter(Binary.prototype, "bytes");
    for (const value of [map, object]) encode(value);
    assert.ok(bytes.mock.callCount() <= 4 * 2000, `${bytes.mock.callCount()} views`);
});

test("in order the same is refused as out of it", () => {
    const bad = [
        new Date(0),
        () => 1,
        Symbol(),
        "\ud800",
        { a: new Date(0) },
        [[NaN], "\ud800"],
        tuple(1, new Date(0)),
        new Float("1" as never),
        new Atom(null as never),
        new LocalTerm(Uint8Array.of(1)),
    ] as Encodable[];
    for (const key of bad) {
        for (const keys of [
            [key, "a"],
            ["a", key],
            [1, key, new Date(0) as never],
        ]) {
            const value: Encodable = { x: new Map(keys.map((key) => [key, 1])) };
            let said: unknown;
            fails(() => {
                try {
                    return encode(value);
                } catch (error) {
                    throw (said = error);
                }
            }, /^at \.x[.[]/);
            const stable = encoder({ deterministic: true });
            assert.throws(() => stable.encode(value), { ...(said as EtfError) });
        }
    }
    // A hole is the atom undefined, also in a key.
    const [hole, none]: Encodable[][] = [Array<Encodable>(1), [undefined]];
    const stable = encoder({ deterministic: true });
    const written = (key: Encodable) =>
        hex(
            stable.encode(
                new Map<Encodable, Encodable>([
                    [[atom("v")], 1],
                    [key, 2],
                ]),
            ),
        );
    assert.equal(written(hole), written(none));
    assert.equal(written(tuple(...hole)), written(tuple(...none)));
    // If the stack is too small to sort the keys, the encoder writes nothing.
    let deep: Encodable = [];
    for (let i = 0; i < 100000; i++) deep = [deep];
    const loops = new Map<Encodable, Encodable>([
        [deep, 1],
        [[deep], 2],
    ]);
    fails(() => stable.encode(loops), /too deep/);
});

test("a name that cannot be written is named", () => {
    const text = "the text has a lone surrogate";
    for (const names of [1, 70]) {
        const object: { [name: string]: number } = { ["\ud800"]: 1 };
        for (let at = 1; at < names; at++) object[`k${at}`] = at;
        fails(() => encode({ a: object }), `at .a["\\ud800"]: ${text}`);
    }
    const long = "x".repeat(256);
    const name = "an atom's name must be a string of at most 255 characters";
    fails(() => encoder({ keys: "atom" }).encode([{ [long]: 1 }]), `at [0].${long}: ${name}`);
    // A key cannot write control characters to a terminal.
    fails(() => encode({ "\x1b\x9bq": NaN }), 'at ["\\u001b\\u{9b}q"]: NaN is not a term');
});

test("a sparse array that no memory holds is refused at once, to the measure too", () => {
    const sparse: Term[] = [];
    sparse.length = 0xffffffff;
    for (const use of [encode, byteSize])
        for (const value of [sparse, new Tuple(sparse), new ImproperList(sparse, 1)])
            fails(() => use(value), /the term has more than 4 GB$/);
});

test("a local term must be the whole value, to the measure too", () => {
    const local = new LocalTerm(Uint8Array.of(1));
    assert.equal(byteSize(local), encode(local).length);
    for (let count = 1000; count < 1040; count++) {
        const value = [...Array<Encodable>(count).fill([]), local];
        fails(() => byteSize(value), /a local term must be the whole value$/);
        fails(() => encode(value), /a local term must be the whole value$/);
    }
});

test("a list of bytes is a string up to 65,535 of them", () => {
    for (const [count, head, size] of [
        [65535, "836bffff07", 65539],
        [65536, "836c000100006107", 131079],
    ] as const) {
        const bytes = encode(Array<number>(count).fill(7));
        assert.equal(hex(bytes.subarray(0, head.length / 2)), head);
        assert.equal(bytes.length, size);
        assert.equal(byteSize(Array<number>(count).fill(7)), size);
    }
    // A BigInt is the same integer.
    for (const [list, same] of [
        [[1n], [1]],
        [
            [0, 255n],
            [0, 255],
        ],
        [[256n], [256]],
        [[-1n], [-1]],
    ] as const) {
        assert.equal(hex(encode(list)), hex(encode(same)));
        assert.equal(byteSize(list), encode(list).length);
    }
});

test("-0.0 comes before 0.0, as in OTP 27 and later", () => {
    const [minus, zero] = [new Float(-0), new Float(0)];
    assert.ok(compare(minus, zero, true) < 0 && compare(zero, minus, true) > 0);
    assert.equal(compare(minus, zero), 0);
    const map = ErlMap.from([
        [zero, 1],
        [minus, 2],
    ]);
    const { encode } = encoder({ deterministic: true });
    assert.deepEqual((decodeTerm(encode(map)) as ErlMap).values, [2, 1]);
});

test("a buffer that is short by a byte from the offset on is too small", () => {
    const bytes = encode("text");
    for (let offset = 0; offset < 5; offset++) {
        const buffer = new Uint8Array(offset + bytes.length);
        assert.equal(encodeInto("text", buffer, offset), bytes.length);
        const short = { name: "EtfError", code: "space" };
        assert.throws(() => encodeInto("text", buffer.subarray(1), offset), short);
        assert.throws(() => encodeInto("text", buffer, offset + 1), short);
    }
});

test("what deflate gives has to be a zlib stream", () => {
    const text = "x".repeat(999);
    const raw = Uint8Array.of(0x78);
    const given = [gzipSync, deflateRawSync, () => raw, () => raw.subarray(1), () => [120, 156]];
    for (const deflate of given as ((bytes: Uint8Array) => Uint8Array)[])
        assert.throws(
            () => encoder({ deflate }).encode(text),
            /^TypeError: deflate must return a zlib stream$/,
        );
    for (const level of [0, 1, 6, 9])
        assert.equal(
            decode(encoder({ deflate: (bytes) => deflateSync(bytes, { level }) }).encode(text)),
            text,
        );
});

test("options and values of another kind are told in words", () => {
    const refused = (run: () => unknown, message: string) =>
        assert.throws(run, { name: "TypeError", message });
    for (const none of [null, 1, "x", []] as never[])
        refused(() => byteSize(1, none), "options must be an object");
    refused(() => encoder({ minorVersion: "1" as never }), 'minorVersion must be 0|1|2, not "1"');
    refused(() => encoder({ deflate: {} as never }), "deflate must be function, not {}");
    refused(
        () => encoder({ codegen: (() => 1) as never }),
        "codegen must be false|true, not function",
    );
    fails(() => encode([new Error("x") as never]), "at [0]: Error is not a term");
    fails(() => encode(Int8Array.of(1) as never), "Int8Array is not a term");
});

test("text in a message cannot look like another line or change the color", () => {
    for (const [name, shown] of [
        ["a\nb", "'a\\x{a}b'"],
        ["\x1b[31m", "'\\x{1b}[31m'"],
        ["\0\x7f\x9f'\\", "'\\x{0}\\x{7f}\\x{9f}\\'\\\\'"],
        ["é", "'é'"],
        ["", "''"],
        ["a@b_C9", "a@b_C9"],
    ])
        assert.equal(show(tuple(atom(name))), `{${shown}}`);
    for (const [text, shown] of [
        ["a\nb", "a\\x{a}b"],
        ["\x1b[31m\x9b31m\x7f", "\\x{1b}[31m\\x{9b}31m\\x{7f}"],
        ['"\\', '\\"\\\\'],
        ["a\u2028\u202eb", "a\\x{2028}\\x{202e}b"],
        ["é", "é"],
    ]) {
        const type = /[\x80-\uffff]/.test(text) ? "/utf8" : "";
        assert.equal(show(Binary.of(text)), `<<"${shown}"${type}>>`);
    }
    const record = new ErlRecord(atom("a\n"), atom("b\n"), true, [atom("c\n")], [1]);
    assert.equal(show(record), "#'a\\x{a}':'b\\x{a}'{'c\\x{a}' = 1}");
});

test("floats are shown as Erlang reads them", () => {
    for (const [value, shown] of [
        [1, "1.0"],
        [-0, "-0.0"],
        [1.5, "1.5"],
        [1e21, "1.0e21"],
        [-1e308, "-1.0e308"],
        [1.5e300, "1.5e300"],
        [5e-324, "5.0e-324"],
        [1e-7, "1.0e-7"],
        [1.5e-7, "1.5e-7"],
    ] as const)
        assert.equal(show(new Float(value)), shown);
});
