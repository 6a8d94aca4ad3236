/** One string for every term: two terms are the same (`=:=`) exactly when their strings are. */
import { ErlMap } from "./map.js";
import { parts, rank, written } from "./parts.js";
import { Atom, Float, type BitBinary, type Term } from "./term.js";
import { latin1Text } from "./utf8.js";

/**
 * A string that stands for the term as a key. It takes time in proportion to the term: large
 * integers are in base 16, and what is put together is not copied (engines make ropes of it).
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
        // They are all different, so the values need not be looked at to sort the pairs.
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
