/** Computes the size of a term without making it. */
import type { Encodable, EncodeOptions } from "./encode.js";
import { checkNames } from "./options.js";
import { Output } from "./output.js";
import { utf8Length } from "./utf8.js";

/**
 * Counts the bytes that `encode` would make of the value with these options, including the leading
 * 131. It refuses the same values as `encode`, except lone surrogates. It ignores `deflate`. It
 * takes no more than 64 kB of memory, whatever the size.
 */
export function byteSize(value: Encodable, options: EncodeOptions = {}): number {
    checkNames(options, options);
    return new Measure({ ...options, codegen: false }).of(value);
}

/** Forgets the written bytes when its buffer is full. */
class Measure extends Output {
    private forgotten!: number;

    of(value: Encodable): number {
        this.forgotten = 0;
        this.top(value);
        return this.forgotten + this.pos;
    }

    /** @public */
    override room(count: number): void {
        if (this.pos + count > this.buf.length) {
            this.forgotten += this.pos;
            this.pos = 0;
        }
        super.room(count);
    }

    protected override bytes(bytes: ArrayLike<number>): void {
        this.forgotten += bytes.length;
    }

    protected override text(text: string): void {
        this.forgotten += 5 + utf8Length(text);
    }
}
