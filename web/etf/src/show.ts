/** Writes terms in Erlang's notation, shortened for messages. */
import { escaped, kindName } from "./error.js";
import { ErlMap } from "./map.js";
import { kindOf, written } from "./parts.js";
import {
    Atom,
    Binary,
    BitBinary,
    ErlRecord,
    Float,
    ImproperList,
    Tuple,
    type Term,
} from "./term.js";

const MOST = 5;

/**
 * Writes the term as Erlang would print it, for messages: five elements of each container, and
 * `levels` levels of nested containers.
 */
export function show(term: Term, levels = 2): string {
    const inner = (part: Term): string => show(part, levels - 1);
    const few = <P>(parts: readonly P[], one: (part: P, at: number) => string): string => {
        if (levels <= 0 && parts.length > 0) return "...";
        const shown = parts.slice(0, MOST).map(one).join(", ");
        return parts.length > MOST ? `${shown}, ...` : shown;
    };
    const entries = (keys: readonly Term[], sign: string, values: readonly Term[]): string =>
        `{${few(keys, (key, at) => `${inner(key)} ${sign} ${inner(values[at])}`)}}`;
    if (Array.isArray(term)) return `[${few(term as readonly Term[], inner)}]`;
    if (term instanceof Tuple) return `{${few(term.elements as readonly Term[], inner)}}`;
    if (term instanceof ImproperList) return `[${few(term.items, inner)}|${inner(term.tail)}]`;
    if (term instanceof ErlMap) return `#${entries(term.keys, "=>", term.values)}`;
    if (term instanceof ErlRecord)
        return `#${inner(term.module)}:${inner(term.name)}${entries(term.fields, "=", term.values)}`;
    const text = leaf(written(term));
    return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/** Writes a term without other terms in it. */
function leaf(term: Term): string {
    // To write a large integer in base 10 takes time in the square of its digits.
    if (typeof term === "bigint" && term !== BigInt.asIntN(256, term))
        return `16#${term.toString(16)}`;
    if (typeof term === "number" || typeof term === "bigint") return String(term);
    if (term instanceof Atom) return escaped(String(term));
    if (term instanceof Float) {
        const { value } = term;
        const text = Object.is(value, -0) ? "-0" : String(value);
        return text.replace("+", "").replace(/^-?\d+(?=e|$)/, "$&.0");
    }
    if (term instanceof BitBinary)
        return `a bit string of ${term.bytes.length * 8 - 8 + term.bits} bits`;
    if (term instanceof Binary) {
        const text = term.length <= 64 ? term.utf8() : undefined;
        if (text === undefined) return `a binary of ${term.length} bytes`;
        const type = term.length > text.length ? "/utf8" : "";
        return `<<"${escaped(text.replace(/["\\]/g, "\\$&"))}"${type}>>`;
    }
    const kind = kindOf(term);
    return kind ? `a ${kind[2]}` : `a JavaScript ${kindName(term)}`;
}
