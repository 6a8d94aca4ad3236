/** Reads terms into the term model, without any loss. */
import { canonical } from "./canonical.js";
import { ErlMap, Keys } from "./map.js";
import { MAX_KEY_BYTES, type Shape } from "./shape.js";
import { Tag } from "./tags.js";
import { TermReader } from "./terms.js";
import { Binary, ErlRecord, Float, Tuple, type Atom, type Term } from "./term.js";

/** A reader of the term model. */
export class ModelReader extends TermReader<Term, Term, Keys> {
    /** Reads the term at `pos`. */
    protected value(): Term {
        const { buf, pos, view } = this;
        switch (buf[pos]) {
            case Tag.Binary: {
                const length = view.getUint32(pos + 1);
                this.pos = pos + 5 + length;
                return this.binary(pos + 5, length);
            }
            case Tag.SmallInteger:
                this.pos = pos + 2;
                return view.getUint8(pos + 1);
            case Tag.Integer:
                this.pos = pos + 5;
                return view.getInt32(pos + 1);
            case Tag.NewFloat: {
                const value = view.getFloat64(pos + 1);
                if (value - value !== 0) this.forbidden(pos);
                this.pos = pos + 9;
                return new Float(value);
            }
            case Tag.SmallAtomUtf8:
            case Tag.AtomUtf8:
            case Tag.SmallAtom:
            case Tag.Atom:
                return this.atomTerm();
            case Tag.Nil:
                this.pos = pos + 1;
                return [];
            case Tag.List:
                this.pos = pos + 5;
                return this.list(this.sequence(view.getUint32(pos + 1)));
            case Tag.Map:
                this.pos = pos + 5;
                return this.map(view.getUint32(pos + 1));
            case Tag.SmallTuple:
                this.pos = pos + 2;
                return new Tuple(this.sequence(view.getUint8(pos + 1)));
            case Tag.LargeTuple:
                this.pos = pos + 5;
                return new Tuple(this.sequence(view.getUint32(pos + 1)));
            case Tag.String:
                return this.byteList();
            case Tag.SmallBig:
                return this.big(pos + 2, view.getUint8(pos + 1));
            default:
                return this.rare() as Term;
        }
    }

    protected key(before: readonly Term[]): Term {
        const start = this.pos;
        this.inKeys++;
        const key = this.value();
        this.inKeys--;
        const name = this.canonicalKey(key, start);
        if (before.some((other) => canonical(other) === name)) this.twice(start);
        return key;
    }

    protected float(value: number): Term {
        return new Float(value);
    }

    protected binary(start: number, length: number): Term {
        this.need(start, length);
        // A shape outlives the input, and the caller may then overwrite the input.
        return this.inKeys > 0
            ? Binary.of(new Uint8Array(this.buf.subarray(start, start + length)))
            : Binary.within(this.buf, start, length);
    }

    protected record(
        fields: ReadonlyMap<string, Atom>,
        module: Atom,
        name: Atom,
        exported: boolean,
    ): Term {
        const values = this.sequence(fields.size);
        return new ErlRecord(module, name, exported, [...fields.values()], values);
    }

    /** Reads a map of `size` keys. */
    private map(size: number): Term {
        this.enter(2 * size);
        const { stack, sp: base } = this;
        let shape = this.roots[size];
        let keys: readonly Term[] = [];
        for (let i = 0; i < size && shape; i++) {
            // A key may itself be a map, which must not overwrite the earlier values.
            this.sp = base + i;
            const next = this.step(shape);
            if (!next) keys = [...shape.keys, this.stray!];
            const value = this.value();
            stack[base + i] = value;
            shape = next;
        }
        this.sp = base;
        const map = shape ? this.shaped(shape, base) : this.unshaped(keys, size);
        this.depth--;
        return map;
    }

    private shaped(shape: Shape<Term, Keys>, base: number): Term {
        const keys = (shape.leaf ??= new Keys(shape.keys));
        return ErlMap.of(keys, this.stacked(base, keys.terms.length));
    }

    /** Takes values from the stack by a loop, because `slice` is slower (bench/etf/README.md). */
    private stacked(base: number, count: number): Term[] {
        const values = new Array<Term>(count);
        for (let i = 0; i < count; i++) values[i] = this.stack[base + i];
        return values;
    }

    private unshaped(before: readonly Term[], size: number): Term {
        const keys = [...before];
        const values = this.stacked(this.sp, keys.length);
        const seen = new Set(keys.map(canonical));
        while (keys.length < size) {
            const start = this.pos;
            const key = this.value();
            keys.push(key);
            if (seen.add(this.canonicalKey(key, start)).size < keys.length) this.twice(start);
            values.push(this.value());
        }
        return ErlMap.of(new Keys(keys), values);
    }

    /**
     * Counts the bytes of a key, again for each map key that contains it: that is the cost of
     * comparing it.
     */
    private canonicalKey(key: Term, start: number): string {
        this.longKey(start, MAX_KEY_BYTES);
        return canonical(key);
    }
}
