// Describes a term as text, in the notation of vectors/etf/terms.escript.
import {
    Atom,
    Binary,
    BitBinary,
    ErlMap,
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
} from "@whittle/etf";

export function hex(bytes: Uint8Array): string {
    return Buffer.from(bytes).toString("hex");
}

export function unhex(text: string): Uint8Array {
    return Uint8Array.from(Buffer.from(text, "hex"));
}

/** Fails if two long texts differ, and shows only the place. */
export function same(actual: string, expected: string, what = ""): void {
    if (actual === expected) return;
    let at = 0;
    while (actual[at] === expected[at]) at++;
    const around = (text: string) => text.slice(Math.max(0, at - 60), at + 60);
    throw new Error(
        `${what} differs at ${at}:\n  is        ${around(actual)}\n  should be ${around(expected)}`,
    );
}

export function describe(term: Term): string {
    if (typeof term === "number" || typeof term === "bigint") return `i${term}`;
    if (term instanceof Float) {
        const bytes = new DataView(new ArrayBuffer(8));
        bytes.setFloat64(0, term.value);
        return `f${hex(new Uint8Array(bytes.buffer))}`;
    }
    if (term instanceof Atom) return `a${hex(Buffer.from(term.name))}`;
    if (term instanceof Binary) return `b${hex(term.bytes)}`;
    if (term instanceof BitBinary) return `B${term.bits}:${hex(term.bytes)}`;
    if (term instanceof Tuple) return `{${term.elements.map(describe).join()}}`;
    if (term instanceof ImproperList)
        return `[${term.items.map(describe).join()}|${describe(term.tail)}]`;
    if (term instanceof ErlMap) {
        return `#{${[...term]
            .map(([key, value]) => `${describe(key)}=>${describe(value)}`)
            .sort()
            .join()}}`;
    }
    if (term instanceof Pid)
        return `pid(${describe(term.node)},${term.id},${term.serial},${term.creation})`;
    if (term instanceof Port) return `port(${describe(term.node)},${term.id},${term.creation})`;
    if (term instanceof Reference)
        return `ref(${[describe(term.node), term.creation, ...term.words].join()})`;
    if (term instanceof ExportFun)
        return `fun(${[term.module, term.fun, term.arity].map(describe).join()})`;
    if (term instanceof Fun) {
        const parts = [
            term.module,
            term.arity,
            Binary.of(term.uniq),
            term.index,
            term.oldIndex,
            term.oldUniq,
            ...term.free,
        ];
        return `fun(${parts.map(describe).join()})`;
    }
    if (term instanceof ErlRecord) {
        const head = [term.module, term.name, new Atom(String(term.exported))].map(describe);
        const fields = term.fields.map(
            (name, i) => `${describe(name)}=${describe(term.values[i])}`,
        );
        return `record(${[...head, ...fields].join()})`;
    }
    if (Array.isArray(term)) return `[${term.map(describe).join()}]`;
    // Erlang has no text for these: it refuses the first, and the second from any other node.
    if (term instanceof OldFun) return `oldfun(${term.free.map(describe).join()})`;
    if (term instanceof LocalTerm) return "local()";
    throw new TypeError(`no words for ${String(term)}`);
}
