/**
 * Reads the parts that both views of a term share: the frame around a term (version, compression,
 * trailing bytes), the limits, atoms, and map keys by shape.
 */
import { isOverflow, overLimit } from "./error.js";
import { Input } from "./input.js";
import type { ReaderOptions } from "./decode.js";
import { checkedLimits, type Limits } from "./limits.js";
import { alone, MAX_KEYS, MAX_SHAPES, Shape } from "./shape.js";
import { Atom } from "./term.js";
import { Tag } from "./tags.js";
import { checkBytes, latin1Text } from "./utf8.js";

/** A term and the number of its bytes. */
export interface Prefix<T> {
    readonly value: T;
    readonly used: number;
}

/**
 * Inflates the zlib stream that starts at `start` of the input. `bytes` are exactly `size` bytes
 * (anything else is an {@link EtfError}), and `used` is the number of bytes in the stream. The
 * decoder throws its errors unchanged. So if your function uses a platform's inflate, it must turn
 * the platform's errors into an EtfError of code `inflate`.
 */
export type Inflate = (
    input: Uint8Array,
    start: number,
    size: number,
) => {
    bytes: Uint8Array;
    used: number;
};

/**
 * Reads terms into a view. T is the value of a term, K the value of a map key, and L the data that
 * a shape keeps.
 */
export abstract class Reader<T, K, L> extends Input {
    /** The number of elements in all containers so far. */
    protected elements!: number;
    protected depth!: number;
    /** The number of keys around the term at `pos` that a shape may keep. */
    protected inKeys!: number;
    /** Values whose container is not complete yet. `sp` is the top of this stack. */
    protected stack: T[] = [];
    protected sp!: number;
    protected readonly known = new Map<string, Atom>();
    /** The last key without a known shape. */
    protected stray: K | undefined;
    /** The shapes that maps start with, by the number of keys, if maps of that size have shapes. */
    protected readonly roots: readonly (Shape<K, L> | undefined)[] = Array.from(
        { length: MAX_KEYS + 1 },
        () => new Shape([], []),
    );
    private shapes = 0;

    protected readonly limits: Limits;

    constructor(protected readonly options: ReaderOptions) {
        super();
        this.limits = checkedLimits(options.limits);
    }

    /** Reads the term at `pos`. */
    protected abstract value(): T;

    /** Reads the map key at `pos`. It follows the keys `before` and must differ from them. */
    protected abstract key(before: readonly K[]): K;

    /** Reads the one term that `bytes` holds, or the first of several. */
    read(bytes: Uint8Array): Prefix<T> {
        checkBytes(bytes, "the input");
        if (bytes.length > this.limits.maxBytes) this.over("maxBytes", 0);
        this.load(bytes);
        this.elements = this.depth = this.inKeys = this.sp = 0;
        // The number of bytes of the compressed term, -1 during inflating.
        let used = 0;
        try {
            if (this.u8() !== Tag.Version) this.fail("version", "a term starts with 131", 0);
            if (this.buf[1] === Tag.Compressed) {
                this.pos = 2;
                const size = this.u32();
                if (size > this.limits.maxInflatedBytes) this.over("maxInflatedBytes", 2);
                const { inflate } = this.options;
                if (!inflate) this.fail("inflate", "the decoder has no inflate", 1);
                used = -1;
                const inflated = inflate(bytes, 6, size);
                this.load(inflated.bytes);
                used = 6 + inflated.used;
            }
            const value = this.value();
            if (used > 0 && this.pos < this.end) this.fail("trailing", "bytes follow the term");
            return { value, used: used || this.pos };
        } catch (error) {
            // The engine throws errors of its own in three cases: the stack is full, a read is past
            // the end of the input, or a value is too large. The longest field that one read takes
            // is a float with its tag.
            if (isOverflow(error)) this.fail("limit", "too deep for the stack");
            if (error instanceof RangeError && used >= 0) {
                if (this.pos > this.end - 9) this.truncated();
                this.fail("limit", "too large for the engine");
            }
            throw error;
        } finally {
            this.unload();
            this.stray = undefined;
            if (this.stack.length > 1024) this.stack = [];
            else this.stack.fill(undefined as T);
        }
    }

    /** Enters a container of `count` elements. They need at least `count` bytes. */
    protected enter(count: number): void {
        if (count > this.end - this.pos) this.truncated();
        this.count(count);
        if (++this.depth > this.limits.maxDepth) this.over("maxDepth");
    }

    /** Counts elements towards their limit. */
    protected count(elements: number): void {
        if ((this.elements += elements) > this.limits.maxElements) this.over("maxElements");
    }

    /**
     * Counts the bytes of the key that ends here as elements, if it has more than `most` bytes. So
     * the limit on elements also limits the work of comparing keys.
     */
    protected longKey(start: number, most: number): void {
        const length = this.pos - start;
        if (length > most) this.count(length);
    }

    /** Throws the error of an exceeded limit. */
    protected over(limit: keyof Limits, at = this.pos): never {
        throw overLimit(limit, this.limits, at);
    }

    /** Throws the error of an invalid value at `at`. */
    protected forbidden(at: number): never {
        this.fail("value", "the tag forbids this value", at);
    }

    /** Throws the error of a repeated key at `at`. */
    protected twice(at: number): never {
        this.fail("duplicate", "the key equals a key before it", at);
    }

    /**
     * Reads one map key. Returns the next shape, or undefined if there is none. In that case the
     * key is in `stray`. The caller must not read the key again: with keys inside keys, the code
     * would otherwise read the innermost one 2^depth times.
     */
    protected step(shape: Shape<K, L>): Shape<K, L> | undefined {
        const known = shape.next(this.view, this.pos);
        if (known) {
            this.pos += known.key.length;
            return known;
        }
        const start = this.pos;
        this.stray = this.key(shape.keys);
        if (this.shapes >= MAX_SHAPES) return undefined;
        const grown = shape.grow(this.stray, this.buf.subarray(start, this.pos));
        if (grown) this.shapes++;
        return grown;
    }

    /** Returns the atom of this name. Within the limit it is the same object each time. */
    protected named(name: string): Atom {
        let atom = this.known.get(name);
        if (!atom) {
            atom = new Atom(alone(name));
            if (this.known.size < this.limits.maxAtoms) this.known.set(atom.name, atom);
        }
        return atom;
    }

    /** Returns whether there is an integer of no more than 255 bytes at `pos`. */
    protected startsInteger(): boolean {
        const tag = this.view.getUint8(this.pos);
        return tag === Tag.SmallInteger || tag === Tag.Integer || tag === Tag.SmallBig;
    }

    /** Returns whether there is an atom at `pos`. */
    protected startsAtom(): boolean {
        const tag = this.view.getUint8(this.pos);
        return (
            tag === Tag.SmallAtomUtf8 ||
            tag === Tag.AtomUtf8 ||
            tag === Tag.SmallAtom ||
            tag === Tag.Atom
        );
    }

    /** Returns the name of the atom at `pos`, in any encoding. */
    protected atomName(): string {
        const { pos, view } = this;
        if (!this.startsAtom()) this.fail("tag", "expected an atom");
        const tag = view.getUint8(pos);
        // Both tags for short names are odd. Both tags for UTF-8 are larger than the others.
        const isShort = tag % 2 === 1;
        const length = isShort ? view.getUint8(pos + 1) : view.getUint16(pos + 1);
        const start = pos + (isShort ? 2 : 3);
        this.pos = start + length;
        const name = this.text(start, length, tag > Tag.SmallAtom ? undefined : latin1Text);
        // An atom has at most 255 characters.
        if (length > 255 && [...name].length > 255) this.forbidden(pos);
        return name;
    }

    /** Reads the integer with its sign at `at`, and `length` bytes of magnitude after it. */
    protected big(at: number, length: number): number | bigint {
        if (length > this.limits.maxBigBytes) this.over("maxBigBytes");
        this.pos = at + 1 + length;
        return this.magnitude(at + 1, length, this.buf[at] !== 0);
    }
}
