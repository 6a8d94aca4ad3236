// Tests damaged and unusual inputs: this codec and a running Erlang accept the same ones, and read
// the same terms in them. ETF_DIFFER is the number of inputs of each kind, and ETF_SEED chooses
// other inputs.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
    Atom,
    Binary,
    ErlMap,
    ErlRecord,
    EtfError,
    Fun,
    ImproperList,
    LocalTerm,
    OldFun,
    Pid,
    Port,
    Reference,
    termDecoder,
    Tuple,
    type Term,
} from "@whittle/etf";
import { describe, hex, unhex } from "./describe.js";
import { Partner, partners } from "./partner.js";
import { Random } from "./random.js";

const COUNT = Number(process.env["ETF_DIFFER"] ?? 10000);
const SEED = Number(process.env["ETF_SEED"] ?? 1);
/** The number of inputs in one request. */
const BATCH = 500;

const vectors = ["otp25.tsv", "otp29.tsv"].flatMap((file) =>
    readFileSync(new URL(`../../../../vectors/etf/${file}`, import.meta.url), "utf8")
        .split("\n")
        .filter((line) => line.includes("\t"))
        .map((line) => unhex(line.split("\t")[2])),
);

const u16 = (value: number): number[] => [(value >> 8) & 255, value & 255];
const u32 = (value: number): number[] => [...u16(value >>> 16), ...u16(value)];
const text = (name: string): number[] => [...Buffer.from(name)];

/** Makes an atom with any of its tags, and seldom an invalid one. */
function atomBytes(random: Random): number[] {
    const name = text(random.of(["n@far", "m@near", "a", "", "nonode@nohost"]));
    const short = [name.length, ...name];
    const long = [...u16(name.length), ...name];
    return random.of([
        () => [119, ...short],
        () => [119, ...short],
        () => [119, ...short],
        () => [118, ...long],
        () => [115, ...short],
        () => [100, ...long],
        () =>
            random.below(5) === 0 ? random.of([[106], [97, 1], [119, 1, 200]]) : [119, ...short],
    ])();
}

/** Makes a word near the limits of fields. */
function word(random: Random): number[] {
    const border = random.of([0, 1, 3, 4, 2 ** 15, 2 ** 18, 2 ** 28, 2 ** 31, 2 ** 32 - 1]);
    return u32(Math.max(0, border - random.below(2)));
}

const words = (random: Random, count: number): number[] =>
    Array.from({ length: count }, () => word(random)).flat();

/** Makes a creation of one byte. Only two bits of it are in use. */
const tiny = (random: Random): number[] => [random.of([0, 1, 2, 3, random.below(256)])];

/** Makes an integer in the form of an export or a fun, and seldom another term. */
function integerBytes(random: Random): number[] {
    return random.of([
        () => [97, random.below(256)],
        () => [98, ...word(random)],
        () => [110, 4, 0, ...word(random)],
        () => [110, 1, random.below(2), random.below(3)],
        () => [111, 0, 0, 0, 1, 0, 7],
        () => [110, 0, random.below(2)],
        () => (random.below(5) === 0 ? random.of([[106], [119, 1, 97]]) : [97, 1]),
    ])();
}

function pidBytes(random: Random): number[] {
    const ids = (): number[] => [...atomBytes(random), ...words(random, 2)];
    return random.of([
        () => [88, ...ids(), ...word(random)],
        () => [103, ...ids(), ...tiny(random)],
    ])();
}

/** Makes a reference, pid, port, export or fun with fields near their limits. */
function identifier(random: Random): number[] {
    // Not zero words: such a reference ends OTP 25 by a signal.
    const count = 1 + random.below(6);
    return random.of([
        () => pidBytes(random),
        () => [90, ...u16(count), ...atomBytes(random), ...words(random, 1 + count)],
        () => [
            ...[114, ...u16(count), ...atomBytes(random), ...tiny(random)],
            ...words(random, count),
        ],
        () => [101, ...atomBytes(random), ...word(random), ...tiny(random)],
        () => [89, ...atomBytes(random), ...words(random, 2)],
        () => [102, ...atomBytes(random), ...word(random), ...tiny(random)],
        () => [120, ...atomBytes(random), ...words(random, 3)],
        () => [113, ...atomBytes(random), ...atomBytes(random), ...integerBytes(random)],
        () => {
            const free = random.of([0, 1, 2, 255, 256]);
            return [
                ...[112, ...word(random), random.below(256), ...random.bytes(16), ...word(random)],
                ...[...u32(free), ...atomBytes(random), ...integerBytes(random)],
                ...[...integerBytes(random), ...pidBytes(random)],
                ...Array<readonly number[]>(free).fill([97, 1]).flat(),
            ];
        },
    ])();
}

/** Inputs by their kind. */
const kinds: Readonly<Record<string, (random: Random) => Uint8Array>> = {
    "references, pids, ports, exports and funs": (random) => {
        const one = identifier(random);
        const bytes = random.of([
            () => one,
            () => [104, 2, ...one, ...identifier(random)],
            () => [108, 0, 0, 0, 1, ...one, 106],
            () => [116, 0, 0, 0, 1, ...one, 97, 1],
            () => one.slice(0, random.below(one.length)),
        ])();
        return Uint8Array.of(131, ...bytes);
    },
    "vectors with changed bytes": (random) => {
        const bytes = random.of(vectors).slice();
        for (let changes = 1 + random.below(4); changes > 0; changes--)
            bytes[1 + random.below(bytes.length - 1)] = random.below(256);
        return bytes;
    },
    "random tags and small numbers": (random) => {
        const tags = [67, 70, 77, 80, 88, 89, 90, ...Array.from({ length: 25 }, (_, i) => 97 + i)];
        const bytes = Uint8Array.from({ length: 2 + random.below(40) }, () =>
            random.below(3) === 0 ? random.of(tags) : random.below(random.of([3, 256])),
        );
        bytes[0] = 131;
        return bytes;
    },
};

const decoder = termDecoder();

/** Returns the term of an input in this codec, or why it is not a term. */
function readHere(bytes: Uint8Array): { term: Term; words: string } | EtfError {
    try {
        const { value } = decoder.decodePrefix(bytes);
        return { term: value, words: describe(value) };
    } catch (error) {
        if (error instanceof EtfError) return error;
        throw error;
    }
}

/** Returns whether a part of a term has a property. */
function holds(term: Term, is: (part: Term) => boolean): boolean {
    const parts = (): readonly Term[] => {
        if (Array.isArray(term)) return term as readonly Term[];
        if (term instanceof ImproperList) return [...term.items, term.tail];
        if (term instanceof Tuple) return term.elements;
        if (term instanceof ErlMap) return [...term.keys, ...term.values];
        if (term instanceof ErlRecord) return term.values;
        return term instanceof Fun || term instanceof OldFun ? [term.pid, ...term.free] : [];
    };
    return is(term) || parts().some((part) => holds(part, is));
}

/** Returns whether the partner node made the term: it knows its own terms. */
function isItsOwn(term: Term): boolean {
    const isIdentifier = term instanceof Pid || term instanceof Port || term instanceof Reference;
    return isIdentifier && term.node.name === "nonode@nohost" && term.creation === 0;
}

/**
 * Returns why Erlang and this codec may differ about an input (docs/etf.md has the list), or
 * undefined.
 */
function reason(
    bytes: Uint8Array,
    here: ReturnType<typeof readHere>,
    there: string | undefined,
): string | undefined {
    if (here instanceof EtfError) {
        const { code, offset } = here;
        const tag = bytes[offset];
        const isInteger = tag === 97 || tag === 98 || tag === 110 || tag === 111;
        if (code === "tag" && (tag === 73 || tag === 75)) return "an atom by its number in the VM";
        if (code !== "value") return undefined;
        if (tag === 77) return "OTP 25 takes a bit string of no bits";
        if (tag === 0 && bytes[offset + 1] === 0) return "a reference without words";
        if (isInteger) return "an integer in a fun that the VM cuts";
        const isFloat = bytes[offset - 1] === 99 && bytes.subarray(offset).includes(44);
        if (isFloat) return "a float as text with a comma";
        if (there?.includes("fun(")) return "OTP 25 takes any term for the creator of a fun";
        return undefined;
    }
    if (holds(here.term, (term) => term instanceof LocalTerm)) return "a term for its writer only";
    if (holds(here.term, (term) => term instanceof OldFun)) return "a fun from before OTP 23";
    if (holds(here.term, isItsOwn)) return "an identifier of the node itself";
    // Erlang keeps one entry for each function, with the first numbers.
    if (there && holds(here.term, (term) => term instanceof Fun)) return "a fun met before";
    return undefined;
}

for (const { erl, who, release } of partners()) {
    for (const [kind, make] of Object.entries(kinds)) {
        test(`${who}: ${COUNT} ${kind} are read alike, or refused`, async (run) => {
            const partner = new Partner(erl);
            const reasons = new Map<string, number>();
            const random = new Random(SEED);
            try {
                for (let done = 0; done < COUNT; done += BATCH) {
                    const inputs = Array.from({ length: BATCH }, () => make(random));
                    const answers = await partner.ask(
                        new Atom("read"),
                        inputs.map((bytes) => Binary.of(bytes)),
                    );
                    for (const [at, answer] of (answers as readonly Term[]).entries()) {
                        const there = answer instanceof Binary ? answer.text() : undefined;
                        const here = readHere(inputs[at]);
                        const words = here instanceof EtfError ? undefined : here.words;
                        if (words === there) continue;
                        const isRecord = !there && release !== 29 && words?.includes("record(");
                        const why = isRecord ? "a native record" : reason(inputs[at], here, there);
                        assert.ok(
                            why,
                            `${hex(inputs[at])} is ${words ?? String(here)} here, ` +
                                `${there ?? "refused"} there`,
                        );
                        reasons.set(why, (reasons.get(why) ?? 0) + 1);
                    }
                }
            } finally {
                partner.stop();
            }
            for (const [why, count] of reasons) run.diagnostic(`${count}: ${why}`);
        });
    }
}
