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
    /** The last key that led to no known shape. */
    protected stray: K | undefined;
    /** The empty beginnings of maps, by the number of their keys, where such maps have a shape. */
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

    /** Reads the map key at `pos`, which follows `before` and is none of them. */
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
            // What the engine throws when the stack ends, past the end of the input, or where it
            // can hold no more. The longest field that is read at once is a float with its tag.
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

    /** Enters a container of `count` elements, which need at least as many bytes. */
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
     * Counts the bytes of the key that ends here as elements where it has more than `most`: the
     * limit on these bounds the work of comparing it.
     */
    protected longKey(start: number, most: number): void {
        const length = this.pos - start;
        if (length > most) this.count(length);
    }

    /** Ends with the error of a limit that was passed. */
    protected over(limit: keyof Limits, at = this.pos): never {
        throw overLimit(limit, this.limits, at);
    }

    /** Ends with the error of what stands in a term at `at`. */
    protected forbidden(at: number): never {
        this.fail("value", "the tag forbids this value", at);
    }

    /** Ends with the error of a key that stands at `at` for the second time. */
    protected twice(at: number): never {
        this.fail("duplicate", "the key equals a key before it", at);
    }

    /**
     * Reads one map key. The result is the shape that it leads to, or undefined where shapes end.
     * Then the key is in `stray`. The caller must not read it again, or keys in keys would be read
     * 2^depth times.
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

    /** Gives the atom of this name, the same object each time within the limit. */
    protected named(name: string): Atom {
        let atom = this.known.get(name);
        if (!atom) {
            atom = new Atom(alone(name));
            if (this.known.size < this.limits.maxAtoms) this.known.set(atom.name, atom);
        }
        return atom;
    }

    /** Tells whether an integer of no more than 255 bytes stands at `pos`. */
    protected startsInteger(): boolean {
        const tag = this.view.getUint8(this.pos);
        return tag === Tag.SmallInteger || tag === Tag.Integer || tag === Tag.SmallBig;
    }

    /** Tells whether an atom stands at `pos`. */
    protected startsAtom(): boolean {
        const tag = this.view.getUint8(this.pos);
        return (
            tag === Tag.SmallAtomUtf8 ||
            tag === Tag.AtomUtf8 ||
            tag === Tag.SmallAtom ||
            tag === Tag.Atom
        );
    }

    /** Gives the name of the atom at `pos`, in any encoding. */
    protected atomName(): string {
        const { pos, view } = this;
        if (!this.startsAtom()) this.fail("tag", "expected an atom");
        const tag = view.getUint8(pos);
        // Both tags of a short name are odd, both of UTF-8 are above the others.
        const isShort = tag % 2 === 1;
        const length = isShort ? view.getUint8(pos + 1) : view.getUint16(pos + 1);
        const start = pos + (isShort ? 2 : 3);
        this.pos = start + length;
        const name = this.text(start, length, tag > Tag.SmallAtom ? undefined : latin1Text);
        // No atom has more characters.
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
