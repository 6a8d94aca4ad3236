// Tests the term model, frames, and several terms in one input.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
    atom,
    Binary,
    compare,
    decode,
    decodeTerm,
    encode,
    encoder,
    equal,
    ErlMap,
    EtfError,
    Float,
    frame,
    FrameReader,
    LocalTerm,
    plainDecoder,
    show,
    termDecoder,
    tuple,
} from "@whittle/etf";
import { hex, unhex } from "./describe.js";
import { Random } from "./random.js";

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
    assert.throws(() => encode([local]), /a local term must be the whole value/);
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
    // A loop that ends early loses the messages that it did not take, but the position in the
    // stream stays correct.
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

test("a decoded binary shows itself, not the message that it is a part of", () => {
    const map = decodeTerm(encode({ secret: "very", shown: "ok" })) as ErlMap;
    const shown = map.get(Binary.of("shown"))!;
    assert.equal(JSON.stringify(shown), "[111,107]");
    assert.equal(show(map), '#{<<"secret">> => <<"very">>, <<"shown">> => <<"ok">>}');
});
