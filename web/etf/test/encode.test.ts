// What encoders refuse, and in which words; which bytes they choose where there is a choice.
import assert from "node:assert/strict";
import { test } from "node:test";
import { write, type Encodable, type Encoder, type Term } from "@whittle/etf";

/** That it throws an EtfError of code `encode` with this message. */
function fails(run: () => unknown, message: string | RegExp): void {
    assert.throws(run, { name: "EtfError", code: "encode", message });
}

test("a typed encoder leaves no element of a tuple out", () => {
    const pair = write.tuple(write.string, write.string);
    for (const [given, said] of [
        [["a"], "an array of 1 is no tuple of 2"],
        [["a", "b", "c"], "an array of 3 is no tuple of 2"],
    ] as const)
        fails(() => write.list(pair)([given as never]), `at [0]: ${said}`);
    // @ts-expect-error
    fails(() => write.tuple()([1]), "an array of 1 is no tuple of 0");
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
        const type = at < 3 ? "object" : "Map";
        for (const none of [null, undefined, 5, "x"] as never[])
            fails(() => write.list(make)([none]), `at [0]: ${none} is no ${type}`);
    }
    for (const none of [[1], new Set([1]), { a: 1 }] as never[])
        fails(() => makes[3](none), /^[A-Z][a-z]+ is no Map$/);
    // What String cannot show is told by its class.
    for (const none of [Object.create(null), [Symbol()]] as never[])
        fails(() => write.integer(none), /^(nameless object|Array) is no integer$/);
    fails(() => write.integer(Symbol("s") as never), "Symbol(s) is no integer");
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
    // Encoders that call each other.
    const odd: Encoder<Node> = write.lazy(() => write.object({ next: write.nullable(even) }));
    const even: Encoder<Node> = write.lazy(() => write.object({ next: write.nullable(odd) }));
    fails(() => odd(loop), /^(at \.next: )?too deep, or holds itself$/);
    // It is usable after that, and an exception of the program's own passes through.
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
