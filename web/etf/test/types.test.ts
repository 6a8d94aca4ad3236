// Tests what TypeScript must refuse and accept. The compilation of this file is the check.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
    Atom,
    atom,
    Binary,
    encode,
    encoder,
    ErlMap,
    Float,
    frame,
    isList,
    read,
    type Bytes,
    type Decoder,
    type Encodable,
    type Term,
    type TermEncoder,
} from "@whittle/etf";

/** Nobody calls this. It must compile, but each line after an @ts-expect-error must not. */
export function refused(value: Date, encodes: TermEncoder): void {
    // A function and an error have a name and toString, as an atom has.
    // @ts-expect-error
    encode(() => 1);
    // @ts-expect-error
    encode(new Error("x"));
    // @ts-expect-error
    encode({ inner: [() => 1] });
    class Order {
        name = "x";
        total = 5;
    }
    // @ts-expect-error
    encode(new Order());
    // @ts-expect-error
    encode(value);
    // @ts-expect-error
    encodes.encode([value]);
    // An object that looks like a term is not one, because the class did not make it.
    // @ts-expect-error
    const likeAtom: Atom = { name: "a", toString: () => "a" };
    // @ts-expect-error
    const likeFloat: Float = { value: 1, valueOf: () => 1 };
    // @ts-expect-error
    const likeTerm: Term = { bytes: new Uint8Array(1), bits: 3 };
    // @ts-expect-error
    const likeRecord: Term = { node: atom("a"), id: 1, serial: 1, creation: 1 };
    // Functions make terms of these classes; their constructors are private.
    // @ts-expect-error
    new Binary(new Uint8Array(1), 0, 1);
    // @ts-expect-error
    new Binary();
    // @ts-expect-error
    new ErlMap();
    // @ts-expect-error
    new ErlMap([], []);
    // @ts-expect-error
    ErlMap.of;
    // @ts-expect-error
    Binary.within;
    interface User {
        id: number;
    }
    const user: User = { id: 1 };
    // Other code may extend an interface by values that are not terms. It cannot extend a type.
    // @ts-expect-error
    encode(user);
    encode({ ...user });
    return void [likeAtom, likeFloat, likeTerm, likeRecord];
}

test("what TypeScript takes", () => {
    type User = { readonly id: number; readonly tags?: readonly string[] };
    const user: User = { id: 1 };
    const value: Encodable = user;
    // fetch, Blob and digest need bytes in memory that is not shared.
    const bytes: readonly Bytes[] = [encode(value), encoder().encode(value), frame(encode(value))];
    const buffers: readonly Uint8Array<ArrayBuffer>[] = bytes;
    assert.ok(buffers.every(({ buffer }) => buffer instanceof ArrayBuffer));
    const term: Term = [1, atom("a")];
    assert.ok(isList(term));
    const first: Term = term[0];
    // @ts-expect-error An element is a term, not anything.
    const wrong: string = term[1];
    assert.deepEqual([first, wrong], [1, atom("a")]);
    assert.equal(isList(atom("a")), false);
    assert.ok(atom("a") instanceof Atom && Binary.of("x") instanceof Binary);
    const decoder = read.object({
        name: read.string,
        age: read.optional(read.integer, undefined),
        tags: read.optional(read.list(read.string), null),
    });
    const result = decoder.readBytes(encode({ name: "Joe" }));
    assert.ok(result.ok);
    const { name, age, tags }: { name: string; age: number | undefined; tags: string[] | null } =
        result.value;
    assert.deepEqual([name, age, tags], ["Joe", undefined, null]);
    // A function that uses none of the values accepts any decoders.
    const failed: Decoder<"no"> = read.map(() => "no" as const, read.atom("error"), read.term);
    assert.deepEqual(failed.read(atom("error")), { ok: true, value: "no" });
});
