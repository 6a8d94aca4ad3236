/**
 * Reads terms, every tag, once for both views: what terms become is said by those. The frame around
 * a term is in reader.ts.
 */
import { narrowed } from "./input.js";
import { Reader } from "./reader.js";
import type { Shape } from "./shape.js";
import { Tag } from "./tags.js";
import {
    Atom,
    BitBinary,
    ErlRecord,
    ExportFun,
    Fun,
    ImproperList,
    LocalTerm,
    OldFun,
    Pid,
    Port,
    Reference,
} from "./term.js";

/**
 * Arrays of no more elements than this are made in their full size, others grow: every level of
 * nesting may promise as many elements as there are bytes, and keep none of the promises.
 */
const PRESIZED = 64;

/** What stands before the values of a native record. */
export type RecordHead = Omit<ErlRecord, "fields" | "values" | "get"> & { fields: Atom[] };

/** A reader of terms. See {@link Reader} for T, K and L. */
export abstract class TermReader<T, K, L> extends Reader<T, K, L> {
    protected readonly known = new Map<string, Atom>();

    /** What the atom of this name at `pos` becomes. */
    protected abstract atom(name: string, pos: number): T;

    /** What a float becomes. */
    protected abstract float(value: number): T;

    /** What the binary of `length` bytes at `start` becomes. */
    protected abstract binary(start: number, length: number): T;

    /** What the tuple becomes whose `count` elements stand at `pos`. */
    protected abstract tuple(count: number): T;

    /** What a native record becomes whose values stand at `pos`. */
    protected abstract record(head: RecordHead): T;

    /** What a map becomes that ended in this shape; its values are on the stack from `base` on. */
    protected abstract shaped(shape: Shape<K, L>, base: number): T;

    /**
     * What a map of `size` keys becomes that has no shape: some are read, their values are on the
     * stack from `sp` on, and the others stand at `pos`.
     */
    protected abstract unshaped(keys: readonly K[], size: number): T;

    /** Reads the term at `pos`. */
    protected value(): T {
        const { buf, pos, view } = this;
        switch (buf[pos]) {
            case Tag.Binary: {
                const length = view.getUint32(pos + 1);
                this.pos = pos + 5 + length;
                return this.binary(pos + 5, length);
            }
            case Tag.SmallInteger:
                this.need(pos, 2);
                this.pos = pos + 2;
                return buf[pos + 1] as T;
            case Tag.Integer:
                this.pos = pos + 5;
                return view.getInt32(pos + 1) as T;
            case Tag.NewFloat: {
                const value = view.getFloat64(pos + 1);
                if (value - value !== 0) this.fail("value", "a float must be finite");
                this.pos = pos + 9;
                return this.float(value);
            }
            case Tag.SmallAtomUtf8:
            case Tag.AtomUtf8:
            case Tag.SmallAtom:
            case Tag.Atom:
                return this.atom(this.atomName(), pos);
            case Tag.Nil:
                this.pos = pos + 1;
                return [] as T;
            case Tag.List:
                this.pos = pos + 5;
                return this.items(view.getUint32(pos + 1));
            case Tag.Map:
                this.pos = pos + 5;
                return this.map(view.getUint32(pos + 1));
            case Tag.SmallTuple:
                this.need(pos, 2);
                this.pos = pos + 2;
                return this.tuple(buf[pos + 1]);
            case Tag.LargeTuple:
                this.pos = pos + 5;
                return this.tuple(view.getUint32(pos + 1));
            case Tag.String:
                return this.charlist();
            case Tag.SmallBig:
                this.need(pos, 3);
                return this.big(pos + 2, buf[pos + 1]) as T;
            default:
                return this.rare() as T;
        }
    }

    /** Reads a map of `size` keys. */
    protected map(size: number): T {
        this.enter(2 * size);
        const { stack, sp: base } = this;
        let shape = this.root(size);
        let keys: readonly K[] = [];
        for (let i = 0; i < size && shape !== undefined; i++) {
            // A key may itself be a map, which must not overwrite the values so far.
            this.sp = base + i;
            const next = this.step(shape);
            if (next === undefined) keys = [...shape.keys, this.stray!];
            const value = this.value();
            stack[base + i] = value;
            shape = next;
        }
        this.sp = base;
        const map = shape === undefined ? this.unshaped(keys, size) : this.shaped(shape, base);
        this.depth--;
        return map;
    }

    /** The atom of this name, the same object each time as far as the limit goes. */
    protected named(name: string): Atom {
        let atom = this.known.get(name);
        if (atom === undefined) {
            atom = new Atom(name);
            if (this.known.size < this.limits.maxAtoms) this.known.set(name, atom);
        }
        return atom;
    }

    /** Reads `count` terms into an array. */
    protected sequence(count: number): T[] {
        this.enter(count);
        const made = count > PRESIZED ? [] : new Array<T>(count);
        for (let i = 0; i < count; i++) made[i] = this.value();
        this.depth--;
        return made;
    }

    /** Reads a list of `count` items before its tail. */
    protected items(count: number): T {
        return this.list(this.sequence(count));
    }

    /**
     * Reads what follows the items of a list. Lists that are each other's tails become one, as
     * they are in Erlang, in a loop: they may be many.
     */
    protected list(items: T[]): T {
        while (this.buf[this.pos] === Tag.List) {
            this.pos++;
            for (const item of this.sequence(this.u32())) items.push(item);
        }
        const tag = this.buf[this.pos];
        if (tag === Tag.Nil) {
            this.pos++;
            return items as T;
        }
        if (tag === Tag.String) {
            // Bytes are numbers in every view.
            for (const byte of this.byteList()) items.push(byte as T);
            return items as T;
        }
        const tail = this.value();
        return items.length === 0 ? tail : (new ImproperList(items, tail) as T);
    }

    /** What the string at `pos` becomes. */
    protected charlist(): T {
        return this.byteList() as T;
    }

    /** The list of bytes at `pos`, which Erlang wrote as a string. */
    private byteList(): number[] {
        const start = this.pos + 3;
        const length = this.view.getUint16(this.pos + 1);
        this.need(start, length);
        this.pos = start + length;
        const made = new Array<number>(length);
        for (let i = 0; i < length; i++) made[i] = this.buf[start + i];
        return made;
    }

    /** Reads a term whose tag few messages have. */
    private rare(): unknown {
        const start = this.pos++;
        const tag = this.buf[start];
        switch (tag) {
            case Tag.LargeBig:
                return this.big(start + 5, this.u32());
            case Tag.BitBinary:
                return this.bits();
            case Tag.Float:
                return this.float(this.textFloat());
            case Tag.NewPid:
            case Tag.Pid:
                return this.pid(tag);
            case Tag.V4Port:
            case Tag.NewPort:
            case Tag.Port: {
                const node = this.atomTerm();
                const wide = tag === Tag.V4Port;
                const start = this.pos;
                this.pos += wide ? 8 : 4;
                const id = wide
                    ? narrowed(this.view.getBigUint64(start))
                    : this.view.getUint32(start);
                return new Port(node, id, this.creation(tag === Tag.Port), wide);
            }
            case Tag.NewerReference:
            case Tag.NewReference:
            case Tag.Reference:
                return this.reference(tag);
            case Tag.Export:
                return new ExportFun(this.atomTerm(), this.atomTerm(), this.integer());
            case Tag.NewFun: {
                // The size is skipped, as the VM does: some releases wrote it too large.
                this.pos += 4;
                const arity = this.u8();
                this.need(this.pos, 16);
                const uniq = this.buf.slice(this.pos, (this.pos += 16));
                const index = this.u32();
                const count = this.u32();
                return new Fun(
                    this.atomTerm(),
                    arity,
                    uniq,
                    index,
                    this.integer(),
                    this.integer(),
                    this.creator(),
                    this.sequence(count),
                );
            }
            case Tag.Fun: {
                const count = this.u32();
                const pid = this.creator();
                return new OldFun(
                    this.atomTerm(),
                    this.integer(),
                    this.integer(),
                    pid,
                    this.sequence(count),
                );
            }
            case Tag.Record:
                return this.record(this.recordHead());
            case Tag.Local:
                // It stands first, after the version (which an inflated term has not).
                if (start > 1) this.fail("tag", "a local term stands alone", start);
                this.pos = this.end;
                return new LocalTerm(this.buf.slice(start + 1));
            case undefined:
                return this.truncated();
            default:
                return this.fail("tag", `no term starts with ${tag}`, start);
        }
    }

    /** Ends with an error at a field that follows a rare tag. */
    private forbidden(at: number): never {
        this.fail("value", "a field holds what its tag forbids", at);
    }

    protected atomTerm(): Atom {
        return this.named(this.atomName());
    }

    private u8(): number {
        this.need(this.pos, 1);
        return this.buf[this.pos++];
    }

    private u32(): number {
        const value = this.view.getUint32(this.pos);
        this.pos += 4;
        return value;
    }

    /** An integer, small enough to be a number, as it stands inside a fun. */
    private integer(): number {
        const start = this.pos;
        this.need(start, 1);
        const tag = this.buf[start];
        const value =
            tag === Tag.SmallInteger || tag === Tag.Integer || tag === Tag.SmallBig
                ? this.value()
                : -1;
        if (typeof value !== "number" || value < 0) {
            this.forbidden(start);
        }
        return value;
    }

    private bits(): unknown {
        const length = this.u32();
        const bits = this.u8();
        const start = this.pos;
        if (length === 0 || bits < 1 || bits > 8) {
            this.forbidden(start - 6);
        }
        this.need(start, length);
        this.pos += length;
        if (bits === 8) return this.binary(start, length);
        const bytes = this.buf.slice(start, this.pos);
        bytes[length - 1] &= 0xff << (8 - bits);
        return new BitBinary(bytes, bits);
    }

    private textFloat(): number {
        this.need(this.pos, 31);
        const text = String.fromCharCode(...this.buf.subarray(this.pos, this.pos + 31));
        const digits = /^ *([-+]?\d+\.\d+(?:[eE][-+]?\d+)?)\0*$/.exec(text)?.[1];
        const value = Number(digits);
        if (!Number.isFinite(value)) this.forbidden(this.pos);
        this.pos += 31;
        return value;
    }

    /** A process identifier whose tag was just read. */
    private pid(tag: number): Pid {
        return new Pid(this.atomTerm(), this.u32(), this.u32(), this.creation(tag === Tag.Pid));
    }

    /** The process that made a fun. */
    private creator(): Pid {
        const tag = this.u8();
        if (tag !== Tag.NewPid && tag !== Tag.Pid) {
            this.fail("tag", "a fun needs a pid here", this.pos - 1);
        }
        return this.pid(tag);
    }

    /** Old tags have a creation of one byte, of which only two bits were ever used. */
    private creation(small: boolean): number {
        if (!small) return this.u32();
        const creation = this.u8();
        if (creation > 3) this.forbidden(this.pos - 1);
        return creation;
    }

    /** The oldest tag has its one word before the creation, the others theirs behind. */
    private reference(tag: Tag.NewerReference | Tag.NewReference | Tag.Reference): Reference {
        const words: number[] = [];
        let count = 1;
        if (tag !== Tag.Reference) {
            count = this.view.getUint16(this.pos);
            if (count < 1 || count > 5) this.forbidden(this.pos);
            this.pos += 2;
        }
        const node = this.atomTerm();
        if (tag === Tag.Reference) words.push(this.u32());
        const creation = this.creation(tag !== Tag.NewerReference);
        while (words.length < count) words.push(this.u32());
        return new Reference(node, creation, words);
    }

    private recordHead(): RecordHead {
        const count = this.u32();
        const flags = this.u8();
        // 1 means exported: the format's documentation has both meanings, external.c decides.
        if (flags > 1) this.forbidden(this.pos - 1);
        const module = this.atomTerm();
        const name = this.atomTerm();
        if (2 * count > this.end - this.pos) this.truncated();
        const seen = new Set<string>();
        const fields: Atom[] = [];
        while (fields.length < count) {
            const start = this.pos;
            const field = this.atomTerm();
            fields.push(field);
            if (seen.add(field.name).size < fields.length) {
                this.twice(start);
            }
        }
        return { module, name, exported: flags === 1, fields };
    }
}
