/**
 * Shapes: the sequences of map keys that were met, as a tree. Maps of one kind come with the
 * same keys in the same order, so a key is recognised by comparing its bytes with those that
 * followed last time, and is neither decoded nor checked for being a duplicate again.
 *
 * The tree is bounded, since who writes the input also chooses the keys: at most {@link MAX_KEYS}
 * keys a map, {@link MAX_CHOICES} keys after the same beginning, and {@link MAX_SHAPES} nodes in
 * all. Maps past that are read key by key.
 */

import { viewOf } from "./bytes.js";

/** The largest number of keys in a map with a shape. */
export const MAX_KEYS = 64;
/** The longest key of a shape, in bytes. */
export const MAX_KEY_BYTES = 64;
/** The largest number of shapes in a decoder. */
export const MAX_SHAPES = 4096;
const MAX_CHOICES = 8;

/**
 * Gives the part of a key to keep. Text may be a part of the text around it, and would keep that in
 * memory. So the function copies text.
 */
export function alone<K>(key: K): K {
    return typeof key === "string" ? (JSON.parse(JSON.stringify(key)) as typeof key) : key;
}

/**
 * A beginning of a sequence of keys. K is what a view makes of a key, L what it keeps for a whole
 * sequence.
 */
export class Shape<K, L> {
    /** The view's data for maps with exactly these keys. */
    leaf: L | undefined;
    /** The number of maps with exactly these keys so far. */
    uses: number;
    /** The number of new key orders for a view that starts here. */
    newOrders: number;
    /** The position of a single key in the map that the view reads, where keys come in any order. */
    position: number;
    /** The part of a single key in the hash of a set of keys. */
    hash: number;
    private first: Shape<K, L> | undefined;
    private sibling: Shape<K, L> | undefined;
    private choices: number;

    /** The last key as bytes, including the tag, and its whole words. */
    readonly key: Uint8Array;
    private readonly words: Int32Array;

    constructor(
        readonly keys: readonly K[],
        key: ArrayLike<number>,
    ) {
        // Every shape has all fields from the start, in one order, because engines are faster then.
        this.leaf = this.first = this.sibling = undefined;
        this.uses = this.newOrders = this.position = this.hash = this.choices = 0;
        // (The `slice` of Node's Buffer copies nothing.)
        this.key = new Uint8Array(key);
        const view = viewOf(this.key);
        this.words = Int32Array.from({ length: key.length >> 2 }, (_, at) => view.getInt32(4 * at));
    }

    /** Finds the longer shape whose last key stands at `pos`. */
    next(view: DataView, pos: number): Shape<K, L> | undefined {
        let shape = this.first;
        while (shape && !shape.isAt(view, pos)) shape = shape.sibling;
        return shape;
    }

    private isAt(view: DataView, pos: number): boolean {
        const { key, words } = this;
        if (pos + key.length > view.byteLength) return false;
        for (let i = 0; i < words.length; i++) {
            if (words[i] !== view.getInt32(pos + 4 * i)) return false;
        }
        for (let i = 4 * words.length; i < key.length; i++) {
            if (key[i] !== view.getUint8(pos + i)) return false;
        }
        return true;
    }

    /**
     * Makes a longer shape whose last key is `key`, written as `bytes`. The result is undefined
     * where shapes end.
     */
    grow(key: K, bytes: Uint8Array): Shape<K, L> | undefined {
        if (this.choices >= MAX_CHOICES || bytes.length > MAX_KEY_BYTES) return undefined;
        const shape = new Shape<K, L>([...this.keys, alone(key)], bytes);
        shape.sibling = this.first;
        this.first = shape;
        this.choices++;
        return shape;
    }
}
