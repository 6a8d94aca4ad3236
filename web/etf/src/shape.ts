/**
 * Remembers the sequences of map keys that a decoder has read, as a tree of shapes. Maps of one
 * kind come with the same keys in the same order. So the reader compares the bytes of a key with
 * those of the key that came next in an earlier map. If they are equal, it does not decode the key
 * again, and does not check again for duplicates.
 *
 * The sender chooses the keys, so the tree has limits: at most {@link MAX_KEYS} keys in a map,
 * {@link MAX_CHOICES} keys after the same beginning, and {@link MAX_SHAPES} nodes in all. The
 * reader decodes each key of the maps beyond these limits.
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
 * Returns the key in a form to keep. Text may be a part of a longer text, and would keep that in
 * memory, so the function copies text.
 */
export function alone<K>(key: K): K {
    return typeof key === "string" ? (JSON.parse(JSON.stringify(key)) as typeof key) : key;
}

/**
 * The beginning of a sequence of keys. K is the value of a key in a view, and L is the data that
 * the view keeps for a whole sequence.
 */
export class Shape<K, L> {
    /** The view's data for maps with exactly these keys. */
    leaf: L | undefined;
    /** The number of maps with exactly these keys so far. */
    uses: number;
    /** The number of new key orders that start here, for a view that counts them. */
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

    /** Finds the longer shape whose last key is at `pos`. */
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
     * Makes a longer shape whose last key is `key`, written as `bytes`. Returns undefined if the
     * limits allow no further shape.
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
