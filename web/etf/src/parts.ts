/**
 * Defines the parts of terms, for all code that compares terms. Each term has a rank, by which
 * Erlang orders kinds of terms, and parts, by which it orders the terms of a kind.
 */
import { kindName } from "./error.js";
import { narrowed } from "./integer.js";
import { ErlMap } from "./map.js";
import { isBytes } from "./utf8.js";
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

/** The ranks: number < atom < reference < fun < port < pid < tuple < record < map < list < bits. */
export const enum Rank {
    Number,
    Atom,
    Reference,
    Fun,
    Port,
    Pid,
    Tuple,
    Record,
    Map,
    List,
    Bits,
    Local,
}

/**
 * Gives the term that the encoder writes for a number. An integer past 2^53 is a BigInt, and a
 * fraction or -0 is a Float. Other terms are unchanged.
 */
export function written(term: Term): Term {
    if (typeof term === "bigint") return narrowed(term);
    if (typeof term !== "number" || (Number.isSafeInteger(term) && !Object.is(term, -0)))
        return term;
    return Number.isInteger(term) && term !== 0 ? BigInt(term) : new Float(term);
}

type Kind = readonly [form: Function, rank: number, name?: string, ...fields: readonly string[]];

/**
 * For each class: the rank of its terms, the name of such a term in messages, and the fields that
 * order two of its terms. The first field that differs decides. Without a list of fields, all
 * fields count in the order of the class. For a fun, the fields that Erlang does not compare come
 * last. (The class of maps is not in the table, because it is defined later.)
 */
const kinds: readonly Kind[] = [
    [Atom, Rank.Atom],
    [Binary, Rank.Bits],
    [Float, Rank.Number],
    [Tuple, Rank.Tuple],
    [ImproperList, Rank.List],
    [BitBinary, Rank.Bits],
    [Pid, Rank.Pid, "pid", "serial", "id", "node", "creation"],
    [Port, Rank.Port, "port", "node", "creation", "id"],
    [Reference, Rank.Reference, "reference"],
    [ErlRecord, Rank.Record],
    [ExportFun, Rank.Fun + 0.2, "fun"],
    [Fun, Rank.Fun + 0.1, "fun", "module", "index", "oldUniq", "free", "arity", "oldIndex", "uniq"],
    [OldFun, Rank.Fun, "fun"],
    [LocalTerm, Rank.Local, "local term"],
];

/** Finds the entry of a term's class, if it is a class of this package. */
export function kindOf(term: Term): Kind | undefined {
    return kinds.find(([form]) => term instanceof form);
}

/** Returns the rank of a term. */
export function rank(term: Term): number {
    if (typeof term === "number" || typeof term === "bigint") return Rank.Number;
    if (Array.isArray(term)) return Rank.List;
    if (term instanceof ErlMap) return Rank.Map;
    const kind = kindOf(term);
    if (kind) return kind[1];
    throw new TypeError(`a JavaScript ${kindName(term)} is not a term`);
}

/** Returns the parts of a term whose class orders by fields. The first difference decides. */
export function parts(term: Term): readonly Term[] {
    const [, , , ...named] = kindOf(term)!;
    const fields = named.length > 0 ? named : Object.keys(term);
    return fields.flatMap((name) => {
        const field = (term as unknown as { readonly [name: string]: unknown })[name];
        if (name === "words") return significant(field as number[]);
        if (name === "exported") return Number(field);
        if (isBytes(field)) return Binary.of(field);
        return Array.isArray(field) ? [field.length, ...(field as Term[])] : (field as Term);
    });
}

/**
 * Gives a reference's words, the highest first. Additional zeros at that end do not change the
 * reference.
 */
function significant(words: readonly number[]): readonly number[] {
    const high = [...words].reverse();
    while (high.length > 1 && high[0] === 0) high.shift();
    return [high.length, ...high];
}
