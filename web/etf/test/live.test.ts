// Sends random terms both ways between this codec and a running Erlang: the one on PATH, and the
// one that ETF_OTP29 names. The tests compare text that neither codec writes.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
    Atom,
    Binary,
    compare,
    decodeTerm,
    encode,
    encoder,
    equal,
    ErlMap,
    Float,
    Pid,
    Port,
    Reference,
    show,
    Tuple,
    type Term,
} from "@whittle/etf";
import { describe, hex, same } from "./describe.js";
import { Partner, partners } from "./partner.js";
import { Random } from "./random.js";

/** The number of terms in each direction. ETF_COUNT changes it. */
const COUNT = Number(process.env["ETF_COUNT"] ?? 10000);

const writers = [0, 1, 2].map((version) =>
    [false, true].map((deterministic) =>
        encoder({ minorVersion: version as 0 | 1 | 2, deterministic }),
    ),
);

/** Map keys that are maps have an order that depends on the node's own atom numbers. */
function hasMapAsKey(term: Term): boolean {
    if (term instanceof ErlMap) {
        return (
            term.keys.some((key) => describe(key).includes("#{")) || term.values.some(hasMapAsKey)
        );
    }
    return describe(term).includes("#{") && describe(term).includes("=>");
}

/** Erlang's description of a term, and all external forms of the term. */
function checkForms(answer: Term, words: string | undefined, release: number): void {
    assert.ok(answer instanceof Tuple, `Erlang did not read ${words}`);
    const [said, ...forms] = answer.elements.map((element) => (element as Binary).bytes);
    const expected = Buffer.from(said).toString();
    if (words !== undefined) same(words, expected);
    const terms = forms.map((bytes) => decodeTerm(bytes));
    for (const term of terms) same(describe(term), expected);
    const [plain, deterministic, , minor1, minor0] = forms;
    const latest = release < 26 ? 1 : 2;
    same(hex(writers[latest][0].encode(terms[0])), hex(plain));
    same(hex(writers[1][0].encode(terms[3])), hex(minor1));
    same(hex(writers[0][0].encode(terms[4])), hex(minor0));
    if (!hasMapAsKey(terms[0])) {
        same(hex(writers[latest][1].encode(terms[0])), hex(deterministic));
    }
    assert.ok(equal(terms[0], terms[1]));
}

for (const { erl, who, release } of partners()) {
    test(`${who}: ${COUNT} terms there and back, ${COUNT} back and there`, async () => {
        const partner = new Partner(erl);
        try {
            const written = await partner.ask(new Atom("check"), Binary.of(encode(new Atom("x"))));
            const bytes = ((written as Tuple).elements[1] as Binary).bytes;
            const found = release ?? (bytes[1] === 100 ? 25 : 26);
            const seed = Number(process.env["ETF_SEED"] ?? 20250101);
            const random = new Random(seed);
            for (let done = 0; done < COUNT; done += 250) {
                const terms = Array.from({ length: 250 }, () => random.term(3, found >= 29));
                const answers = terms.map((term) =>
                    partner.ask(new Atom("check"), Binary.of(encode(term))),
                );
                for (const [at, term] of terms.entries())
                    checkForms(await answers[at], describe(term), found);
                const made = await partner.ask(new Atom("random"), 250, seed + done);
                for (const answer of made as readonly Term[]) checkForms(answer, undefined, found);
            }
        } finally {
            partner.stop();
        }
    });

    test(`${who}: atoms, floats and text are shown as it reads them`, async () => {
        const partner = new Partner(erl);
        try {
            const random = new Random(8);
            const characters = Array.from({ length: 0x180 }, (_, code) =>
                String.fromCodePoint(code),
            );
            const names = [
                ...characters,
                ...characters.map((character) => `a${character}b`),
                ...["", "λ", "aλ", "🛰", "\u2028", "a@b_C9", "a.b", "_a", "Ab", "1"],
                ...Array.from({ length: 200 }, () => random.text(9)),
            ];
            const atoms = names.map((name) => new Atom(name));
            const powers = [-324, -323, -308, -20, -7, -6, -1, 0, 5, 15, 16, 20, 21, 22, 100, 308];
            const floats = [1, -1, 1.5, 1.2345678901234567]
                .flatMap((digits) => powers.map((power) => Number(`${digits}e${power}`)))
                .concat(
                    Array.from({ length: 200 }, () => rawFloat(random)),
                    5e-324,
                    2 ** 53,
                    -0,
                )
                .filter(Number.isFinite)
                .map((value) => new Float(value));
            // After 60 characters the text ends in dots.
            const binaries = names
                .map((name) => Binary.of(name))
                .filter((b) => show(b).length < 60);
            const given: readonly Term[] = [...atoms, ...floats, ...binaries];
            const texts = given.map((term) => Binary.of(show(term)));
            const read = (await partner.ask(new Atom("parse"), texts)) as readonly Term[];
            for (const [at, term] of given.entries()) same(describe(read[at]), describe(term));
            // Erlang has short forms of some control characters. It leaves others unchanged that a
            // terminal would not show, and writes Latin-1 letters without quotes.
            const common = atoms.filter(({ name }) => !/[\p{C}\u2028\u2029\x7f-\xff]/u.test(name));
            const printed = (await partner.ask(new Atom("print"), common)) as readonly Binary[];
            assert.deepEqual(
                common.map((atom) => show(atom)),
                printed.map((text) => text.text()),
            );
        } finally {
            partner.stop();
        }
    });

    test(`${who}: the longest string, and the shortest list of bytes that is none`, async () => {
        const partner = new Partner(erl);
        try {
            for (const count of [65535, 65536]) {
                const bytes = encode(Array<number>(count).fill(7));
                const [, plain] = (
                    (await partner.ask(new Atom("check"), Binary.of(bytes))) as Tuple
                ).elements;
                same(hex((plain as Binary).bytes), hex(bytes));
            }
        } finally {
            partner.stop();
        }
    });

    test(`${who}: terms are ordered as Erlang orders them`, async () => {
        const partner = new Partner(erl);
        try {
            const random = new Random(7);
            for (let done = 0; done < 4000; done++) {
                // Small terms of few kinds, so that many are equal.
                const a = orderable(random, 2);
                const b = random.below(8) === 0 ? a : orderable(random, 2);
                const answer = await partner.ask(
                    new Atom("order"),
                    Binary.of(encode(a)),
                    Binary.of(encode(b)),
                );
                const [order, same] = (answer as Tuple).elements as readonly Atom[];
                const sign = compare(a, b);
                assert.equal(
                    sign < 0 ? "less" : sign > 0 ? "more" : "equal",
                    order.name,
                    `${describe(a)} and ${describe(b)}`,
                );
                assert.equal(String(equal(a, b)), same.name, `${describe(a)} and ${describe(b)}`);
            }
        } finally {
            partner.stop();
        }
    });
}

/** A float of any size. */
function rawFloat(random: Random): number {
    const bytes = new DataView(new ArrayBuffer(8));
    bytes.setUint32(0, random.word());
    bytes.setUint32(4, random.word());
    return bytes.getFloat64(0);
}

/**
 * Terms whose order Erlang defines: no funs of this node, no negative zero (=:= changed with OTP
 * 27).
 */
function orderable(random: Random, depth: number): Term {
    const node = (): Atom => new Atom(random.of(["a@b", "c@d"]));
    for (;;) {
        const term = random.of([
            () => random.below(3),
            () => decodeTerm(encode(random.below(3))),
            () => decodeTerm(Uint8Array.of(131, 70, 63, 240, 0, 0, 0, 0, 0, 0)),
            () => Binary.of(random.of(["", "a", "b", "ab"])),
            () => new Atom(random.of(["a", "ab", "b", "λ", "🛰", "ﬀ"])),
            () => new Tuple(random.some(2, () => orderable(random, depth - 1))),
            () => random.some(3, () => orderable(random, depth - 1)),
            () =>
                ErlMap.from(
                    random.some(2, () => [random.below(3), orderable(random, depth - 1)] as const),
                ),
            () => new Pid(node(), random.below(3), random.below(3), 1 + random.below(2)),
            () => new Port(node(), random.below(3), 1 + random.below(2)),
            () =>
                new Reference(node(), 1 + random.below(2), [
                    random.below(2),
                    ...random.some(2, () => random.below(2)),
                ]),
            () => random.term(depth, false),
        ])();
        if (depth < 2 || !/fun\(|f8000000000000000|#\{[^}]*#\{/.test(describe(term))) return term;
    }
}
