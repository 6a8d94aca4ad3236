/** Reads terms into the term model: every tag, nothing lost. */
import { canonical } from "./canonical.js";
import { ErlMap, Keys } from "./map.js";
import { RareReader, type RecordHead } from "./rare.js";
import { MAX_KEY_BYTES, MAX_KEYS } from "./shape.js";
import { Tag } from "./tags.js";
import { Binary, ErlRecord, Float, Tuple, type Term } from "./term.js";

/** A reader of the term model. */
export class ModelReader extends RareReader<Term, Term, Keys> {
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
                return this.atomTerm();
            case Tag.Nil:
                this.pos = pos + 1;
                return [];
            case Tag.List: {
                const count = view.getUint32(pos + 1);
                this.pos = pos + 5;
                return this.list(this.sequence(count));
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
            case Tag.String:
                return this.byteList();
            case Tag.LargeTuple: {
                const count = view.getUint32(pos + 1);
                this.pos = pos + 5;
                return new Tuple(this.sequence(count));
            }
            case Tag.SmallBig:
                this.need(pos, 3);
                return this.big(pos + 2, buf[pos + 1]);
            default:
                return this.rare();
        }
    }

    protected key(before: readonly Term[]): Term {
        const start = this.pos;
        const key = this.value();
        const name = this.canonicalKey(key, start);
        if (before.some((other) => canonical(other) === name)) this.twice(start);
        return key;
    }

    protected float(value: number): Term {
        return new Float(value);
    }

    protected binary(start: number, length: number): Term {
        return new Binary(this.buf, start, length);
    }

    protected record(head: RecordHead): Term {
        const { module, name, exported, fields } = head;
        const values = this.sequence(fields.length);
        return new ErlRecord(module, name, exported, fields, values);
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
            if (seen.size < keys.length) this.twice(start);
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
}
