/**
 * Shapes: the sequences of map keys that were met, as a tree. Maps of one kind come with the
 * same keys in the same order, so a key is recognised by comparing its bytes with those that
 * followed last time, and is neither decoded nor checked for being a duplicate again.
 *
 * The tree is bounded, since who writes the input also chooses the keys: at most {@link MAX_KEYS}
 * keys a map, {@link MAX_CHOICES} keys after the same beginning, and {@link MAX_SHAPES} nodes in
 * all. Maps past that are read key by key.
 */

/** Most keys of a map that has a shape. */
export const MAX_KEYS = 64;
/** Longest key, in bytes, that a shape has. */
export const MAX_KEY_BYTES = 64;
const MAX_CHOICES = 8;
const MAX_SHAPES = 4096;

/** A beginning of a sequence of keys. K is what a view makes of a key, L what it keeps for a whole sequence. */
export class Shape<K, L> {
    /** What the view keeps for maps that have exactly these keys. */
    leaf: L | undefined = undefined;
    private first: Shape<K, L> | undefined = undefined;
    private sibling: Shape<K, L> | undefined = undefined;
    private choices = 0;

    /** The last key as words, filled up with zeros. */
    private readonly words: Int32Array;
    /** The length of the last key, tag included. */
    readonly keyLength: number;

    constructor(readonly keys: readonly K[], key: Uint8Array) {
        this.keyLength = key.length;
        const padded = new Uint8Array(key.length + 4 & ~3);
        padded.set(key);
        const view = new DataView(padded.buffer);
        this.words = Int32Array.from({ length: padded.length / 4 }, (_, at) => view.getInt32(4 * at));
    }

    /** The longer shape whose last key stands at `pos`. */
    next(view: DataView, pos: number): Shape<K, L> | undefined {
        let shape = this.first;
        while (shape !== undefined && !shape.isAt(view, pos)) shape = shape.sibling;
        return shape;
    }

    private isAt(view: DataView, pos: number): boolean {
        const { keyLength, words } = this;
        if (pos + words.length * 4 > view.byteLength) return this.isAtEnd(view, pos);
        const whole = keyLength >> 2;
        for (let i = 0; i < whole; i++) if (words[i] !== view.getInt32(pos + 4 * i)) return false;
        // Of the last word only the bytes that the key has.
        const rest = keyLength & 3;
        return rest === 0 || (words[whole] ^ view.getInt32(pos + 4 * whole)) >>> (32 - 8 * rest) === 0;
    }

    /** The same where the input ends so soon that whole words would reach past it. */
    private isAtEnd(view: DataView, pos: number): boolean {
        if (pos + this.keyLength > view.byteLength) return false;
        for (let i = 0; i < this.keyLength; i++) {
            if (view.getUint8(pos + i) !== (this.words[i >> 2] >>> (24 - 8 * (i & 3)) & 255)) return false;
        }
        return true;
    }

    /** Adds the longer shape whose last key is `key`, written as `bytes`. */
    add(key: K, bytes: Uint8Array): Shape<K, L> {
        const shape = new Shape<K, L>([...this.keys, key], bytes);
        shape.sibling = this.first;
        this.first = shape;
        this.choices++;
        return shape;
    }

    /** Whether one more key may be remembered here. */
    hasRoom(keyLength: number): boolean {
        return this.choices < MAX_CHOICES && keyLength <= MAX_KEY_BYTES;
    }
}

/** All shapes of one decoder. */
export class Shapes<K, L> {
    private readonly roots: (Shape<K, L> | undefined)[] = new Array<undefined>(MAX_KEYS + 1).fill(undefined);
    private count = 0;

    /** The empty beginning of maps with `size` keys, at most {@link MAX_KEYS}. */
    root(size: number): Shape<K, L> {
        return this.roots[size] ??= new Shape<K, L>([], new Uint8Array(0));
    }

    /** Remembers that `key` followed `shape`; undefined when there is no room for it. */
    grow(shape: Shape<K, L>, key: K, bytes: Uint8Array): Shape<K, L> | undefined {
        if (this.count >= MAX_SHAPES || !shape.hasRoom(bytes.length)) return undefined;
        this.count++;
        return shape.add(key, bytes);
    }
}
