/** Reads terms into the term model: every tag, nothing lost. */
import { canonical } from "./canonical.js";
import type { Limits } from "./limits.js";
import { ErlMap, Keys } from "./map.js";
import { Reader } from "./reader.js";
import { MAX_KEY_BYTES, MAX_KEYS } from "./shape.js";
import { Tag } from "./tags.js";
import {
    Atom, Binary, BitBinary, ErlRecord, ExportFun, Float, Fun, ImproperList, LocalTerm, OldFun, Pid, Port, Reference,
    Tuple, type Term,
} from "./term.js";

/** What one reader hands to another that goes on at the same place. */
export interface Place {
    buf: Uint8Array;
    pos: number;
    elements: number;
    depth: number;
}

/** A reader of the term model. */
export class ModelReader extends Reader<Term, Term, Keys> {
    private readonly atoms = new Map<string, Atom>();

    constructor(limits: Limits) {
        super(limits);
    }

    /** Reads the term at another reader's place, and moves it past the term. */
    readAt(place: Place): Term {
        if (this.buf !== place.buf) this.load(place.buf);
        this.pos = place.pos;
        this.elements = place.elements;
        this.depth = place.depth;
        this.sp = 0;
        const term = this.value();
        place.pos = this.pos;
        place.elements = this.elements;
        return term;
    }

    /** Ends what {@link readAt} began. */
    release(): void {
        this.unload();
        this.stack.length = 0;
    }

    protected value(): Term {
        const { buf, pos, view } = this;
        switch (buf[pos]) {
            case Tag.Binary: {
                const length = view.getUint32(pos + 1);
                this.need(pos + 5, length);
                this.pos = pos + 5 + length;
                return new Binary(buf, pos + 5, length);
            }
            case Tag.SmallInteger:
                this.need(pos, 2);
                this.pos = pos + 2;
                return buf[pos + 1];
            case Tag.Integer:
                this.pos = pos + 5;
                return view.getInt32(pos + 1);
            case Tag.NewFloat: {
                const value = view.getFloat64(pos + 1);
                if (value - value !== 0) this.fail("value", "a float must be finite");
                this.pos = pos + 9;
                return new Float(value);
            }
            case Tag.SmallAtomUtf8:
            case Tag.AtomUtf8:
            case Tag.SmallAtom:
            case Tag.Atom:
                return this.atom();
            case Tag.Nil:
                this.pos = pos + 1;
                return [];
            case Tag.List: {
                const count = view.getUint32(pos + 1);
                this.pos = pos + 5;
                return this.list(count);
            }
            case Tag.SmallTuple:
                this.need(pos, 2);
                this.pos = pos + 2;
                return new Tuple(this.sequence(buf[pos + 1]));
            case Tag.Map: {
                const size = view.getUint32(pos + 1);
                this.pos = pos + 5;
                return this.map(size);
            }
            case Tag.String: {
                const length = view.getUint16(pos + 1);
                this.need(pos + 3, length);
                this.pos = pos + 3 + length;
                return Array.from(buf.subarray(pos + 3, pos + 3 + length));
            }
            case Tag.LargeTuple: {
                const count = view.getUint32(pos + 1);
                this.pos = pos + 5;
                return new Tuple(this.sequence(count));
            }
            case Tag.SmallBig:
                this.need(pos, 3);
                return this.big(pos + 2, buf[pos + 1]);
            case Tag.LargeBig:
                return this.big(pos + 5, view.getUint32(pos + 1));
            default:
                return this.rare();
        }
    }

    protected key(before: readonly Term[]): Term {
        const start = this.pos;
        const key = this.value();
        const name = this.canonicalKey(key, start);
        if (before.some((other) => canonical(other) === name)) this.fail("duplicate", "a map has the same key twice", start);
        return key;
    }

    private atom(): Atom {
        return this.named(this.atomName());
    }

    private named(name: string): Atom {
        const known = this.atoms.get(name);
        if (known !== undefined) return known;
        const made = new Atom(name);
        if (this.atoms.size < this.limits.maxAtoms) this.atoms.set(name, made);
        return made;
    }

    /** The sign byte stands at `at`, the magnitude after it. */
    private big(at: number, length: number): number | bigint {
        if (length > this.limits.maxBigBytes) {
            this.fail("limit", `an integer of ${length} bytes is more than the ${this.limits.maxBigBytes} allowed`);
        }
        this.need(at, 1 + length);
        this.pos = at + 1 + length;
        return this.magnitude(at + 1, length, this.buf[at] !== 0);
    }

    private sequence(count: number): Term[] {
        this.enter(count);
        const terms: Term[] = [];
        for (let i = 0; i < count; i++) terms.push(this.value());
        this.depth--;
        return terms;
    }

    /** Lists that are each other's tails become one, as they are in Erlang. */
    private list(count: number): Term {
        const items: Term[] = [];
        for (;;) {
            this.enter(count);
            for (let i = 0; i < count; i++) items.push(this.value());
            this.depth--;
            if (this.buf[this.pos] !== Tag.List) break;
            count = this.view.getUint32(this.pos + 1);
            this.pos += 5;
        }
        if (this.buf[this.pos] === Tag.Nil) {
            this.pos++;
            return items;
        }
        const tail = this.value();
        if (items.length === 0) return tail;
        // Only a string is still a list here.
        return Array.isArray(tail) ? [...items, ...tail as Term[]] : new ImproperList(items, tail);
    }

    private map(size: number): ErlMap {
        this.enter(2 * size);
        const { stack, sp: base } = this;
        let shape = size <= MAX_KEYS ? this.shapeRoot(size) : undefined;
        if (shape === undefined) return this.largeMap([], size);
        for (let i = 0; i < size; i++) {
            // A key may itself be a map, which must not overwrite the values so far.
            this.sp = base + i;
            const next = this.step(shape);
            if (next === undefined) {
                const entries = shape.keys.map((key, at): [Term, Term] => [key, stack[base + at]]);
                this.sp = base;
                entries.push([this.stray!, this.value()]);
                return this.largeMap(entries, size);
            }
            shape = next;
            const value = this.value();
            stack[base + i] = value;
        }
        this.sp = base;
        this.depth--;
        shape.leaf ??= new Keys(shape.keys);
        return new ErlMap(shape.leaf, stack.slice(base, base + size));
    }

    /** The rest of a map whose keys have no shape. */
    private largeMap(entries: [Term, Term][], size: number): ErlMap {
        const keys = entries.map(([key]) => key);
        const values = entries.map(([, value]) => value);
        const seen = new Set(keys.map(canonical));
        while (keys.length < size) {
            const start = this.pos;
            const key = this.value();
            seen.add(this.canonicalKey(key, start));
            keys.push(key);
            if (seen.size < keys.length) this.fail("duplicate", "a map has the same key twice", start);
            values.push(this.value());
        }
        this.depth--;
        return new ErlMap(new Keys(keys), values);
    }

    /**
     * Comparing a key costs as much as it has bytes, again for each map that it is nested in as a
     * key. So the bytes of long keys count as elements, and the limit on these bounds the work.
     */
    private canonicalKey(key: Term, start: number): string {
        const length = this.pos - start;
        if (length > MAX_KEY_BYTES) this.count(length);
        return canonical(key);
    }

    private rare(): Term {
        const { buf, pos, view } = this;
        switch (buf[pos]) {
            case Tag.BitBinary: {
                const length = view.getUint32(pos + 1);
                this.need(pos, 6 + length - 1);
                const bits = buf[pos + 5];
                if (length === 0 || bits < 1 || bits > 8) this.fail("value", "a bit string has 1 to 8 bits in its last byte");
                const start = pos + 6;
                this.need(start, length);
                this.pos = start + length;
                if (bits === 8) return new Binary(buf, start, length);
                const bytes = buf.slice(start, start + length);
                bytes[length - 1] &= 0xff << (8 - bits);
                return new BitBinary(bytes, bits);
            }
            case Tag.Float:
                return this.oldFloat();
            case Tag.NewPid:
            case Tag.Pid:
                return this.pid();
            case Tag.V4Port:
            case Tag.NewPort:
            case Tag.Port:
                return this.port();
            case Tag.NewerReference:
            case Tag.NewReference:
            case Tag.Reference:
                return this.reference();
            case Tag.Export: {
                this.pos = pos + 1;
                return new ExportFun(this.atom(), this.atom(), this.integer("an arity"));
            }
            case Tag.NewFun:
                return this.fun();
            case Tag.Fun:
                return this.oldFun();
            case Tag.Record:
                return this.record();
            case Tag.Local:
                if (pos !== 1 && pos !== 0) this.fail("tag", "a local term cannot stand inside another: its length is not known");
                this.pos = this.end;
                return new LocalTerm(buf.slice(pos + 1));
            case undefined:
                return this.truncated();
            default:
                return this.fail("tag", `no term starts with the byte ${buf[pos]}`);
        }
    }

    private u32(): number {
        const value = this.view.getUint32(this.pos);
        this.pos += 4;
        return value;
    }

    private u8(): number {
        this.need(this.pos, 1);
        return this.buf[this.pos++];
    }

    /** An integer of at most 32 bits, as it stands inside a fun. */
    private integer(what: string): number {
        const start = this.pos;
        const value = this.buf[start] === Tag.SmallInteger || this.buf[start] === Tag.Integer || this.buf[start] === Tag.SmallBig
            ? this.value() : this.buf[start] === undefined ? this.truncated() : undefined;
        if (typeof value !== "number" || value < 0) this.fail("value", `${what} is a non-negative integer`, start);
        return value;
    }

    private oldFloat(): Float {
        this.need(this.pos, 32);
        const text = String.fromCharCode(...this.buf.subarray(this.pos + 1, this.pos + 32));
        const match = /^ *([-+]?\d+\.\d+(?:[eE][-+]?\d+)?)\0*$/.exec(text);
        const value = match === null ? NaN : Number(match[1]);
        if (value - value !== 0) this.fail("value", "a float must be finite decimal text");
        this.pos += 32;
        return new Float(value);
    }

    private pid(): Pid {
        const small = this.buf[this.pos++] === Tag.Pid;
        const node = this.atom();
        return new Pid(node, this.u32(), this.u32(), this.creation(small));
    }

    /** Old tags have a creation of one byte, of which only two bits were ever used. */
    private creation(small: boolean): number {
        if (!small) return this.u32();
        const creation = this.u8();
        if (creation > 3) this.fail("value", "a creation of one byte is at most 3", this.pos - 1);
        return creation;
    }

    private port(): Port {
        const tag = this.buf[this.pos++];
        const node = this.atom();
        let id: number | bigint;
        if (tag === Tag.V4Port) {
            const big = this.view.getBigUint64(this.pos);
            this.pos += 8;
            const small = Number(big);
            id = Number.isSafeInteger(small) ? small : big;
        } else {
            id = this.u32();
        }
        return new Port(node, id, this.creation(tag === Tag.Port), tag === Tag.V4Port);
    }

    private reference(): Reference {
        const start = this.pos++;
        const tag = this.buf[start];
        if (tag === Tag.Reference) {
            const node = this.atom();
            const word = this.u32();
            return new Reference(node, this.creation(true), [word]);
        }
        const count = this.view.getUint16(this.pos);
        if (count < 1 || count > 5) this.fail("value", "a reference has 1 to 5 words", this.pos);
        this.pos += 2;
        const node = this.atom();
        const creation = this.creation(tag === Tag.NewReference);
        const words: number[] = [];
        while (words.length < count) words.push(this.u32());
        return new Reference(node, creation, words);
    }

    private fun(): Fun {
        // The size is skipped, as the VM does: some releases wrote it too large.
        this.pos += 5;
        const arity = this.u8();
        this.need(this.pos, 16);
        const uniq = this.buf.slice(this.pos, this.pos += 16);
        const index = this.u32();
        const count = this.u32();
        const module = this.atom();
        const oldIndex = this.integer("a fun's old index");
        const oldUniq = this.integer("a fun's old unique value");
        return new Fun(module, arity, uniq, index, oldIndex, oldUniq, this.creator(), this.sequence(count));
    }

    private oldFun(): OldFun {
        this.pos++;
        const count = this.u32();
        const pid = this.creator();
        const module = this.atom();
        const index = this.integer("a fun's index");
        const uniq = this.integer("a fun's unique value");
        return new OldFun(module, index, uniq, pid, this.sequence(count));
    }

    private creator(): Pid {
        const tag = this.buf[this.pos];
        if (tag !== Tag.NewPid && tag !== Tag.Pid) {
            this.need(this.pos, 1);
            this.fail("tag", "the process that made a fun is wanted here");
        }
        return this.pid();
    }

    private record(): ErlRecord {
        const { module, name, exported, fields } = this.recordHead();
        return new ErlRecord(
            this.named(module), this.named(name), exported, fields.map((field) => this.named(field)),
            this.sequence(fields.length),
        );
    }
}
