/** Erlang's order of terms. */
import { canonical, significant } from "./canonical.js";
import { ErlMap } from "./map.js";
import {
    Atom, Binary, BitBinary, ErlRecord, ExportFun, Float, Fun, ImproperList, LocalTerm, OldFun, Pid, Port, Reference,
    Tuple, type Term,
} from "./term.js";

/**
 * Less than 0, 0 or more than 0, as Erlang orders the two terms:
 * number < atom < reference < fun < port < pid < tuple < record < map < list < bit string.
 *
 * Erlang itself orders the funs, and the map keys that are maps, of one node by what only that node
 * knows; here they have an order that is stable, but not always the same.
 * @param exact whether an integer is less than a float of the same value (as for map keys) and
 *   -0.0 less than 0.0. Default false: they are equal, as with `==`
 */
export function compare(a: Term, b: Term, exact = false): number {
    if (a === b) return 0;
    const kind = rank(a);
    const other = rank(b);
    if (kind !== other) return kind - other;
    switch (kind) {
        case 0: return compareNumbers(a as number | bigint | Float, b as number | bigint | Float, exact);
        case 1: return compareText((a as Atom).name, (b as Atom).name);
        case 2: return compareReferences(a as Reference, b as Reference);
        case 3: return compareFuns(a as ExportFun | Fun | OldFun, b as ExportFun | Fun | OldFun, exact);
        case 4: return comparePorts(a as Port, b as Port);
        case 5: return comparePids(a as Pid, b as Pid);
        case 6: return compareSized((a as Tuple).elements, (b as Tuple).elements, exact);
        case 7: return compareRecords(a as ErlRecord, b as ErlRecord, exact);
        case 8: return compareMaps(a as ErlMap, b as ErlMap, exact);
        case 9: return compareLists(a as readonly Term[] | ImproperList, b as readonly Term[] | ImproperList, exact);
        case 10: return compareBits(a as Binary | BitBinary, b as Binary | BitBinary);
        default: return compareBytes((a as LocalTerm).bytes, (b as LocalTerm).bytes);
    }
}

/** Whether two terms are the same term, as with `=:=`: 1 and 1.0 are not. */
export function equal(a: Term, b: Term): boolean {
    return canonical(a) === canonical(b);
}

function rank(term: Term): number {
    if (typeof term === "number" || typeof term === "bigint" || term instanceof Float) return 0;
    if (term instanceof Atom) return 1;
    if (term instanceof Reference) return 2;
    if (term instanceof ExportFun || term instanceof Fun || term instanceof OldFun) return 3;
    if (term instanceof Port) return 4;
    if (term instanceof Pid) return 5;
    if (term instanceof Tuple) return 6;
    if (term instanceof ErlRecord) return 7;
    if (term instanceof ErlMap) return 8;
    if (Array.isArray(term) || term instanceof ImproperList) return 9;
    if (term instanceof Binary || term instanceof BitBinary) return 10;
    return 11;
}

/** The sign of a - b for what JavaScript can order: numbers with BigInt, exactly. */
function sign(a: number | bigint, b: number | bigint): number {
    return a < b ? -1 : a > b ? 1 : 0;
}

function compareNumbers(a: number | bigint | Float, b: number | bigint | Float, exact: boolean): number {
    const aFloat = a instanceof Float;
    const bFloat = b instanceof Float;
    if (exact && aFloat !== bFloat) return aFloat ? 1 : -1;
    const x = aFloat ? a.value : a;
    const y = bFloat ? b.value : b;
    const order = sign(x, y);
    if (order !== 0 || !exact) return order;
    return Number(Object.is(y, -0)) - Number(Object.is(x, -0));
}

/** Atoms go by their code points, which UTF-16 units do not keep in order. */
function compareText(a: string, b: string): number {
    let i = 0;
    while (i < a.length && a[i] === b[i]) i++;
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (i >= a.length || i >= b.length) return a.length - b.length;
    const surrogates = Number((x & 0xf800) === 0xd800) - Number((y & 0xf800) === 0xd800);
    return surrogates !== 0 ? surrogates : x - y;
}

function compareNodes(a: { node: Atom; creation: number }, b: { node: Atom; creation: number }): number {
    return compareText(a.node.name, b.node.name) || a.creation - b.creation;
}

function compareReferences(a: Reference, b: Reference): number {
    const x = significant(a.words);
    const y = significant(b.words);
    let order = compareNodes(a, b) || x.length - y.length;
    for (let i = x.length - 1; i >= 0 && order === 0; i--) order = x[i] - y[i];
    return order;
}

function comparePids(a: Pid, b: Pid): number {
    return a.serial - b.serial || a.id - b.id || compareNodes(a, b);
}

function comparePorts(a: Port, b: Port): number {
    return compareNodes(a, b) || sign(a.id, b.id);
}

function compareFuns(a: ExportFun | Fun | OldFun, b: ExportFun | Fun | OldFun, exact: boolean): number {
    if (a instanceof ExportFun && b instanceof ExportFun) {
        return compareText(a.module.name, b.module.name) || compareText(a.fun.name, b.fun.name) || a.arity - b.arity;
    }
    if (a instanceof Fun && b instanceof Fun) {
        return compareText(a.module.name, b.module.name) || a.index - b.index || a.oldUniq - b.oldUniq
            || compareSized(a.free, b.free, exact);
    }
    if (a instanceof OldFun && b instanceof OldFun) {
        return compareText(a.module.name, b.module.name) || a.index - b.index || a.uniq - b.uniq
            || compareSized(a.free, b.free, exact);
    }
    const order = (fun: object) => fun instanceof ExportFun ? 2 : fun instanceof Fun ? 1 : 0;
    return order(a) - order(b);
}

/** Shorter first, then element by element. */
function compareSized(a: readonly Term[], b: readonly Term[], exact: boolean): number {
    if (a.length !== b.length) return a.length - b.length;
    return compareItems(a, b, exact);
}

function compareItems(a: readonly Term[], b: readonly Term[], exact: boolean): number {
    let order = 0;
    for (let i = 0; i < a.length && i < b.length && order === 0; i++) order = compare(a[i], b[i], exact);
    return order;
}

function compareRecords(a: ErlRecord, b: ErlRecord, exact: boolean): number {
    return compareText(a.module.name, b.module.name) || compareText(a.name.name, b.name.name)
        || Number(a.exported) - Number(b.exported)
        || compareSized(a.fields, b.fields, exact)
        || compareItems(a.values, b.values, exact);
}

/** Smaller first, then the keys in order (as exact terms), then the values in the order of the keys. */
function compareMaps(a: ErlMap, b: ErlMap, exact: boolean): number {
    if (a.size !== b.size) return a.size - b.size;
    const order = (map: ErlMap) => map.keys.map((_, at) => at).sort((x, y) => compare(map.keys[x], map.keys[y], true));
    const x = order(a);
    const y = order(b);
    return compareItems(x.map((at) => a.keys[at]), y.map((at) => b.keys[at]), true)
        || compareItems(x.map((at) => a.values[at]), y.map((at) => b.values[at]), exact);
}

function compareLists(a: readonly Term[] | ImproperList, b: readonly Term[] | ImproperList, exact: boolean): number {
    const x = a instanceof ImproperList ? a.items : a;
    const y = b instanceof ImproperList ? b.items : b;
    const order = compareItems(x, y, exact);
    if (order !== 0) return order;
    const rest = (list: readonly Term[] | ImproperList, items: readonly Term[], from: number): Term =>
        from < items.length ? items.slice(from) : list instanceof ImproperList ? list.tail : [];
    const shared = Math.min(x.length, y.length);
    const p = rest(a, x, shared);
    const q = rest(b, y, shared);
    if (!Array.isArray(p) || !Array.isArray(q)) {
        // What is left of an improper list is a list still, unless it is the tail.
        const left = rank(shared < x.length ? [] : p) - rank(shared < y.length ? [] : q);
        return left !== 0 ? left : shared < x.length ? 1 : shared < y.length ? -1 : compare(p, q, exact);
    }
    return p.length - q.length;
}

function compareBits(a: Binary | BitBinary, b: Binary | BitBinary): number {
    const length = (x: Binary | BitBinary) => x instanceof Binary ? x.length * 8 : x.bytes.length * 8 - 8 + x.bits;
    return compareBytes(a.bytes, b.bytes) || length(a) - length(b);
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
    for (let i = 0; i < a.length && i < b.length; i++) if (a[i] !== b[i]) return a[i] - b[i];
    return a.length - b.length;
}
