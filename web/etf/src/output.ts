/**
 * Writes terms for {@link encoder}. It has a buffer that grows, and one method for each kind of
 * term.
 */
import { ordered } from "./compare.js";
import type { Bytes, Encodable, EncodeOptions } from "./encode.js";
import { atStep, escaped, kindName, noTerm, tooDeep } from "./error.js";
import { grown, viewOf } from "./bytes.js";
import { ErlMap, isMap } from "./map.js";
import { layouts, type Layout } from "./layout.js";
import { checkOptions, hasOwn, type Choices } from "./options.js";
import { Tag } from "./tags.js";
import {
    Atom,
    Binary,
    BitBinary,
    ErlRecord,
    ExportFun,
    Float,
    Fun,
    ImproperList,
    LocalTerm,
    OldFun,
    Pid,
    Port,
    Reference,
    Tuple,
    type Term,
} from "./term.js";
import { checkSurrogates, codePoints, encoder, isBytes } from "./utf8.js";

/**
 * The encoder copies a result that is smaller than this, or fills less than half of its buffer.
 */
const COPIED = 65536;
/** The largest buffer that an encoder keeps for the next value, in bytes. */
const IDLE = 1 << 22;
/**
 * The platform writes longer texts, because it is faster then (bench/etf/strings.js). The unit is
 * UTF-16.
 */
const SHORT = 24;

type Utf8Write = (this: Uint8Array, text: string, offset: number, length: number) => number;
/** Node's (and Bun's) own conversion, where it exists. Its result is the same. */
const utf8Write = (globalThis as { Buffer?: { prototype: { utf8Write?: Utf8Write } } }).Buffer
    ?.prototype.utf8Write;

const choices: Choices<EncodeOptions> = {
    keys: '"binary"|"atom"',
    null: '"null"|"nil"|"undefined"',
    deterministic: "false|true",
    minorVersion: "0|1|2",
    deflate: "function",
    codegen: "false|true",
};

/** Writes one term at a time. */
export class Output {
    /** @public Generated code has this name, and those of the other members with this tag. */
    buf: Uint8Array = new Uint8Array(1024);
    /** @public */
    view: DataView = viewOf(this.buf);
    /** @public */
    pos = 0;
    /** The size of the next buffer, a little more than the last result. */
    private expected = 1024;
    /** The kind of term for a property's name. */
    private readonly keyOf: (name: string) => Encodable;
    /** Finds the layout of an object's names. */
    private readonly layoutOf: (names: readonly string[]) => Layout | undefined;
    private readonly version: number;
    private readonly nullName: string;

    constructor(private readonly options: EncodeOptions) {
        checkOptions(options, choices);
        this.version = options.minorVersion ?? 2;
        this.nullName = options.null ?? "null";
        const { keys } = options;
        this.keyOf = (name) => (keys === "atom" ? new Atom(name) : name);
        // Keys use their own output, because this one is in the middle of a term.
        let writer: Output | undefined;
        this.layoutOf = layouts((name) => (writer ??= new Output(options)).alone(name), options);
    }

    /** Encodes a value to bytes that the next call overwrites. */
    written(value: Encodable): Uint8Array {
        if (this.buf.length === 0) this.use(new Uint8Array(this.expected));
        this.pos = 0;
        this.top(value);
        this.expected = this.pos + (this.pos >> 4);
        return this.buf.subarray(0, this.pos);
    }

    /** Encodes a value to a new array. */
    fresh(value: Encodable): Bytes {
        const bytes = this.written(value);
        const { buf, pos } = this;
        if (pos < COPIED || pos < buf.length / 2) return bytes.slice();
        // The result keeps its buffer.
        this.use(new Uint8Array(0));
        return bytes as Bytes;
    }

    /** Releases a large buffer. The next call makes a new one. */
    rest(): void {
        if (this.buf.length > IDLE) this.use(new Uint8Array(0));
    }

    /** Returns the bytes of a property's name. */
    private alone(name: string): Uint8Array {
        this.pos = 0;
        try {
            this.write(this.keyOf(name));
        } catch (error) {
            throw atStep(name, error);
        }
        return this.buf.slice(0, this.pos);
    }

    private use(buf: Uint8Array): void {
        this.buf = buf;
        this.view = viewOf(buf);
    }

    protected top(value: Encodable): void {
        try {
            this.u8(Tag.Version);
            // The bytes reach to the end of the input, so nothing may follow.
            if (value instanceof LocalTerm) this.local(value);
            else this.write(value);
        } catch (error) {
            throw tooDeep(error);
        }
    }

    /** @public Returns the error of a property or of another part. It contains the path. */
    at(step: string | number, error: unknown): unknown {
        return atStep(step, error);
    }

    /** @public Makes room for `count` bytes. */
    room(count: number): void {
        const wanted = this.pos + count;
        if (wanted > this.buf.length) this.use(grown(this.buf, this.pos, wanted));
    }

    private u8(value: number): void {
        this.room(1);
        this.buf[this.pos++] = value;
    }

    private u32(value: number): void {
        this.room(4);
        this.view.setUint32(this.pos, unsigned(value, 32));
        this.pos += 4;
    }

    /** Writes an integer of a fun, which contains its own size. */
    private integer(value: number): void {
        if (value !== (value | 0)) throw noTerm(`${String(value)} is not an integer of 32 bits`);
        this.number(value | 0);
    }

    /** Writes as many items as the count says, even if a getter changes the array meanwhile. */
    private all(items: readonly Encodable[], count = items.length): void {
        let i = 0;
        try {
            for (; i < count; i++) this.write(items[i]);
        } catch (error) {
            throw atStep(i, error);
        }
    }

    protected bytes(bytes: ArrayLike<number>): void {
        this.room(bytes.length);
        this.buf.set(bytes, this.pos);
        this.pos += bytes.length;
    }

    /** Checks the bytes in a field of a term. The field must hold some. */
    private octets(bytes: Uint8Array): void {
        if (!isBytes(bytes)) throw noTerm("bytes must be a Uint8Array");
        this.bytes(bytes);
    }

    private u16(value: number): void {
        this.u8(value >> 8);
        this.u8(value);
    }

    /** Writes a tag and a count, with one byte for a small count. */
    private sized(small: Tag, large: Tag, count: number): void {
        if (count > 255) return this.head(large, count);
        this.u8(small);
        this.u8(count);
    }

    /** A tag and a 32-bit count. */
    head(tag: Tag, count: number): void {
        // A sparse array can have any length. Each element takes a byte at least, and few platforms
        // have larger arrays of bytes.
        if (this.pos + count > 0xffffffff) throw noTerm("the term has more than 4 GB");
        this.room(5);
        this.buf[this.pos] = tag;
        this.view.setUint32(this.pos + 1, count);
        this.pos += 5;
    }

    /** @public Writes any value. */
    write(value: Encodable): void {
        switch (typeof value) {
            case "string":
                return this.text(value);
            case "number":
                return this.number(value);
            case "boolean":
            case "undefined":
                return this.atom(String(value));
            case "bigint":
                return this.big(value);
            case "symbol":
                return this.atom(value.description);
            case "object": {
                if (value === null) return this.atom(this.nullName);
                if (Array.isArray(value)) return this.list(value);
                return Object.getPrototypeOf(value) === Object.prototype
                    ? this.object(value as { readonly [key: string]: Encodable })
                    : this.instance(value);
            }
            default:
                return this.instance(value);
        }
    }

    private number(value: number): void {
        if (this.pos + 9 > this.buf.length) this.room(9);
        const { buf, view, pos } = this;
        if ((value | 0) === value && (value !== 0 || 1 / value > 0)) {
            if (value >= 0 && value < 256) {
                buf[pos] = Tag.SmallInteger;
                buf[pos + 1] = value;
                this.pos = pos + 2;
            } else {
                buf[pos] = Tag.Integer;
                view.setInt32(pos + 1, value);
                this.pos = pos + 5;
            }
        } else if (Number.isInteger(value) && value !== 0) {
            if (Number.isSafeInteger(value)) return this.wide(value);
            this.big(BigInt(value));
        } else {
            this.float(value);
        }
    }

    private float(value: number): void {
        if (!Number.isFinite(value)) throw noTerm(`${value} is not a term`);
        if (this.version === 0) {
            this.u8(Tag.Float);
            return this.bytes(encoder.encode(floatText(value).padEnd(31, "\0")));
        }
        this.room(9);
        this.buf[this.pos] = Tag.NewFloat;
        this.view.setFloat64(this.pos + 1, value);
        this.pos += 9;
    }

    /** A safe integer of more than 32 bits. */
    private wide(value: number): void {
        this.room(11);
        const { buf, view, pos } = this;
        const magnitude = Math.abs(value);
        const high = Math.floor(magnitude / 0x100000000);
        const length = 8 - (Math.clz32(high) >> 3);
        buf[pos] = Tag.SmallBig;
        buf[pos + 1] = length;
        buf[pos + 2] = Number(value < 0);
        // For a number that is too large, setUint32 writes the low bits.
        view.setUint32(pos + 3, magnitude, true);
        view.setUint32(pos + 7, high, true);
        this.pos = pos + 3 + length;
    }

    private big(value: bigint): void {
        const small = Number(value);
        if (Number.isSafeInteger(small)) return this.number(small);
        const negative = value < 0n;
        const hex = (negative ? -value : value).toString(16);
        const length = (hex.length + 1) >> 1;
        this.sized(Tag.SmallBig, Tag.LargeBig, length);
        this.u8(Number(negative));
        for (let end = hex.length; end > 0; end -= 2)
            this.u8(parseInt(hex.slice(Math.max(0, end - 2), end), 16));
    }

    /** A binary of UTF-8. */
    protected text(text: string): void {
        const length = text.length;
        if (this.pos + 5 + 3 * length > this.buf.length) this.room(5 + 3 * length);
        const start = this.pos + 5;
        this.buf[this.pos] = Tag.Binary;
        const written = this.characters(text, start);
        this.view.setUint32(this.pos + 1, written);
        this.pos = start + written;
    }

    /** Writes text at `start`, where there is room, and returns the number of its bytes. */
    private characters(text: string, start: number): number {
        const { buf } = this;
        const length = text.length;
        if (length <= SHORT) {
            let at = 0;
            for (; at < length; at++) {
                const unit = text.charCodeAt(at);
                if (unit >= 0x80) break;
                buf[start + at] = unit;
            }
            if (at === length) return length;
        }
        const written = utf8Write
            ? utf8Write.call(buf, text, start, 3 * length)
            : encoder.encodeInto(text, buf.subarray(start, start + 3 * length)).written;
        checkSurrogates(text, written);
        return written;
    }

    private atom(name: string | undefined): void {
        if (typeof name !== "string" || (name.length > 255 && [...name].length > 255))
            throw noTerm("an atom's name must be a string of at most 255 characters");
        const { length } = name;
        this.room(3 + 3 * length);
        const { buf, pos } = this;
        if (this.version < 2 && !/[^\0-\xff]/.test(name)) {
            this.u8(Tag.Atom);
            this.u16(length);
            return this.bytes(codePoints(name));
        }
        const bytes = this.characters(name, pos + 2);
        buf[pos] = Tag.SmallAtomUtf8;
        buf[pos + 1] = bytes;
        this.pos += 2 + bytes;
        if (bytes < 256) return;
        buf.copyWithin(pos + 3, pos + 2, this.pos++);
        buf[pos] = Tag.AtomUtf8;
        this.view.setUint16(pos + 1, bytes);
    }

    private list(items: readonly Encodable[]): void {
        const length = items.length;
        if (length === 0) return this.u8(Tag.Nil);
        if (length <= 0xffff && this.byteList(items, length)) return;
        this.head(Tag.List, length);
        this.all(items, length);
        this.u8(Tag.Nil);
    }

    /**
     * Writes a list of bytes as a string, as Erlang does. It returns false, and writes nothing, for
     * another list. It reads each item once, because a getter may change the array.
     */
    private byteList(items: readonly unknown[], length: number): boolean {
        this.room(3 + length);
        const { buf, pos } = this;
        for (let i = 0; i < length; i++) {
            const item = items[i];
            const value = typeof item === "bigint" ? Number(item) : item;
            // -0 is not a byte.
            if (typeof value !== "number" || !Object.is(value & 255, value)) return false;
            buf[pos + 3 + i] = value;
        }
        buf[pos] = Tag.String;
        this.view.setUint16(pos + 1, length);
        this.pos = pos + 3 + length;
        return true;
    }

    private improper({ items, tail }: ImproperList<Encodable>): void {
        if (!(items.length > 0)) throw noTerm("an improper list needs an item");
        if (Array.isArray(tail)) return this.list([...items, ...(tail as readonly Encodable[])]);
        this.head(Tag.List, items.length);
        this.all(items);
        this.write(tail);
    }

    private tuple(elements: readonly Encodable[]): void {
        const { length } = elements;
        this.sized(Tag.SmallTuple, Tag.LargeTuple, length);
        this.all(elements, length);
    }

    private object(object: { readonly [key: string]: Encodable }): void {
        const names = Object.keys(object);
        const layout = this.layoutOf(names);
        if (layout) return layout.write(this, object);
        if (!this.options.deterministic) return this.properties(object);
        this.pairs(
            names.map(this.keyOf),
            names.map((name) => object[name]),
        );
    }

    /** Writes an object whose names come in an unknown order. */
    private properties(object: { readonly [key: string]: Encodable }): void {
        const start = this.pos + 1;
        this.head(Tag.Map, 0);
        let count = 0;
        let name = "";
        try {
            for (name in object) {
                if (!hasOwn.call(object, name)) continue;
                if (this.options.keys === "atom") this.atom(name);
                else this.text(name);
                this.write(object[name]);
                count++;
            }
        } catch (error) {
            throw atStep(name, error);
        }
        this.view.setUint32(start, count);
    }

    private pairs(keys: readonly Encodable[], values: readonly Encodable[]): void {
        this.head(Tag.Map, keys.length);
        let order: Iterable<number> = keys.keys();
        let wrong: unknown;
        try {
            if (this.options.deterministic) order = ordered(keys.map((key) => this.asTerm(key)));
        } catch (error) {
            // The code reports an invalid key, with its position, when it writes the key.
            wrong = error;
        }
        let at = 0;
        try {
            for (at of order) {
                this.write(keys[at]);
                this.write(values[at]);
            }
        } catch (error) {
            let step: unknown = keys[at];
            if (step instanceof Atom) step = step.name;
            if (step instanceof Binary) step = step.utf8();
            const isName = typeof step === "string" || Number.isInteger(step);
            throw atStep(isName ? (step as string | number) : at, error);
        }
        if (wrong) throw wrong;
    }

    /** Returns the term that the encoder writes for a key. It determines the order of the keys. */
    private asTerm(key: Encodable): Term {
        const termOf = (part: Encodable): Term => this.asTerm(part);
        if (typeof key === "boolean" || key == null)
            return new Atom(key === null ? this.nullName : String(key));
        if (typeof key === "symbol") return new Atom(key.description!);
        if (typeof key === "string" || isBytes(key)) return Binary.of(key);
        if (key instanceof Tuple) return new Tuple(Array.from(key.elements, termOf));
        if (key instanceof ImproperList)
            return new ImproperList(key.items.map(termOf), termOf(key.tail));
        // A hole is undefined.
        if (Array.isArray(key)) return Array.from(key as readonly Encodable[], termOf);
        let entries: Iterable<readonly [Encodable, Encodable]>;
        if (isPlain(key))
            entries = Object.entries(key).map(([name, value]) => [this.keyOf(name), value]);
        else if (isMap(key)) entries = key;
        else return key as Term;
        return ErlMap.from(Array.from(entries, ([k, v]) => [termOf(k), termOf(v)] as const));
    }

    private binary(bytes: Uint8Array): void {
        this.head(Tag.Binary, bytes.length);
        this.bytes(bytes);
    }

    /**
     * Writes instances of the term model's classes, and of the platform's classes that have a term.
     */
    private instance(value: object | Function): void {
        if (value instanceof Binary) return this.binary(value.bytes);
        if (value instanceof Atom) return this.atom(value.name);
        if (value instanceof Float) return this.float(value.value);
        if (value instanceof Tuple) return this.tuple(value.elements);
        if (value instanceof ErlMap) return this.pairs(value.keys, value.values);
        // Symbol.toStringTag identifies two classes. Check all others first, because any object may
        // have that tag.
        if (isPlain(value)) return this.object(value);
        if (isBytes(value)) return this.binary(value);
        if (isMap(value)) return this.pairs([...value.keys()], [...value.values()]);
        if (value instanceof ImproperList) return this.improper(value);
        if (value instanceof BitBinary) return this.bitBinary(value);
        if (value instanceof Pid) return this.pid(value);
        if (value instanceof Port) return this.port(value);
        if (value instanceof Reference) return this.reference(value);
        if (value instanceof ExportFun) return this.exportFun(value);
        if (value instanceof Fun) return this.fun(value);
        if (value instanceof OldFun) return this.oldFun(value);
        if (value instanceof ErlRecord) return this.record(value);
        if (value instanceof LocalTerm) throw noTerm("a local term must be the whole value");
        throw noTerm(`${escaped(kindName(value))} is not a term`);
    }

    private bitBinary(value: BitBinary): void {
        const { bytes, bits } = value;
        if (bytes.length * unsigned(bits, 3) === 0)
            throw noTerm("a bit string needs bytes and bits");
        this.head(Tag.BitBinary, bytes.length);
        this.u8(bits);
        this.octets(bytes);
        this.buf[this.pos - 1] &= 0xff << (8 - bits);
    }

    private pid(pid: Pid): void {
        this.u8(Tag.NewPid);
        this.atom(pid.node.name);
        this.u32(pid.id);
        this.u32(pid.serial);
        this.u32(pid.creation);
    }

    private port(port: Port): void {
        const wide = port.wide || port.id > 0xffffffff;
        this.u8(wide ? Tag.V4Port : Tag.NewPort);
        this.atom(port.node.name);
        if (wide) {
            this.room(8);
            this.view.setBigUint64(this.pos, BigInt(unsigned(port.id, 64)));
            this.pos += 8;
        } else {
            this.u32(Number(port.id));
        }
        this.u32(port.creation);
    }

    private reference(reference: Reference): void {
        const { node, creation, words } = reference;
        if (words.length < 1 || words.length > 5)
            throw noTerm("a reference must have 1 to 5 words");
        this.u8(Tag.NewerReference);
        this.u16(words.length);
        this.atom(node.name);
        this.u32(creation);
        for (const word of words) this.u32(word);
    }

    private exportFun(fun: ExportFun): void {
        this.u8(Tag.Export);
        this.atom(fun.module.name);
        this.atom(fun.fun.name);
        this.integer(unsigned(fun.arity, 8));
    }

    private fun(fun: Fun): void {
        this.u8(Tag.NewFun);
        this.u32(0);
        const start = this.pos - 4;
        this.u8(unsigned(fun.arity, 8));
        if (fun.uniq.length !== 16) throw noTerm("a fun's uniq must have 16 bytes");
        this.octets(fun.uniq);
        this.u32(fun.index);
        this.u32(unsigned(fun.free.length, 8));
        this.atom(fun.module.name);
        this.integer(fun.oldIndex);
        this.integer(fun.oldUniq);
        this.pid(fun.pid);
        this.all(fun.free);
        // The size counts itself.
        this.view.setUint32(start, this.pos - start);
    }

    private oldFun(fun: OldFun): void {
        this.head(Tag.Fun, fun.free.length);
        this.pid(fun.pid);
        this.atom(fun.module.name);
        this.integer(fun.index);
        this.integer(fun.uniq);
        this.all(fun.free);
    }

    private record({ module, name, exported, fields, values }: ErlRecord): void {
        const { length } = fields;
        if (values.length !== length || new Set(fields.map(({ name }) => name)).size < length)
            throw noTerm("a record needs different fields, each with a value");
        this.head(Tag.Record, length);
        this.u8(Number(exported));
        this.atom(module.name);
        this.atom(name.name);
        for (const field of fields) this.atom(field.name);
        this.all(values, length);
    }

    private local(term: LocalTerm): void {
        this.u8(Tag.Local);
        this.octets(term.bytes);
    }
}

/** Writes a float as C prints it with "%.20e". */
function floatText(value: number): string {
    const [digits, exponent] = value.toExponential(20).split("e");
    // If a number is half way between two texts, C takes the even one, and JavaScript the larger.
    const half = /^(-?\d\.\d{19}[02468])50*e/.exec(value.toExponential(100));
    const sign = Object.is(value, -0) ? "-" : "";
    return `${sign}${half?.[1] ?? digits}e${exponent.replace(/^.(?=.$)/, "$&0")}`;
}

/** Refuses a value that is not an unsigned integer of so many bits. */
function unsigned<N extends number | bigint>(value: N, bits: number): N {
    const isInteger = typeof value === "bigint" || Number.isInteger(value);
    if (!isInteger || value < 0 || value >= 2 ** bits)
        throw noTerm(`${String(value)} is not an unsigned integer of ${bits} bits`);
    return value;
}

function isPlain(value: unknown): value is { readonly [key: string]: Encodable } {
    const prototype: unknown = Object.getPrototypeOf(value);
    // Another window has its own Object.prototype, which has no prototype either.
    return prototype === null || Object.getPrototypeOf(prototype) === null;
}
