/** What terms become in the term model: nothing is lost. */
import { canonical } from "./canonical.js";
import { ErlMap, Keys } from "./map.js";
import { MAX_KEY_BYTES, type Shape } from "./shape.js";
import { TermReader, type RecordHead } from "./terms.js";
import { Binary, ErlRecord, Float, Tuple, type Term } from "./term.js";

/** A reader of the term model. */
export class ModelReader extends TermReader<Term, Term, Keys> {
    protected atom(name: string): Term {
        return this.named(name);
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
        this.need(start, length);
        return new Binary(this.buf, start, length);
    }

    protected record(head: RecordHead): Term {
        const { module, name, exported, fields } = head;
        const values = this.sequence(fields.length);
        return new ErlRecord(module, name, exported, fields, values);
    }

    protected tuple(count: number): Term {
        return new Tuple(this.sequence(count));
    }

    protected shaped(shape: Shape<Term, Keys>, base: number): Term {
        const keys = (shape.leaf ??= new Keys(shape.keys));
        return new ErlMap(keys, this.stack.slice(base, base + keys.terms.length));
    }

    protected unshaped(before: readonly Term[], size: number): Term {
        const keys = [...before];
        const values = this.stack.slice(this.sp, this.sp + keys.length);
        const seen = new Set(keys.map(canonical));
        while (keys.length < size) {
            const start = this.pos;
            const key = this.value();
            keys.push(key);
            if (seen.add(this.canonicalKey(key, start)).size < keys.length) this.twice(start);
            values.push(this.value());
        }
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
