// Tests typed decoders and encoders. The compilation of this file checks the inferred types.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
    atom,
    Binary,
    decodeTerm,
    encode,
    equal,
    ErlRecord,
    Float,
    read,
    show,
    tuple,
    write,
    type Decoded,
    type Decoder,
    type Encodable,
    type Term,
} from "@whittle/etf";

const person = read.object({
    name: read.string,
    age: read.integer,
    email: read.nullable(read.string),
    tags: read.list(read.string),
});
type Person = Decoded<typeof person>;

test("a decoder makes a typed value", () => {
    const joe = { name: "Joe", age: 68, email: null, tags: ["erlang"] };
    const result = person.readBytes(encode(joe));
    assert.ok(result.ok);
    const typed: Person = result.value;
    const name: string = typed.name;
    const email: string | null = typed.email;
    assert.deepEqual(typed, joe);
    assert.equal(name, "Joe");
    assert.equal(email, null);
});

test("a failure names the path, what was wanted and what was found", () => {
    const people = read.field("people", read.list(person));
    const result = people.readBytes(
        encode({ people: [{ name: "Joe", age: 68, email: null, tags: ["a", 7] }] }),
    );
    assert.ok(!result.ok);
    assert.deepEqual(result.error.path, ["people", 0, "tags", 1]);
    assert.equal(result.error.message, "at .people[0].tags[1]: expected text, found 7");
    const missing = person.readBytes(encode({ name: "Joe" }));
    assert.ok(!missing.ok);
    assert.equal(
        missing.error.message,
        'expected a map with the key age, found #{<<"name">> => <<"Joe">>}',
    );
    const broken = person.readBytes(Uint8Array.of(131, 116));
    assert.ok(!broken.ok);
    assert.match(broken.error.message, /bytes that are not a term/);
});

test("tuples, records, alternatives and recursion", () => {
    const reply = read.oneOf(
        read.map(
            (_: "ok", value: number) => ({ ok: true as const, value }),
            read.index(0, read.atom("ok")),
            read.index(1, read.integer),
        ),
        read.map(
            ([, reason]: [string, string]) => ({ ok: false as const, reason }),
            read.tuple(read.atom("error"), read.anyAtom),
        ),
    );
    const accept = (bytes: Uint8Array) => {
        const result = reply.readBytes(bytes);
        return result.ok ? result.value : result.error.message;
    };
    assert.deepEqual(accept(encode(tuple(atom("ok"), 5))), { ok: true, value: 5 });
    assert.deepEqual(accept(encode(tuple(atom("error"), atom("enoent")))), {
        ok: false,
        reason: "enoent",
    });
    assert.match(String(accept(encode(5))), /found 5/);

    const pair: Decoder<[number, string]> = read.tuple(read.integer, read.string);
    assert.deepEqual(pair.read(tuple(1, decodeTerm(encode("x")))), { ok: true, value: [1, "x"] });

    interface Tree {
        readonly value: number;
        readonly children: readonly Tree[];
    }
    const tree: Decoder<Tree> = read.record<Tree>("tree", {
        value: read.integer,
        children: read.list(read.lazy(() => tree)),
    });
    const grown = tree.readBytes(encode(tuple(atom("tree"), 1, [tuple(atom("tree"), 2, [])])));
    assert.deepEqual(grown, {
        ok: true,
        value: { value: 1, children: [{ value: 2, children: [] }] },
    });

    const sized = read.andThen(read.field("kind", read.atom("a", "b")), (kind) =>
        kind === "a" ? read.field("a", read.integer) : read.fail("a map of kind a"),
    );
    assert.deepEqual(sized.readBytes(encode({ kind: atom("a"), a: 3 })), { ok: true, value: 3 });
    assert.equal(sized.readBytes(encode({ kind: atom("b") })).ok, false);
});

test("where no alternative fits, the one that came farthest says why", () => {
    const at = (value: Parameters<typeof encode>[0]) => {
        const result = read
            .oneOf(
                read.field("a", read.string),
                read.field("b", read.field("c", read.integer)),
                read.string,
            )
            .readBytes(encode(value));
        return result.ok ? result.value : result.error.message;
    };
    assert.equal(at({ b: { c: 5 } }), 5);
    assert.equal(at({ b: { c: "x" } }), 'at .b.c: expected an integer, found <<"x">>');
    assert.equal(
        at({}),
        "expected a map with the key a, or a map with the key b, or text, found #{}",
    );
});

test("what is given for a decoder and is none is refused when it is given", () => {
    const refused = (run: () => unknown) =>
        assert.throws(run, /^TypeError: a decoder is missing here/);
    // @ts-expect-error
    refused(() => read.oneOf([read.string, read.integer]));
    // @ts-expect-error
    refused(() => read.tuple([read.string]));
    // @ts-expect-error
    refused(() => read.list());
    // @ts-expect-error
    refused(() => read.field("a"));
    // @ts-expect-error
    refused(() => read.object({ a: "string" }));
    const none = undefined as never;
    refused(() => read.dict(none, read.integer));
    refused(() => read.dict(read.integer, none));
    refused(() => read.record("r", { a: none }));
    refused(() => read.proplist({ a: none }));
    // @ts-expect-error
    refused(() => read.map(read.string, (text: string) => text));
});

test("a decoder that can never decode is refused when it is made", () => {
    const refused = (run: () => unknown, what: string) =>
        assert.throws(run, { name: "TypeError", message: `${what} is missing here` });
    refused(() => read.oneOf(), "a decoder");
    refused(() => read.atom(), "an atom");
    refused(() => read.proplist([read.string] as never), "an object of fields");
    // @ts-expect-error
    refused(() => read.map(undefined, read.string), "a function");
    for (const none of [undefined, null, "a"] as never[]) {
        const fields = "an object of fields";
        refused(() => read.object(none), fields);
        refused(() => read.proplist(none), fields);
        refused(() => read.record("r", none), fields);
        refused(() => read.nativeRecord("m", "r", none), fields);
        refused(() => write.object(none), fields);
        refused(() => write.record("r", none), fields);
        refused(() => write.nativeRecord("m", "r", none), fields);
    }
    // A decoder that begins with itself fails at the first term.
    const own: Decoder<unknown> = read.lazy(() => own);
    const first: Decoder<unknown> = read.lazy(() => read.oneOf(read.string, other));
    const other: Decoder<unknown> = read.lazy(() => read.nullable(first));
    for (const decoder of [own, first, other])
        for (const term of [1, atom("a"), [1], tuple(1)])
            assert.throws(() => decoder.read(term), {
                name: "TypeError",
                message: "a lazy decoder begins with itself",
            });
});

test("an integer that no number holds is told as one", () => {
    const message = (decoder: Decoder<unknown>, value: Term) => {
        const result = decoder.read(value);
        return result.ok ? "" : result.error.message;
    };
    for (const decoder of [read.integer, read.number])
        for (const value of [2 ** 53, -(2n ** 53n), 2n ** 70n])
            assert.equal(
                message(decoder, value),
                `expected an integer of at most 53 bits, found ${value}`,
            );
    assert.equal(message(read.string, 2 ** 53), `expected text, found ${2 ** 53}`);
    assert.equal(message(read.integer, new Float(1)), "expected an integer, found 1.0");
    assert.equal(message(read.number, []), "expected a number, found []");
});

test("an exception of the program's own passes through", () => {
    const own = new Error("mine");
    const broken = read.map((_: unknown): never => {
        throw own;
    }, read.term);
    assert.throws(
        () => read.oneOf(read.list(broken), read.term).read([1]),
        (error) => error === own,
    );
});

test("the remaining decoders", () => {
    const ok = <T>(decoder: Decoder<T>, value: Parameters<typeof encode>[0]): T => {
        const result = decoder.readBytes(encode(value));
        assert.ok(result.ok, result.ok ? "" : result.error.message);
        return result.value;
    };
    assert.equal(ok(read.bigint, 2n ** 70n), 2n ** 70n);
    assert.equal(ok(read.float, 1.5), 1.5);
    assert.equal(ok(read.number, 2), 2);
    assert.equal(ok(read.boolean, true), true);
    assert.equal(ok(read.charlist, [72, 955]), "Hλ");
    assert.deepEqual(ok(read.bytes, Uint8Array.of(255)), Uint8Array.of(255));
    assert.deepEqual(ok(read.dict(read.string, read.integer), { a: 1 }), new Map([["a", 1]]));
    assert.equal(ok(read.at(["a", 1, "b"], read.string), { a: [0, { b: "deep" }] }), "deep");
    assert.equal(ok(read.field("x", read.optional(read.integer, 9)), {}), 9);
    assert.equal(ok(read.field(tuple(1, 2), read.integer), new Map([[tuple(1, 2), 3]])), 3);
    assert.equal(ok(read.succeed("always"), []), "always");
    assert.equal(read.float.readBytes(encode(1)).ok, false);
    for (const place of [-1, 0.5, "0"] as number[])
        assert.throws(
            () => read.index(place, read.term),
            /^TypeError: an index must be an integer from/,
        );
    // @ts-expect-error
    assert.throws(() => read.field(undefined, read.term), /^TypeError: a JavaScript u/);
    // @ts-expect-error
    assert.throws(() => read.lazy(() => undefined).read(1), /^TypeError: a decoder is missing/);
    const nothing = read.andThen(read.integer, (() => undefined) as never);
    assert.throws(() => nothing.read(1), /^TypeError: a decoder is missing here/);
    // @ts-expect-error A string is not a term.
    const plain = read.integer.read("5");
    assert.equal(!plain.ok && plain.error.found, "a JavaScript string");
    assert.equal(read.integer.readBytes(encode(new Float(1))).ok, false);
    assert.equal(read.integer.readBytes(encode(2n ** 70n)).ok, false);
    assert.equal(read.string.readBytes(encode(Uint8Array.of(255))).ok, false);
    assert.deepEqual(
        ok(read.object({ ["__proto__"]: read.integer }), new Map([["__proto__", 1]])),
        JSON.parse('{"__proto__":1}'),
    );
});

test("encoders write what decoders read", () => {
    const out = write.object<Person>({
        name: write.string,
        age: write.integer,
        email: write.nullable(write.string),
        tags: write.list(write.string),
    });
    const joe: Person = { name: "Joe", age: 68, email: null, tags: [] };
    assert.deepEqual(person.read(out(joe)), { ok: true, value: joe });
    const point = write.record<{ x: number; y: number }>("point", {
        x: write.float,
        y: write.float,
    });
    assert.ok(equal(point({ x: 1, y: 2 }), tuple(atom("point"), new Float(1), new Float(2))));
    const native = write.nativeRecord<{ x: number }>("shop", "item", { x: write.integer });
    const inside = read.nativeRecord<{ x: number }>("shop", "item", { x: read.integer });
    assert.deepEqual(inside.readBytes(encode(native({ x: 4 }))), { ok: true, value: { x: 4 } });
    assert.deepEqual(inside.read(native({ x: 4 })), { ok: true, value: { x: 4 } });
    const map = write.dict(write.atom, write.tuple(write.integer, write.boolean));
    assert.deepEqual(
        read
            .dict(read.anyAtom, read.tuple(read.integer, read.boolean))
            .read(map(new Map([["k", [1, true]]]))),
        { ok: true, value: new Map([["k", [1, true]]]) },
    );
    assert.throws(() => write.integer(1.5), /not an integer/);
    // @ts-expect-error
    assert.throws(() => write.integer("5"), /^EtfError: string is not an integer/);
    // @ts-expect-error
    assert.throws(() => write.tuple(write.integer)([]), /^EtfError: an array of 0 is not a tuple/);
    // @ts-expect-error
    assert.throws(() => write.boolean("maybe"), /^EtfError: string is not a boolean/);
});

test("of alternatives the one that came farthest says why, also where none went deep", () => {
    const why = (decoder: Decoder<unknown>, value: Parameters<typeof encode>[0]) => {
        const result = decoder.readBytes(encode(value));
        return result.ok ? "" : result.error.message;
    };
    const reply = read.oneOf(
        read.tuple(read.atom("ok"), read.integer),
        read.tuple(read.atom("error"), read.string),
    );
    const error = "at [1]: expected text, found 5";
    assert.equal(why(reply, tuple(atom("error"), 5)), error);
    assert.equal(why(reply, tuple(atom("ok"), "x")), 'at [1]: expected an integer, found <<"x">>');
    // If several failures are equal, the message lists all terms that the decoders expect there.
    assert.equal(why(reply, tuple(atom("other"), 5)), "at [0]: expected ok, or error, found other");
    assert.equal(why(reply, 5), "expected a tuple of 2, found 5");
    const kinds = read.oneOf(
        read.object({ type: read.atom("a"), size: read.integer, name: read.string }),
        read.object({ type: read.atom("b"), size: read.string }),
        read.record("c", { size: read.integer }),
    );
    const b = atom("b");
    assert.equal(why(kinds, { type: b, size: 5 }), "at .size: expected text, found 5");
    assert.equal(
        why(kinds, { type: b }),
        'expected a map with the key size, found #{<<"type">> => b}',
    );
    assert.equal(why(kinds, { type: atom("d") }), "at .type: expected a, or b, found d");
    assert.equal(
        why(kinds, {}),
        "expected a map with the key type, or a record c of 1 fields, found #{}",
    );
    // Values that an alternative accepted do not count for the next one.
    const counted = read.oneOf(
        read.tuple(read.integer, read.integer, read.integer),
        read.tuple(read.integer, read.string, read.integer),
    );
    assert.equal(why(counted, tuple(1, 2, "x")), 'at [2]: expected an integer, found <<"x">>');
    // Accepted values count in the same way for all combinators.
    const chosen = read.oneOf(
        read.map(
            (_: string, value: number) => value,
            read.index(0, read.atom("ok")),
            read.index(1, read.integer),
        ),
        read.andThen(read.index(0, read.atom("error")), () => read.index(1, read.string)),
    );
    assert.equal(why(chosen, tuple(atom("error"), 5)), error);
    assert.equal(why(read.list(reply), [tuple(atom("error"), 5)]), `at [0]${error.slice(3)}`);
    // There is an alternative inside an alternative, the same expectation twice, and a decoder
    // that runs again (lazy).
    const nested: Decoder<unknown> = read.lazy(() =>
        read.oneOf(read.tuple(nested, read.integer), read.tuple(nested, read.string), reply),
    );
    const deep = (term: Term): Term => tuple(tuple(tuple(atom("error"), term), 1), 1);
    const [good, bad] = [nested.read(deep(decodeTerm(encode("x")))), nested.read(deep(5))];
    assert.ok(good.ok && !bad.ok);
    assert.deepEqual(bad.error.path, [0, 0, 1]);
    assert.equal(bad.error.expected, "text");
});

test("keys that become one are refused, not lost", () => {
    const keys = new Map<number | Float, number>([
        [1, 1],
        [new Float(1), 2],
    ]);
    const read1 = read.dict(read.number, read.integer).readBytes(encode(keys));
    assert.equal(
        !read1.ok && read1.error.message,
        "expected a map whose keys stay different, found #{1 => 1, 1.0 => 2}",
    );
    assert.ok(read.dict(read.term, read.integer).readBytes(encode(keys)).ok);
    const both = write.dict(write.integer, write.integer);
    assert.throws(
        () =>
            both(
                new Map<number | bigint, number>([
                    [1, 1],
                    [1n, 2],
                ]),
            ),
        /^EtfError: two keys become the same key/,
    );
});

test("a field of an object may be missing", () => {
    const decoder = read.object({ id: read.integer, age: read.optional(read.integer, "none") });
    const reads = (value: Parameters<typeof encode>[0]) => {
        const result = decoder.readBytes(encode(value));
        return result.ok ? result.value : result.error.message;
    };
    assert.deepEqual(reads({ id: 1 }), { id: 1, age: "none" });
    assert.deepEqual(reads({ id: 1, age: 2 }), { id: 1, age: 2 });
    assert.equal(reads({ id: 1, age: null }), "at .age: expected an integer, found null");
    assert.equal(reads(5), "expected a map with the key id, found 5");
    const only = read.field("x", read.optional(read.integer, 9));
    assert.equal(only.readBytes(encode(5)).ok, false);
    assert.deepEqual(only.readBytes(encode({ x: 1 })), { ok: true, value: 1 });
});

test("an error of a typed encoder says where in the value it was", () => {
    const fails = (run: () => unknown, message: RegExp | string) =>
        assert.throws(run, { name: "EtfError", code: "encode", message });
    const person = write.object<{ name: string; tags: readonly number[] }>({
        name: write.string,
        tags: write.list(write.integer),
    });
    const people = write.dict(write.string, write.list(person));
    const bad = [
        { name: "x", tags: [] },
        { name: "y", tags: [1, 1.5] },
    ];
    fails(() => people(new Map([["all", bad]])), "at .all[1].tags[1]: 1.5 is not an integer");
    fails(() => person({ name: "\ud800", tags: [] }), /^at \.name: the text has a lone surrogate/);
    const point = { x: 1, y: NaN };
    const fields = { x: write.integer, y: write.integer };
    fails(() => write.record("p", fields)(point), "at .y: NaN is not an integer");
    fails(() => write.nativeRecord("m", "p", fields)(point), "at .y: NaN is not an integer");
    // JavaScript would put these names before the others, for any order in the record.
    const order = /^TypeError: a record's fields cannot have numbers for names/;
    assert.throws(() => write.record("p", { b: write.integer, "1": write.integer }), order);
    assert.throws(() => write.nativeRecord("m", "p", { "0": write.integer }), order);
    assert.throws(() => read.record("p", { b: read.integer, "1": read.integer }), order);
    fails(() => write.charlist("a\ud800"), /lone surrogate/);
    assert.deepEqual(write.charlist("h€🛰"), [104, 8364, 0x1f6f0]);
    // @ts-expect-error
    fails(() => write.charlist(5), "5 is not text");
    assert.throws(
        // @ts-expect-error
        () => write.object(fields, "x"),
        /^TypeError: keys must be "atom"\|"binary", not "x"/,
    );
    const own = new Error("mine");
    const throws = write.list((): Term => {
        throw own;
    });
    assert.throws(
        () => throws([1]),
        (error) => error === own,
    );
});

test("a term that is too deep for a typed decoder is a failure", () => {
    const deep: Decoder<unknown> = read.lazy(() => {
        let wrapped: Decoder<unknown> = deep;
        for (let i = 0; i < 20; i++) wrapped = read.map((value) => [value], wrapped);
        return read.oneOf(read.integer, read.index(0, wrapped));
    });
    const bytes = Buffer.concat([
        Uint8Array.of(131),
        ...Array<Uint8Array>(510).fill(Uint8Array.of(104, 1)),
        Uint8Array.of(97, 1),
    ]);
    for (const result of [deep.readBytes(bytes), deep.read(decodeTerm(bytes))]) {
        assert.ok(!result.ok);
        assert.match(result.error.message, /^expected .*, found a term too deep for the stack$/);
    }
    assert.ok(deep.readBytes(encode(1)).ok);
});

test("-0 is an integer where one is written, and shown as the float that it is elsewhere", () => {
    assert.ok(Object.is(write.integer(-0), 0));
    assert.equal(write.integer(0n), 0);
    assert.equal(show(new Float(-0)), "-0.0");
    assert.equal(show([-0, 0, new Float(0), 2 ** 60]), "[-0.0, 0, 0.0, 1152921504606846976]");
});

test("a plain number reads as the term that it is written as", () => {
    const { bigint, charlist, float, integer, number, term } = read;
    const decoders = [integer, bigint, float, number, term] as Decoder<unknown>[];
    for (const value of [0, -0, 1.5, -7, 2 ** 53, 2 ** 60, 1e300, 5n, 2n ** 70n, new Float(2)]) {
        for (const decoder of [...decoders, read.lazy(() => read.oneOf(...decoders))])
            assert.deepEqual(decoder.read(value), decoder.readBytes(encode(value)));
        for (const list of [read.list(number), charlist] as Decoder<unknown>[])
            assert.deepEqual(list.read([value]), list.readBytes(encode([value])));
    }
    for (const none of [NaN, Infinity, new Float(NaN)])
        for (const decoder of [integer, bigint, float, number, charlist] as Decoder<unknown>[])
            for (const value of [none, [none]]) assert.ok(!decoder.read(value).ok);
});

test("a field of a native record is found by its atom, and by no other term", () => {
    const fields = ["Name", "5", "plain"].map(atom);
    const record = new ErlRecord(atom("m"), atom("r"), true, fields, [1, 2, 3]);
    const at = (key: string | Term) => read.field(key, read.integer).read(record);
    for (const [name, value] of Object.entries({ Name: 1, 5: 2, plain: 3 }))
        for (const key of [name, atom(name)]) assert.deepEqual(at(key), { ok: true, value });
    for (const key of [5, Binary.of("plain"), tuple(), record]) assert.ok(!at(key).ok);
    const failed = read.field(atom("Name"), read.string).read(record);
    assert.equal(!failed.ok && failed.error.message, "at .Name: expected text, found 1");
});

test("a hole in a list that was not decoded is a failure, not a value", () => {
    const result = read.list(read.integer).read([1, , 2] as never);
    const message = "at [1]: expected an integer, found a JavaScript undefined";
    assert.equal(!result.ok && result.error.message, message);
});

test("a typed encoder says what is not of its type, and where", () => {
    const fails = (run: () => unknown, message: string) =>
        assert.throws(run, { name: "EtfError", code: "encode", message });
    const strings = write.list(write.string);
    // @ts-expect-error
    fails(() => strings(["a", 5]), "at [1]: 5 is not text");
    // @ts-expect-error
    fails(() => strings("ab"), "string is not an array");
    // @ts-expect-error
    fails(() => write.list(strings)([null]), "at [0]: null is not an array");
    // @ts-expect-error
    fails(() => write.list(write.bytes)(["a"]), "at [0]: string is not a Uint8Array");
    // @ts-expect-error
    fails(() => write.list(write.float)(["a"]), "at [0]: string is not a float");
    fails(() => write.list(write.float)([NaN]), "at [0]: NaN is not a float");
    // @ts-expect-error
    fails(() => write.list(write.atom)([5]), "at [0]: 5 is not an atom's name");
    // @ts-expect-error
    fails(() => write.tuple(write.string)("a"), "string is not an array");
});

test("a property list is read by the first entry with each name", () => {
    const options = read.proplist({
        host: read.string,
        port: read.optional(read.integer, 80),
        debug: read.optional(read.boolean, false),
    });
    const reads = (value: Encodable) => {
        const result = options.readBytes(encode(value));
        return result.ok ? result.value : result.error;
    };
    const pair = (name: string, value: Encodable) => tuple(atom(name), value);
    assert.deepEqual(reads([pair("host", "a"), atom("debug"), pair("host", "b")]), {
        host: "a",
        port: 80,
        debug: true,
    });
    const others = [1, tuple(atom("host"), 1, 2), tuple("port", 1), pair("host", "a")];
    assert.deepEqual(reads(others), { host: "a", port: 80, debug: false });
    const fails = (value: Encodable, message: string) => {
        const result = options.readBytes(encode(value));
        assert.equal(result.ok ? "" : result.error.message, message);
    };
    fails([], "expected a property list with host, found []");
    fails({ host: "a" }, 'expected a property list, found #{<<"host">> => <<"a">>}');
    fails([pair("host", 5)], "at .host: expected text, found 5");
    assert.throws(() => read.proplist({ a: "string" } as never), TypeError);
});
