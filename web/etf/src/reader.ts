/**
 * What both views of a term share: the frame around a term (version, compression, trailing
 * bytes), the limits, atoms, and map keys recognised by shape.
 */
import { EtfError } from "./error.js";
import { inflate } from "./inflate.js";
import { Input } from "./input.js";
import type { Limits } from "./limits.js";
import { Shape, Shapes } from "./shape.js";
import { Tag } from "./tags.js";

/** A term and how many bytes it took. */
export interface Prefix<T> {
    readonly value: T;
    readonly used: number;
}

/** Reads terms into a view. T is what a term becomes, K what a map key becomes, L what is kept for a shape. */
export abstract class Reader<T, K, L> extends Input {
    /** Elements of all containers so far. */
    protected elements = 0;
    protected depth = 0;
    /** Values that are read but whose container is not made yet; `sp` is its top. */
    protected stack: T[] = [];
    protected sp = 0;
    /** A key that was just read and leads to no shape. */
    protected stray: K | undefined = undefined;
    private readonly shapes = new Shapes<K, L>();

    constructor(protected readonly limits: Limits) {
        super();
    }

    /** Reads the term at `pos`. */
    protected abstract value(): T;

    /** Reads the map key at `pos`, which follows `before`. */
    protected abstract key(before: readonly K[]): K;

    /** Reads the one term that `bytes` holds, or the first of several. */
    read(bytes: Uint8Array): Prefix<T> {
        if (!(bytes instanceof Uint8Array)) throw new TypeError("the input of a decoder is a Uint8Array");
        if (bytes.length > this.limits.maxBytes) {
            throw new EtfError("limit", `the input has ${bytes.length} bytes, more than the ${this.limits.maxBytes} allowed`, 0);
        }
        this.load(bytes);
        this.elements = this.depth = this.sp = 0;
        try {
            if (this.end > 0 && this.buf[0] !== Tag.Version) this.fail("version", "a term starts with the byte 131");
            if (this.end < 2) this.truncated();
            this.pos = 1;
            if (this.buf[1] === Tag.Compressed) return this.compressed(bytes);
            const value = this.value();
            return { value, used: this.pos };
        } catch (error) {
            throw this.explained(error);
        } finally {
            this.unload();
            if (this.stack.length > 1024) this.stack = [];
            else this.stack.fill(undefined as T);
        }
    }

    private compressed(bytes: Uint8Array): Prefix<T> {
        this.need(2, 4);
        const size = this.view.getUint32(2);
        if (size > this.limits.maxInflatedBytes) {
            this.fail("limit", `a compressed term of ${size} bytes is more than the ${this.limits.maxInflatedBytes} allowed`, 2);
        }
        const inflated = inflate(bytes, 6, size);
        this.load(inflated.bytes);
        const value = this.value();
        if (this.pos < this.end) this.fail("trailing", "bytes follow the compressed term");
        return { value, used: 6 + inflated.used };
    }

    /** What the engine throws on reading past the end, or when the stack ends, in our own words. */
    private explained(error: unknown): unknown {
        if (!(error instanceof Error) || error instanceof EtfError) return error;
        if (/stack|recursion/i.test(error.message)) {
            return new EtfError("limit", "the term is nested deeper than the JavaScript stack has room for", this.pos);
        }
        return error instanceof RangeError ? new EtfError("truncated", "the input ends inside a term", this.end) : error;
    }

    /** Enters a container of `count` elements, which need at least as many bytes. */
    protected enter(count: number): void {
        if (count > this.end - this.pos) this.truncated();
        this.count(count);
        if (++this.depth > this.limits.maxDepth) {
            this.fail("limit", `nested deeper than the ${this.limits.maxDepth} levels allowed`);
        }
    }

    /** Counts elements against their limit. */
    protected count(elements: number): void {
        this.elements += elements;
        if (this.elements > this.limits.maxElements) {
            this.fail("limit", `more than the ${this.limits.maxElements} elements allowed`);
        }
    }

    /** The root of the shapes of maps with `size` keys. */
    protected shapeRoot(size: number): Shape<K, L> {
        return this.shapes.root(size);
    }

    /**
     * Reads one map key: the shape that it leads to, or undefined where shapes end. The key is
     * in `stray` then; it must not be read again, or keys in keys would be read 2^depth times.
     */
    protected step(shape: Shape<K, L>): Shape<K, L> | undefined {
        const known = shape.next(this.view, this.pos);
        if (known !== undefined) {
            this.pos += known.keyLength;
            return known;
        }
        const start = this.pos;
        const key = this.key(shape.keys);
        const grown = this.shapes.grow(shape, key, this.buf.subarray(start, this.pos));
        if (grown === undefined) this.stray = key;
        return grown;
    }

    /** The name of the atom at `pos`, of any encoding. */
    protected atomName(): string {
        const pos = this.pos;
        let name: string;
        switch (this.buf[pos]) {
            case Tag.SmallAtomUtf8: {
                this.need(pos, 2);
                const length = this.buf[pos + 1];
                this.pos = pos + 2 + length;
                // 255 bytes are at most 255 characters.
                return this.text(pos + 2, length);
            }
            case Tag.AtomUtf8: {
                const length = this.view.getUint16(pos + 1);
                this.pos = pos + 3 + length;
                name = this.text(pos + 3, length);
                break;
            }
            case Tag.SmallAtom: {
                this.need(pos, 2);
                const length = this.buf[pos + 1];
                this.pos = pos + 2 + length;
                return this.latin1(pos + 2, length);
            }
            case Tag.Atom: {
                const length = this.view.getUint16(pos + 1);
                this.pos = pos + 3 + length;
                name = this.latin1(pos + 3, length);
                break;
            }
            default:
                this.need(pos, 1);
                this.fail("tag", "an atom is wanted here");
        }
        if (name.length > 255 && [...name].length > 255) this.fail("value", "an atom has at most 255 characters", pos);
        return name;
    }

    /** What stands before the values of the native record at `pos`. */
    protected recordHead(): { module: string; name: string; exported: boolean; fields: string[] } {
        this.pos++;
        this.need(this.pos, 5);
        const count = this.view.getUint32(this.pos);
        const flags = this.buf[this.pos + 4];
        // 1 means exported: the format's documentation has both meanings for 1, external.c decides.
        if (flags > 1) this.fail("value", "a record's flags are 0 or 1", this.pos + 4);
        this.pos += 5;
        const module = this.atomName();
        const name = this.atomName();
        if (2 * count > this.end - this.pos) this.truncated();
        const fields: string[] = [];
        const seen = new Set<string>();
        while (fields.length < count) {
            const start = this.pos;
            const field = this.atomName();
            fields.push(field);
            if (seen.add(field).size < fields.length) this.fail("duplicate", `a record has the field ${field} twice`, start);
        }
        return { module, name, exported: flags === 1, fields };
    }
}
