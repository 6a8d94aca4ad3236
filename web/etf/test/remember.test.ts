// Tests that decoders and encoders remember little, and keep no memory of the input.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
    atom,
    Binary,
    type Encodable,
    encode,
    encoder,
    ErlMap,
    EtfError,
    Fun,
    LocalTerm,
    Pid,
    plainDecoder,
    termDecoder,
    type TermDecoder,
    tuple,
} from "@whittle/etf";
import { hex } from "./describe.js";
import { printed } from "./inputs.js";

test("ten thousand different map shapes and atoms do not break a decoder", () => {
    const decoder = plainDecoder();
    for (let i = 0; i < 10000; i++)
        assert.deepEqual(decoder.decode(encode({ [`key ${i}`]: i, b: 2 })), {
            [`key ${i}`]: i,
            b: 2,
        });
    assert.deepEqual(decoder.decode(encode({ last: 1 })), { last: 1 });
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
    // Another message may be at the same place, as in a socket's buffer.
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
    // After a message that was truncated in a key, binaries are views of their input again.
    assert.throws(() => decode(encode(new Map([["cut", 1]])).subarray(0, 9)), EtfError);
    const whole = encode("text");
    assert.equal((decode(whole) as Binary).bytes.buffer, whole.buffer);
});

test("decoding changes nothing in the input, and what it copies stays as it was", () => {
    const node = atom("n");
    const pid = new Pid(node, 1, 2, 3);
    const fun = new Fun(node, 1, new Uint8Array(16).fill(7), 0, 0, 0, pid, []);
    const inputs = [
        // The last byte has more bits than the bit string uses.
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
        // These are layouts with the same number of names, the first orders of maps, and sets of
        // keys.
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
            // The decoder makes one text of this ASCII. Strings that it cuts out share that text.
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
                    // The input is a text, then a map whose first key is an atom of 20 letters.
                    // 255 is not a tag.
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
