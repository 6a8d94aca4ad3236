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

/** Terms of which a message says no more than what they are. */
const kinds = [
    [Pid, "pid"],
    [Port, "port"],
    [Reference, "reference"],
    [ExportFun, "fun"],
    [Fun, "fun"],
    [OldFun, "fun"],
    [LocalTerm, "term that only its node can read"],
] as const;

/**
 * The term as Erlang would print it, for messages: five elements of each container, and `levels`
 * of containers in each other.
 */
export function show(term: Term, levels = 2): string {
    // In base 10 a large integer takes the square of its digits.
    if (typeof term === "bigint" && term !== BigInt.asIntN(256, term))
        return shorten(`16#${term.toString(16)}`);
    if (typeof term === "number" || typeof term === "bigint") return shorten(String(term));
    if (term instanceof Atom) return shorten(term.toString());
    if (term instanceof Float)
        return Number.isInteger(term.value) ? term.value.toFixed(1) : String(term.value);
    if (term instanceof Binary) return showBinary(term);
    if (term instanceof BitBinary)
        return `a bit string of ${term.bytes.length * 8 - 8 + term.bits} bits`;
    const inner = (part: Term): string => show(part, levels - 1);
    const few = <P>(parts: readonly P[], one: (part: P, at: number) => string): string => {
        if (levels <= 0 && parts.length > 0) return "...";
        const shown = parts.slice(0, MOST).map(one).join(", ");
        return parts.length > MOST ? `${shown}, ...` : shown;
    };
    if (term instanceof Tuple) return `{${few(term.elements as readonly Term[], inner)}}`;
    if (term instanceof ImproperList) return `[${few(term.items, inner)}|${inner(term.tail)}]`;
    if (term instanceof ErlMap)
        return `#{${few(term.keys, (key, at) => `${inner(key)} => ${inner(term.values[at])}`)}}`;
    if (term instanceof ErlRecord) {
        const fields = few(term.fields, (field, at) => `${field} = ${inner(term.values[at])}`);
        return `#${term.module}:${term.name}{${fields}}`;
    }
    if (Array.isArray(term)) return `[${few(term as readonly Term[], inner)}]`;
    const kind = kinds.find(([Kind]) => term instanceof Kind);
    return kind ? `a ${kind[1]}` : `no term but a JavaScript ${typeof term}`;
}

function showBinary(binary: Binary): string {
    const text = binary.length <= 64 ? binary.utf8() : undefined;
    return text === undefined
        ? `a binary of ${binary.length} bytes`
        : `<<${JSON.stringify(text)}>>`;
}

function shorten(text: string): string {
    return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}
