/** One string for every term: two terms are the same (`=:=`) exactly when their strings are. */
import { ErlMap } from "./map.js";
import {
    Atom, Binary, BitBinary, ErlRecord, ExportFun, Float, Fun, ImproperList, LocalTerm, OldFun, Pid, Port, Reference,
    Tuple, type Term,
} from "./term.js";

/** A string that stands for the term as a key. */
export function canonical(term: Term): string {
    if (typeof term === "number") return `i${term}`;
    if (typeof term === "bigint") return `i${term}`;
    if (term instanceof Atom) return sized("a", term.name);
    if (term instanceof Binary) return sized("b", latin1(term.bytes));
    if (term instanceof Float) return Object.is(term.value, -0) ? "f-0" : `f${term.value}`;
    if (term instanceof Tuple) return all("t", term.elements);
    if (Array.isArray(term)) return all("l", term);
    if (term instanceof ErlMap) {
        const pairs = term.keys.map((key, at) => canonical(key) + canonical(term.values[at]));
        return sized("m", pairs.sort().join(""));
    }
    if (term instanceof ImproperList) return all("p", [...term.items, term.tail]);
    if (term instanceof BitBinary) return sized(`B${term.bits}`, latin1(term.bytes));
    if (term instanceof Pid) return `P${term.id}.${term.serial}.${term.creation}${canonical(term.node)}`;
    if (term instanceof Port) return `O${term.id}.${term.creation}${canonical(term.node)}`;
    if (term instanceof Reference) return `R${significant(term.words).join(".")}.${term.creation}${canonical(term.node)}`;
    if (term instanceof ExportFun) return all("x", [term.module, term.fun, term.arity]);
    if (term instanceof Fun) {
        return all("F", [term.module, term.arity, Binary.of(term.uniq), term.index, term.oldIndex, term.oldUniq, term.free]);
    }
    if (term instanceof OldFun) return all("U", [term.module, term.index, term.uniq, term.pid, term.free]);
    if (term instanceof ErlRecord) {
        return all("C", [term.module, term.name, term.exported ? 1 : 0, term.fields, term.values]);
    }
    return sized("L", latin1((term as LocalTerm).bytes));
}

/** A reference's words up to the last that is not zero: more zeros make no other reference. */
export function significant(words: readonly number[]): readonly number[] {
    let length = words.length;
    while (length > 1 && words[length - 1] === 0) length--;
    return words.slice(0, length);
}

function sized(kind: string, content: string): string {
    return `${kind}${content.length}:${content}`;
}

function all(kind: string, terms: readonly Term[]): string {
    return sized(kind, terms.map(canonical).join(""));
}

function latin1(bytes: Uint8Array): string {
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    return text;
}
