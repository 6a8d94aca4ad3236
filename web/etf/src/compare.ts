/** Erlang's order of terms. */
import { canonical } from "./canonical.js";
import type { ErlMap } from "./map.js";
import { parts, rank, Rank, written } from "./parts.js";
import {
    Binary,
    Float,
    ImproperList,
    type Atom,
    type BitBinary,
    type LocalTerm,
    type Term,
} from "./term.js";

/**
 * Less than 0, 0 or more than 0, as Erlang orders the two terms:
 * number < atom < reference < fun < port < pid < tuple < record < map < list < bit string.
 *
 * Erlang itself orders the funs, and the map keys that are maps, of one node by what only that
 * node knows; here they have an order that is stable, but not always the same.
 * @param exact whether an integer is less than a float of the same value (as for map keys) and
 *   -0.0 less than 0.0. Default false: they are equal, as with `==`
 */
export function compare(a: Term, b: Term, exact = false): number {
    if (Object.is(a, b)) return 0;
    const kind = rank(a);
    const other = rank(b);
    if (kind !== other) return kind - other;
    switch (kind) {
        case Rank.Number:
            return compareNumbers(a as Numeric, b as Numeric, exact);
        case Rank.Atom:
            return compareText((a as Atom).name, (b as Atom).name);
        case Rank.Map:
            return compareMaps(a as ErlMap, b as ErlMap, exact);
        case Rank.List:
            return compareLists(a as List, b as List, exact);
        case Rank.Bits:
            return compareBits(a as Bits, b as Bits);
        case Rank.Local:
            return compareBytes((a as LocalTerm).bytes, (b as LocalTerm).bytes);
        default:
            return compareItems(parts(a), parts(b), exact);
    }
}

type Numeric = number | bigint | Float;
type List = readonly Term[] | ImproperList;
type Bits = Binary | BitBinary;

/** Whether two terms are the same term, as with `=:=`: 1 and 1.0 are not. */
export function equal(a: Term, b: Term): boolean {
    return canonical(a) === canonical(b);
}

function compareNumbers(first: Numeric, second: Numeric, exact: boolean): number {
    const a = written(first) as Numeric;
    const b = written(second) as Numeric;
    const aFloat = a instanceof Float;
    const bFloat = b instanceof Float;
    if (exact && aFloat !== bFloat) return aFloat ? 1 : -1;
    const x = aFloat ? a.value : a;
    const y = bFloat ? b.value : b;
    // Numbers and BigInt are compared exactly.
    if (x !== y) return x < y ? -1 : x > y ? 1 : 0;
    return exact ? Number(Object.is(y, -0)) - Number(Object.is(x, -0)) : 0;
}

/** Atoms go by their code points, which UTF-16 units do not keep in order. */
function compareText(a: string, b: string): number {
    let i = 0;
    while (i < a.length && a[i] === b[i]) i++;
    if (i >= a.length || i >= b.length) return a.length - b.length;
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    const isSurrogate = (unit: number) => Number((unit & 0xf800) === 0xd800);
    return isSurrogate(x) - isSurrogate(y) || x - y;
}

/** Element by element, as far as both reach. */
function compareItems(a: readonly Term[], b: readonly Term[], exact: boolean): number {
    let order = 0;
    for (let i = 0; i < a.length && i < b.length && order === 0; i++) {
        order = compare(a[i], b[i], exact);
    }
    return order;
}

/** The entries of maps in the order of their keys: of maps in maps each is sorted only once. */
const sorted = /* @__PURE__ */ new WeakMap<ErlMap, (readonly [Term, Term])[]>();

function inOrder(map: ErlMap): (readonly [Term, Term])[] {
    let entries = sorted.get(map);
    if (entries === undefined) {
        entries = [...map].sort(([key], [other]) => compare(key, other, true));
        sorted.set(map, entries);
    }
    return entries;
}

/** Smaller first, then the keys in their (exact) order, then the values in that of their keys. */
function compareMaps(a: ErlMap, b: ErlMap, exact: boolean): number {
    if (a.size !== b.size) return a.size - b.size;
    const [x, y] = [inOrder(a), inOrder(b)];
    const column = (at: 0 | 1, exactly: boolean) =>
        compareItems(
            x.map((pair) => pair[at]),
            y.map((pair) => pair[at]),
            exactly,
        );
    return column(0, true) || column(1, exact);
}

function compareLists(a: List, b: List, exact: boolean): number {
    const x = a instanceof ImproperList ? a.items : a;
    const y = b instanceof ImproperList ? b.items : b;
    const order = compareItems(x, y, exact);
    if (order !== 0) return order;
    // One has ended, in its tail; what is left of the other is a list, or its tail as well.
    const shared = Math.min(x.length, y.length);
    const rest = (list: List, items: readonly Term[]): Term =>
        shared < items.length ? items.slice(shared) : list instanceof ImproperList ? list.tail : [];
    const p = rest(a, x);
    const q = rest(b, y);
    return Array.isArray(p) && Array.isArray(q) ? p.length - q.length : compare(p, q, exact);
}

function compareBits(a: Bits, b: Bits): number {
    const bits = (x: Bits) => (x instanceof Binary ? 0 : x.bits - 8);
    return compareBytes(a.bytes, b.bytes) || bits(a) - bits(b);
}

function compareBytes(a: Uint8Array, b: Uint8Array): number {
    for (let i = 0; i < a.length && i < b.length; i++) if (a[i] !== b[i]) return a[i] - b[i];
    return a.length - b.length;
}
