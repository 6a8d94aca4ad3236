// Typed decoders and encoders. That their types are inferred is checked by compiling this file.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
    atom,
    decodeTerm,
    encode,
    equal,
    Float,
    read,
    tuple,
    write,
    type Decoded,
    type Decoder,
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
    assert.match(broken.error.message, /bytes that are no term/);
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
    // @ts-expect-error
    refused(() => read.map(read.string, (text: string) => text));
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
    assert.equal(ok(read.optionalField("x", read.integer, 9), {}), 9);
    assert.equal(ok(read.field(tuple(1, 2), read.integer), new Map([[tuple(1, 2), 3]])), 3);
    assert.equal(ok(read.succeed("always"), []), "always");
    assert.equal(read.float.readBytes(encode(1)).ok, false);
    assert.equal(read.index(0.5, read.term).read([1]).ok, false);
    // @ts-expect-error A string is no term.
    const plain = read.integer.read("5");
    assert.equal(!plain.ok && plain.error.found, "no term but a JavaScript string");
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
    assert.throws(() => write.integer(1.5), /no integer/);
    // @ts-expect-error
    assert.throws(() => write.integer("5"), /^EtfError: 5 is no integer/);
    // @ts-expect-error
    assert.throws(() => write.tuple(write.integer)([]), /^EtfError: undefined is no integer/);
    // @ts-expect-error
    assert.throws(() => write.boolean("maybe"), /^EtfError: maybe is no boolean/);
});
