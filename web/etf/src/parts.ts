/**
 * What terms consist of, once for all that compares them: a rank, by which Erlang orders kinds of
 * terms, and parts, by which it orders the terms of a kind.
 */
import { narrowed } from "./integer.js";
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
 * The term that a number is written as: an integer past 2^53 is a BigInt, a fraction or -0 a
 * Float. Other terms are what they are.
 */
export function written(term: Term): Term {
    if (typeof term === "bigint") return narrowed(term);
    if (typeof term !== "number" || (Number.isSafeInteger(term) && !Object.is(term, -0)))
        return term;
    return Number.isInteger(term) && term !== 0 ? BigInt(term) : new Float(term);
}

/** The rank of a term. */
export function rank(term: Term): Rank {
    if (typeof term === "number" || typeof term === "bigint" || term instanceof Float) {
        return Rank.Number;
    }
    if (term instanceof Atom) return Rank.Atom;
    if (term instanceof Binary || term instanceof BitBinary) return Rank.Bits;
    if (Array.isArray(term) || term instanceof ImproperList) return Rank.List;
    if (term instanceof Tuple) return Rank.Tuple;
    if (term instanceof ErlMap) return Rank.Map;
    if (term instanceof Reference) return Rank.Reference;
    if (term instanceof Port) return Rank.Port;
    if (term instanceof Pid) return Rank.Pid;
    if (term instanceof ErlRecord) return Rank.Record;
    if (term instanceof LocalTerm) return Rank.Local;
    if (term instanceof ExportFun || term instanceof Fun || term instanceof OldFun) return Rank.Fun;
    const type = term === null ? "null" : typeof term;
    throw new TypeError(`no term but a JavaScript ${type}: make one (atom, Binary.of, ...)`);
}

/** The parts of a term of the ranks that are not treated on their own: the first decides. */
export function parts(term: Term): readonly Term[] {
    if (term instanceof Tuple) return [term.elements.length, ...term.elements];
    if (term instanceof Pid) return [term.serial, term.id, term.node, term.creation];
    if (term instanceof Port) return [term.node, term.creation, term.id];
    if (term instanceof Reference) {
        const words = significant(term.words);
        return [term.node, term.creation, words.length, ...words];
    }
    if (term instanceof ErlRecord) {
        const { module, name, exported, fields, values } = term;
        return [module, name, Number(exported), fields.length, ...fields, ...values];
    }
    if (term instanceof ExportFun) return [2, term.module, term.fun, term.arity];
    // Past the values that they closed over, what Erlang itself does not look at.
    if (term instanceof Fun) {
        const { module, index, oldUniq, free, arity, oldIndex, uniq } = term;
        return [1, module, index, oldUniq, free.length, ...free, arity, oldIndex, Binary.of(uniq)];
    }
    const { module, index, uniq, free, pid } = term as OldFun;
    return [0, module, index, uniq, free.length, ...free, pid];
}

/** A reference's words, the highest first. More zeros at that end make no other reference. */
function significant(words: readonly number[]): readonly number[] {
    const reversed = [...words].reverse();
    const first = reversed.findIndex((word) => word !== 0);
    return first < 0 ? [0] : reversed.slice(first);
}
