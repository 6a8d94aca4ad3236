/** Implements Erlang's maps. Any term is a key, and 1 and 1.0 are different keys. */
import { canonical } from "./canonical.js";
import type { Encodable } from "./encode.js";
import type { Term } from "./term.js";

/**
 * The keys of a map. Decoded maps with the same keys in the same order share them. @internal
 */
export class Keys {
    private index: Map<string, number> | undefined = undefined;
    private texts: readonly string[] | undefined = undefined;

    /** @param terms all different */
    constructor(readonly terms: readonly Term[]) {}

    /**
     * Makes the canonical strings of the keys only once. With maps as keys inside keys, each level
     * needs all of them again.
     */
    get names(): readonly string[] {
        return (this.texts ??= this.terms.map(canonical));
    }

    /** Returns the position of the key with this canonical string, or undefined. */
    find(name: string): number | undefined {
        this.index ??= new Map(this.names.map((own, at) => [own, at]));
        return this.index.get(name);
    }
}

/**
 * An immutable map. It keeps its entries in the order in which they were written. This order means
 * nothing in Erlang: two maps of the same entries are equal in any order.
 */
export class ErlMap {
    private constructor(
        /** @internal */
        readonly own: Keys,
        readonly values: readonly Term[],
    ) {}

    /** @internal */
    static of(keys: Keys, values: readonly Term[]): ErlMap {
        return new ErlMap(keys, values);
    }

    /**
     * Makes a map of these entries. Of two entries with the same key the later counts, as in
     * `maps:from_list/1`.
     */
    static from(entries: Iterable<readonly [Term, Term]>): ErlMap {
        const last = new Map<string, readonly [Term, Term]>();
        for (const entry of entries) last.set(canonical(entry[0]), entry);
        const kept = [...last.values()];
        return new ErlMap(
            new Keys(kept.map(([key]) => key)),
            kept.map(([, value]) => value),
        );
    }

    /** The keys; values[i] belongs to keys[i]. */
    get keys(): readonly Term[] {
        return this.own.terms;
    }

    /** The number of entries. */
    get size(): number {
        return this.values.length;
    }

    /** The value of a key, or undefined. */
    get(key: Term): Term | undefined {
        return this.at(canonical(key));
    }

    /** @internal The value of the key that has this canonical string, or undefined. */
    at(name: string): Term | undefined {
        return this.values[this.own.find(name) ?? -1];
    }

    /** Returns whether the map has a key. */
    has(key: Term): boolean {
        return this.get(key) !== undefined;
    }

    /** Returns the keys with their values, in the order in which they were written. */
    entries(): IterableIterator<readonly [Term, Term]> {
        return this.keys.map((key, at) => [key, this.values[at]] as const).values();
    }

    /** The same as {@link entries}. */
    [Symbol.iterator](): IterableIterator<readonly [Term, Term]> {
        return this.entries();
    }
}

/** Returns whether a value is a Map, also one of another window or of Node's vm. */
export function isMap(value: unknown): value is ReadonlyMap<Encodable, Encodable> {
    return (value as Map<unknown, unknown> | undefined)?.[Symbol.toStringTag] === "Map";
}
