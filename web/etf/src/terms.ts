/**
 * Reads the terms that both views treat in the same way: lists, and rare tags. plain.ts and
 * model.ts have their own methods for the common tags. If both views shared these methods, the
 * engine could optimize them for neither, in a page that uses both (bench/etf/README.md).
 */
import { narrowed } from "./integer.js";
import { Reader } from "./reader.js";
import { Tag } from "./tags.js";
import {
    Atom,
    BitBinary,
    ExportFun,
    Fun,
    ImproperList,
    LocalTerm,
    OldFun,
    Pid,
    Port,
    Reference,
} from "./term.js";
import { latin1Text } from "./utf8.js";

/**
 * The largest array that the reader makes in its full size. Larger arrays grow, because every level
 * of nesting may announce as many elements as there are bytes, and contain none of them.
 */
const PRESIZED = 64;

/** Reads terms. See {@link Reader} for T, K and L. */
export abstract class TermReader<T, K, L> extends Reader<T, K, L> {
    /** Returns the value of a float. */
    protected abstract float(value: number): T;

    /** Returns the value of the binary of `length` bytes at `start`. */
    protected abstract binary(start: number, length: number): T;

    /** Returns the value of a native record with these fields. Their values are at `pos`. */
    protected abstract record(
        fields: ReadonlyMap<string, Atom>,
        module: Atom,
        name: Atom,
        exported: boolean,
    ): T;

    /** Reads `count` terms into an array. */
    protected sequence(count: number): T[] {
        this.enter(count);
        const made = count > PRESIZED ? [] : new Array<T>(count);
        for (let i = 0; i < count; i++) made[i] = this.value();
        this.depth--;
        return made;
    }

    /**
     * Reads the tail of a list. If the tail is a list, both become one list, as in Erlang. The code
     * uses a loop, because that tail may have a list as its tail too, and so on.
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

    /** Reads the list of bytes at `pos`, which Erlang wrote as a string. */
    protected byteList(): number[] {
        const start = this.pos + 3;
        const length = this.view.getUint16(this.pos + 1);
        this.need(start, length);
        this.count(length);
        this.pos = start + length;
        const made = new Array<number>(length);
        for (let i = 0; i < length; i++) made[i] = this.buf[start + i];
        return made;
    }

    /** Reads the term at `pos`, whose tag a view does not handle itself. */
    protected rare(): unknown {
        const start = this.pos;
        const tag = this.u8();
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
                const id = wide
                    ? narrowed(this.view.getBigUint64((this.pos += 8) - 8))
                    : this.u32();
                return new Port(node, id, this.creation(tag === Tag.Port), wide);
            }
            case Tag.NewerReference:
            case Tag.NewReference:
            case Tag.Reference:
                return this.reference(tag);
            case Tag.Export:
                return new ExportFun(this.atomTerm(), this.atomTerm(), this.integer(255));
            case Tag.NewFun: {
                // The code skips the size, as the VM does, because some releases wrote it too
                // large.
                this.pos += 4;
                const arity = this.u8();
                const uniq = new Uint8Array(this.buf.subarray(this.pos, (this.pos += 16)));
                const index = this.u32();
                const count = this.u32();
                if (count >>> 8) this.forbidden(this.pos - 4);
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
                return this.nativeRecord();
            case Tag.Local:
                // A local term must come first, after the version (an inflated term has no
                // version).
                if (start > 1) this.fail("tag", "a local term must be the whole value", start);
                this.pos = this.end;
                return new LocalTerm(new Uint8Array(this.buf.subarray(start + 1)));
            default:
                return this.fail("tag", `no term starts with ${tag}`, start);
        }
    }

    protected atomTerm(): Atom {
        return this.named(this.atomName());
    }

    /**
     * Reads an integer inside a fun, of at most 32 bits. (The VM accepts larger integers and
     * changes their values.)
     */
    private integer(bits = -1): number {
        const start = this.pos;
        const isInteger = this.startsInteger() || this.buf[start] === Tag.LargeBig;
        const value: unknown = isInteger ? this.value() : 0n;
        const kept = Number(value) & bits;
        if (value !== kept) this.forbidden(start);
        return kept;
    }

    private bits(): unknown {
        const length = this.u32();
        const bits = this.u8();
        const start = this.pos;
        if (length * bits === 0 || bits > 8) {
            this.forbidden(start - 6);
        }
        this.need(start, length);
        this.pos += length;
        if (bits === 8) return this.binary(start, length);
        // A typed array takes this much memory.
        this.count(16);
        const bytes = new Uint8Array(this.buf.subarray(start, this.pos));
        bytes[length - 1] &= 0xff << (8 - bits);
        return new BitBinary(bytes, bits);
    }

    /** Reads a float as text. The text ends at the first zero, as in the VM. */
    private textFloat(): number {
        const text = this.text(this.pos, 31, latin1Text);
        const digits = /^([-+]?\d+\.\d+(e[-+]?\d+)?)\0/i.exec(text)?.[1];
        const value = Number(digits);
        if (value - value !== 0) this.forbidden(this.pos);
        this.pos += 31;
        return value;
    }

    /** Reads a process identifier after its tag. */
    private pid(tag: number): Pid {
        return new Pid(this.atomTerm(), this.u32(), this.u32(), this.creation(tag === Tag.Pid));
    }

    /** Reads the process that made a fun. */
    private creator(): Pid {
        const tag = this.u8();
        if (tag !== Tag.NewPid && tag !== Tag.Pid) this.forbidden(this.pos - 1);
        return this.pid(tag);
    }

    /** Old tags have a creation of one byte. Only two bits of it were ever in use. */
    private creation(small: boolean): number {
        if (!small) return this.u32();
        const creation = this.u8();
        if (creation > 3) this.forbidden(this.pos - 1);
        return creation;
    }

    /**
     * Reads a reference after its tag. The oldest tag has its one word before the creation; the
     * others have their words after it.
     */
    private reference(tag: Tag.NewerReference | Tag.NewReference | Tag.Reference): Reference {
        const start = this.pos - 1;
        const words: number[] = [];
        let count = 1;
        if (tag !== Tag.Reference) {
            count = (this.u8() << 8) | this.u8();
            if (count < 1 || count > 5) this.forbidden(this.pos - 2);
        }
        const node = this.atomTerm();
        if (tag === Tag.Reference) words.push(this.u32());
        const creation = this.creation(tag !== Tag.NewerReference);
        while (words.length < count) words.push(this.u32());
        // With the old tags, whose creation has one byte, references have fewer bits too.
        if (tag !== Tag.NewerReference && words[0] >>> 18) this.forbidden(start);
        return new Reference(node, creation, words);
    }

    private nativeRecord(): T {
        const count = this.u32();
        const flags = this.u8();
        // 1 means exported. The documentation of the format contradicts itself; external.c decides.
        if (flags > 1) this.forbidden(this.pos - 1);
        const module = this.atomTerm();
        const name = this.atomTerm();
        const fields = new Map<string, Atom>();
        this.enter(count);
        while (fields.size < count) {
            const start = this.pos;
            const field = this.atomTerm();
            if (fields.has(field.name)) this.twice(start);
            fields.set(field.name, field);
        }
        this.depth--;
        return this.record(fields, module, name, flags === 1);
    }
}
