/** Compares terms in Erlang's order. */
import { canonical } from "./canonical.js";
import type { ErlMap } from "./map.js";
import { parts, rank, Rank, written } from "./parts.js";
import { Binary, Float, ImproperList, type Atom, type Term } from "./term.js";
import { latin1Text } from "./utf8.js";

/**
 * Compares two terms in Erlang's order. Returns a number less than 0, 0, or more than 0. The order
 * is number < atom < reference < fun < port < pid < tuple < record < map < list < bit string.
 *
 * A node orders its own funs, and maps that are map keys, by data that only the node has. Here
 * these terms have a stable order, which may differ from the node's. Terms deeper than JavaScript's
 * stack allows, some thousand levels, throw a RangeError. {@link equal} and {@link ErlMap} throw it
 * too.
 * @param exact whether an integer is less than a float of the same value (as for map keys), and
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
        case Rank.Local:
            return compareBits(a as Bits, b as Bits);
        default:
            return compareItems(parts(a), parts(b), exact);
    }
}

type Numeric = number | bigint | Float;
type List = readonly Term[] | ImproperList;
/** A term with bytes. `bits` is the number of used bits in the last byte of a bit string. */
type Bits = { readonly bytes: Uint8Array; readonly bits?: number };

/** Returns whether two terms are equal, as with `=:=`: 1 and 1.0 are not. */
export function equal(a: Term, b: Term): boolean {
    return canonical(a) === canonical(b);
}

function compareNumbers(first: Numeric, second: Numeric, exact: boolean): number {
    const a = written(first) as Numeric;
    const b = written(second) as Numeric;
    const kinds = exact ? Number(a instanceof Float) - Number(b instanceof Float) : 0;
    if (kinds !== 0) return kinds;
    // Numbers and BigInt are compared exactly.
    const x = a.valueOf();
    const y = b.valueOf();
    const order = Number(x > y) - Number(x < y);
    return exact && order === 0 ? Number(Object.is(y, -0)) - Number(Object.is(x, -0)) : order;
}

/** Compares atoms by their code points. UTF-16 units have another order. */
export function compareText(a: string, b: string): number {
    let i = 0;
    while (i < a.length && a[i] === b[i]) i++;
    return (a.codePointAt(i) ?? -1) - (b.codePointAt(i) ?? -1);
}

/** Compares element by element, up to the end of the shorter one. */
function compareItems(a: ArrayLike<Term>, b: ArrayLike<Term>, exact: boolean): number {
    let order = 0;
    for (let i = 0; i < a.length && i < b.length && order === 0; i++) {
        order = compare(a[i], b[i], exact);
    }
    return order;
}

/** Returns the positions of these terms in their (exact) order. */
export function ordered(terms: readonly Term[]): number[] {
    // Bytes have the order of the characters with their numbers, which engines compare.
    const texts = terms.map((term) => term instanceof Binary && latin1Text(term.bytes));
    return [...terms.keys()].sort((a, b) => {
        const x = texts[a];
        const y = texts[b];
        return x && y ? Number(x > y) - Number(x < y) : compare(terms[a], terms[b], true);
    });
}

type Columns = readonly [keys: readonly Term[], values: readonly Term[]];
/** Compares maps in the order of their keys, and sorts each nested map only once. */
const sorted = /* @__PURE__ */ new WeakMap<ErlMap, Columns>();

function inOrder(map: ErlMap): Columns {
    let columns = sorted.get(map);
    if (!columns) {
        const order = ordered(map.keys);
        columns = [order.map((at) => map.keys[at]), order.map((at) => map.values[at])];
        sorted.set(map, columns);
    }
    return columns;
}

/** Smaller maps come first. Then the keys in their (exact) order decide, and then their values. */
function compareMaps(a: ErlMap, b: ErlMap, exact: boolean): number {
    if (a.size !== b.size) return a.size - b.size;
    const [keys, values] = inOrder(a);
    const [others, otherValues] = inOrder(b);
    return compareItems(keys, others, true) || compareItems(values, otherValues, exact);
}

function compareLists(a: List, b: List, exact: boolean): number {
    const x = itemsOf(a);
    const y = itemsOf(b);
    const order = compareItems(x, y, exact);
    if (order !== 0) return order;
    // One list is at its tail. The other is at a further element, or at its tail too.
    const rest = (list: List, from: number): Term =>
        list instanceof ImproperList && from >= list.items.length
            ? list.tail
            : itemsOf(list).slice(from);
    const p = rest(a, y.length);
    const q = rest(b, x.length);
    return Array.isArray(p) && Array.isArray(q) ? p.length - q.length : compare(p, q, exact);
}

function itemsOf(list: List): readonly Term[] {
    return list instanceof ImproperList ? list.items : list;
}

function compareBits(a: Bits, b: Bits): number {
    const x = a.bytes;
    const y = b.bytes;
    return compareItems(x, y, true) || x.length - y.length || (a.bits ?? 8) - (b.bits ?? 8);
}
