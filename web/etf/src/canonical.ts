/**
 * Makes a string from a term. Two terms are equal (`=:=`) if and only if their strings are equal.
 */
import { ErlMap } from "./map.js";
import { parts, rank, written } from "./parts.js";
import { Atom, Float, type BitBinary, type Term } from "./term.js";
import { latin1Text } from "./utf8.js";

/**
 * Returns the string for the term as a key. The time is proportional to the size of the term,
 * because large integers are in base 16, and the engine joins strings without a copy (as ropes).
 */
export function canonical(term: Term): string {
    const value = written(term);
    if (typeof value === "number" || typeof value === "bigint") return `i${value.toString(16)};`;
    // The inverse of zero has its sign.
    if (value instanceof Float) return `f${value.value || 1 / value.value};`;
    if (value instanceof Atom) return sized("a", value.name);
    if (Array.isArray(value)) return all("l", value);
    if (value instanceof ErlMap) {
        const { names } = value.own;
        const { values } = value;
        // The keys are all different, so the values do not influence the order of the pairs.
        const order = [...names.keys()].sort((a, b) => (names[a] < names[b] ? -1 : 1));
        return order.reduce(
            (text, at) => text + names[at] + canonical(values[at]),
            `m${names.length}:`,
        );
    }
    const order = rank(value);
    const { bytes, bits } = value as Partial<BitBinary>;
    const kind = `${order},${bits}`;
    return bytes ? sized(kind, latin1Text(bytes)) : all(kind, parts(value));
}

function sized(kind: string, content: string): string {
    return `${kind}:${content.length}:${content}`;
}

function all(kind: string, terms: readonly Term[]): string {
    return terms.reduce<string>((text, term) => text + canonical(term), `${kind}:${terms.length}:`);
}
