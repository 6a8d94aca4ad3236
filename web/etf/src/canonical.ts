/** One string for every term: two terms are the same (`=:=`) exactly when their strings are. */
import { ErlMap } from "./map.js";
import { parts, rank } from "./parts.js";
import { Atom, Binary, BitBinary, Float, ImproperList, LocalTerm, type Term } from "./term.js";

/** A string that stands for the term as a key. */
export function canonical(term: Term): string {
    if (typeof term === "number" || typeof term === "bigint") return `i${term}`;
    if (term instanceof Atom) return sized("a", term.name);
    if (term instanceof Binary) return sized("b", latin1(term.bytes));
    if (term instanceof Float) return Object.is(term.value, -0) ? "f-0" : `f${term.value}`;
    if (Array.isArray(term)) return all("l", term);
    if (term instanceof ErlMap) {
        const pairs = term.keys.map((key, at) => canonical(key) + canonical(term.values[at]));
        return sized("m", pairs.sort().join(""));
    }
    if (term instanceof ImproperList) return all("p", [...term.items, term.tail]);
    if (term instanceof BitBinary) return sized(`B${term.bits}`, latin1(term.bytes));
    if (term instanceof LocalTerm) return sized("L", latin1(term.bytes));
    return all(`r${rank(term)}`, parts(term));
}

function sized(kind: string, content: string): string {
    return `${kind}:${content.length}:${content}`;
}

function all(kind: string, terms: readonly Term[]): string {
    return sized(kind, terms.map(canonical).join(""));
}

function latin1(bytes: Uint8Array): string {
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    return text;
}
