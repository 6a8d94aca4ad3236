/** Terms in Erlang's notation, shortened for messages. */
import { ErlMap } from "./map.js";
import {
    Atom,
    Binary,
    BitBinary,
    ErlRecord,
    ExportFun,
    Float,
    Fun,
    ImproperList,
    LocalTerm,
    OldFun,
    Pid,
    Port,
    Reference,
    Tuple,
    type Term,
} from "./term.js";

const MOST = 5;

/** The term as Erlang would print it, no more than a few levels and elements of it. */
export function show(term: Term, levels = 2): string {
    if (typeof term === "number" || typeof term === "bigint") return shorten(String(term));
    if (term instanceof Atom) return shorten(term.toString());
    if (term instanceof Float)
        return Number.isInteger(term.value) ? term.value.toFixed(1) : String(term.value);
    if (term instanceof Binary) return showBinary(term);
    if (term instanceof BitBinary)
        return `a bit string of ${term.bytes.length * 8 - 8 + term.bits} bits`;
    if (term instanceof Pid) return `<${term.node.name}.${term.id}.${term.serial}>`;
    if (term instanceof Port) return `#Port<${term.node.name}.${term.id}>`;
    if (term instanceof Reference) return `#Ref<${term.node.name}.${term.words.join(".")}>`;
    if (term instanceof ExportFun) return `fun ${term.module}:${term.fun}/${term.arity}`;
    if (term instanceof Fun) return `#Fun<${term.module}.${term.index}.${term.oldUniq}>`;
    if (term instanceof OldFun) return `#Fun<${term.module}.${term.index}.${term.uniq}>`;
    if (term instanceof LocalTerm) return "a term that only its node can read";
    if (term instanceof Tuple) return `{${showAll(term.elements, levels)}}`;
    if (term instanceof ImproperList)
        return `[${showAll(term.items, levels)}|${show(term.tail, levels - 1)}]`;
    if (term instanceof ErlMap) {
        if (levels === 0) return "#{...}";
        const pairs = term.keys
            .slice(0, MOST)
            .map((key, at) => `${show(key, levels - 1)} => ${show(term.values[at], levels - 1)}`);
        return `#{${pairs.join(", ")}${term.size > MOST ? ", ..." : ""}}`;
    }
    if (term instanceof ErlRecord) {
        const pairs = term.fields
            .slice(0, MOST)
            .map(
                (field, at) =>
                    `${field} = ${levels === 0 ? "..." : show(term.values[at], levels - 1)}`,
            );
        const more = term.fields.length > MOST ? ", ..." : "";
        return `#${term.module}:${term.name}{${pairs.join(", ")}${more}}`;
    }
    if (Array.isArray(term)) return `[${showAll(term as readonly Term[], levels)}]`;
    return `no term but a JavaScript ${typeof term}`;
}

function showAll(terms: readonly Term[], levels: number): string {
    if (levels === 0 && terms.length > 0) return "...";
    const shown = terms.slice(0, MOST).map((term) => show(term, levels - 1));
    return `${shown.join(", ")}${terms.length > MOST ? ", ..." : ""}`;
}

function showBinary(binary: Binary): string {
    try {
        if (binary.length <= 64) return `<<${JSON.stringify(binary.text())}>>`;
    } catch {
        // Not text: its size says enough.
    }
    return `a binary of ${binary.length} bytes`;
}

function shorten(text: string): string {
    return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}
