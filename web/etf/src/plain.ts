/**
 * Reads terms into plain JavaScript values. Two terms may become the same value: an atom and a
 * binary, a tuple and a list, 1 and 1.0. {@link PlainOptions} choose which terms stay different.
 */
import { fill, objectBuilder, objectCode, type Builder } from "./build.js";
import type { DecodeOptions } from "./decode.js";
import { checkNames, hasOwn } from "./options.js";
import { Shape } from "./shape.js";
import { Tag } from "./tags.js";
import { Tuple, type Atom } from "./term.js";
import { TermReader } from "./terms.js";
import { latin1Text, utf8Text } from "./utf8.js";

/** Chooses the values of the plain view. */
export interface PlainOptions {
    /**
     * The value of an atom: `string` (default), `symbol` (`Symbol.for(name)`), or `class` (an
     * `Atom`). In all three, `true` and `false` are booleans, `nil` and `null` are null, and
     * `undefined` is undefined.
     */
    readonly atoms?: "string" | "symbol" | "class";
    /**
     * The value of a binary: `text` (default; a binary that is not UTF-8 is an error), `bytes` (a
     * Uint8Array that shares the input's memory), or `either` (text where it is UTF-8, else bytes).
     */
    readonly binaries?: "text" | "bytes" | "either";
    /**
     * The value of a map: `object` (default; keys are text, atoms or integers, and `__proto__` is
     * an error), or `map` (a Map with any keys).
     */
    readonly maps?: "object" | "map";
    /** The value of a tuple: `array` (default) or `class` (a `Tuple`). */
    readonly tuples?: "array" | "class";
    /**
     * The value of a list of bytes that Erlang sent as a string: `array` (default) or `text` (one
     * character for each byte). Erlang does not say which lists are text.
     */
    readonly charlists?: "array" | "text";
    /**
     * Whether lists of only atoms and `{atom, Value}` pairs become objects, also where `maps` is
     * `map`. Of two entries with one key the first counts, as in the proplists module. A list with
     * `true`, `false`, `nil`, `null`, `undefined` or `__proto__` as a key stays a list. A pair in a
     * property list never becomes a record, whatever `records` contains. Default false.
     */
    readonly proplists?: boolean;
    /**
     * Records that become objects, by tag: `{ person: ["name", "age"] }`. A tuple with that tag and
     * the same number of fields becomes an object without the tag. Default none. Native records
     * always become objects.
     */
    readonly records?: { readonly [tag: string]: readonly string[] };
    /**
     * Whether objects from maps keep (default) or drop the `__struct__` key of Elixir structs. A
     * Map keeps it, and so does an object from a property list or a record.
     */
    readonly structs?: "keep" | "drop";
    /**
     * Whether generated code may build objects, which is faster. Default: where the page allows it.
     */
    readonly codegen?: boolean;
}

/** Maps with the same keys in any order. */
interface Keys {
    /** The keys, in the order of the properties. */
    readonly names: readonly Shape<string, Builder>[];
    readonly shape: Shape<string, Builder>;
}

/** After so many orders of N keys, the reader reads further maps of N keys in any order. */
const MAX_ORDERS = 32;
/** The largest number of key sets whose order changes. */
const MAX_SETS = 1024;

/**
 * A shape gets generated code only after this number of maps, because code costs as much as 100
 * maps.
 */
const WORTH_GENERATING = 8;

/** V8 hashes longer strings by their length alone, so it may compare each with all others. */
const MAX_HASHED = 16383;

const PROTO = "__proto__ cannot be a property";

/** Reads terms into the plain view. */
export class PlainReader extends TermReader<unknown, string, Builder> {
    private readonly records = new Map<string, readonly string[]>();
    private readonly dropped: string | undefined;
    /** Single keys by some of their bytes. Each key has its own shape. */
    private readonly names: Shape<string, Builder>[] = [];
    /** The shapes of the values on the stack. */
    private readonly met: Shape<string, Builder>[] = [];
    /** Sets of keys by the sum of their hashes. */
    private readonly sets = new Map<number, Keys>();

    declare protected readonly options: DecodeOptions;

    constructor(options: DecodeOptions) {
        super(options);
        const { records = {} } = options;
        checkNames(records, records);
        for (const [tag, given] of Object.entries(records)) {
            const names = Array.isArray(given) ? [...given] : [0];
            const isName = (name: unknown, at: number) =>
                typeof name === "string" && name !== "__proto__" && names.indexOf(name) === at;
            if (!names.every(isName))
                throw new TypeError("records: fields must be different names");
            this.records.set(tag, names as string[]);
        }
        this.dropped = options.structs === "drop" ? "__struct__" : undefined;
    }

    /** Reads the term at `pos`. */
    protected value(): unknown {
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
                return value;
            }
            case Tag.SmallAtomUtf8:
            case Tag.AtomUtf8:
            case Tag.SmallAtom:
            case Tag.Atom:
                return this.atom(this.atomName(), pos);
            case Tag.Nil:
                this.pos = pos + 1;
                return [];
            case Tag.List:
                this.pos = pos + 5;
                return this.items(view.getUint32(pos + 1));
            case Tag.Map:
                this.pos = pos + 5;
                return this.map(view.getUint32(pos + 1));
            case Tag.SmallTuple:
                this.pos = pos + 2;
                return this.tuple(view.getUint8(pos + 1));
            case Tag.LargeTuple:
                this.pos = pos + 5;
                return this.tuple(view.getUint32(pos + 1));
            case Tag.String:
                return this.charlist();
            case Tag.SmallBig:
                return this.big(pos + 2, view.getUint8(pos + 1));
            default:
                return this.rare();
        }
    }

    protected key(before: readonly string[]): string {
        const start = this.pos;
        const name = this.keyName();
        if (before.includes(name)) this.twice(start);
        return name;
    }

    /** Returns the property's name for a map key. */
    private keyName(): string {
        const { pos } = this;
        if (this.startsInteger()) return String(this.value());
        let name: string;
        if (this.buf[pos] === Tag.Binary) {
            const length = this.view.getUint32(pos + 1);
            this.pos = pos + 5 + length;
            name = this.text(pos + 5, length);
        } else {
            if (!this.startsAtom()) this.fail("key", 'only maps: "map" takes such a key');
            name = this.atomName();
        }
        if (name === "__proto__") this.fail("key", PROTO, pos);
        this.longKey(pos, MAX_HASHED);
        return name;
    }

    private atom(name: string, pos: number): unknown {
        switch (name) {
            case "true":
                return true;
            case "false":
                return false;
            case "null":
            case "nil":
                return null;
            case "undefined":
                return undefined;
            default:
                return this.spelled(name, pos);
        }
    }

    /** Returns the value of an atom that is not a boolean, null or undefined. */
    private spelled(name: string, pos: number): unknown {
        const { atoms = "string" } = this.options;
        if (atoms === "string") return name;
        const atom = this.named(name);
        if (atoms === "class") return atom;
        if (!this.known.has(name)) this.over("maxAtoms", pos);
        return Symbol.for(name);
    }

    protected float(value: number): number {
        return value;
    }

    protected binary(start: number, length: number): string | Uint8Array {
        const { binaries = "text" } = this.options;
        if (binaries === "text") return this.text(start, length);
        this.need(start, length);
        const end = start + length;
        const text = binaries === "either" ? utf8Text(this.buf, start, end) : undefined;
        return text ?? this.buf.subarray(start, end);
    }

    private tuple(count: number): unknown {
        let name: string | undefined;
        if (count > 0 && this.records.size > 0 && this.startsAtom()) {
            const start = this.pos;
            name = this.atomName();
            this.pos = start;
        }
        return this.tupleOf(name, this.sequence(count));
    }

    /** Returns the value of a tuple whose first element is the atom of this name. */
    private tupleOf(name: string | undefined, elements: readonly unknown[]): unknown {
        const fields = this.records.get(name!);
        if (fields?.length === elements.length - 1) return fill({}, fields!, elements, 1);
        return this.options.tuples === "class" ? new Tuple(elements) : elements;
    }

    protected record(fields: ReadonlyMap<string, Atom>): unknown {
        const names = [...fields.keys()];
        if (fields.has("__proto__")) this.fail("key", PROTO);
        return fill({}, names, this.sequence(names.length), 0);
    }

    private map(size: number): unknown {
        return this.options.maps === "map" ? this.entries(size) : this.object(size);
    }

    /** Reads a map of `size` keys into an object. */
    private object(size: number): unknown {
        this.enter(2 * size);
        const { stack, sp: base, pos: start, met } = this;
        const root = this.roots[size];
        const isMixed = root && root.newOrders >= MAX_ORDERS;
        let shape = root;
        let keys: string[] = [];
        let hash = size;
        for (let i = 0; i < size && shape; i++) {
            // A key may itself be a map, which must not overwrite the earlier values.
            this.sp = base + i;
            const next: Shape<string, Builder> | undefined = this.step(
                isMixed ? this.alike() : shape,
            );
            if (!next) keys = [...this.keysMet(base, i), this.stray!];
            const value = this.value();
            stack[base + i] = value;
            if (next) {
                met[base + i] = next;
                if (isMixed) {
                    // The lowest seven bits of the sum hold the number of keys.
                    next.hash ||= Math.ceil(Math.random() * 0x700000) << 7;
                    hash = (hash + next.hash) & 0x3fffffff;
                }
            }
            shape = next;
        }
        this.sp = base;
        if (root && !shape?.leaf) root.newOrders++;
        const map = !shape
            ? this.unshaped(keys, size)
            : isMixed
              ? this.mixed(hash, size, start)
              : this.shaped(shape, base);
        this.depth--;
        return map;
    }

    /** Finds the first of the keys that agree with the key at `pos` in some bytes. */
    private alike(): Shape<string, Builder> {
        const { buf, pos } = this;
        const at = pos + (buf[pos] === Tag.Binary ? 5 : 2);
        const length = buf[at - 1];
        const bucket = (length ^ (buf[at] << 2) ^ (buf[at + length - 1] << 4)) & 255;
        return (this.names[bucket] ??= new Shape([], []));
    }

    /**
     * Makes an object from the values on the stack, whose keys came in any order. Its properties
     * are in the order of the first map with these keys, because the engine treats objects with
     * another order as another kind.
     */
    private mixed(hash: number, size: number, start: number): unknown {
        const { stack, sp: base, met, sets } = this;
        const set = sets.get(hash);
        let done = 0;
        if (set) {
            for (let i = 0; i < size; i++) met[base + i].position = i;
            for (const name of set.names) {
                const at = base + name.position;
                // Another set may have the same hash.
                if (name.position >= size || met[at] !== name) break;
                stack[base + size + done++] = stack[at];
            }
            if (done === size) return this.shaped(set.shape, base + size);
        }
        const keys = this.keysMet(base, size);
        if (new Set(keys).size < size) this.twice(start);
        if (!set && sets.size < MAX_SETS)
            sets.set(hash, { names: met.slice(base, base + size), shape: new Shape(keys, []) });
        return this.unshaped(keys, size);
    }

    /** Returns the last keys of the `count` shapes of the current map. */
    private keysMet(base: number, count: number): string[] {
        return this.met.slice(base, base + count).map(({ keys }) => keys[keys.length - 1]);
    }

    private shaped(shape: Shape<string, Builder>, base: number): unknown {
        let build = (shape.leaf ??= objectBuilder(shape.keys, this.dropped));
        if (++shape.uses === WORTH_GENERATING && this.options.codegen !== false)
            shape.leaf = build = objectCode(shape.keys, this.dropped) ?? build;
        return build(this.stack, base);
    }

    private unshaped(names: readonly string[], size: number): unknown {
        const object = fill({}, names, this.stack, this.sp);
        for (let i = names.length; i < size; i++) {
            const start = this.pos;
            const name = this.keyName();
            if (hasOwn.call(object, name)) this.twice(start);
            object[name] = this.value();
        }
        if (this.dropped) delete object[this.dropped];
        return object;
    }

    private items(count: number): unknown {
        return this.options.proplists ? this.proplist(count) : this.list(this.sequence(count));
    }

    private charlist(): unknown {
        if (this.options.charlists !== "text") return this.byteList();
        const start = this.pos + 3;
        const length = this.view.getUint16(this.pos + 1);
        this.pos = start + length;
        return this.text(start, length, latin1Text);
    }

    private entries(size: number): unknown {
        this.enter(2 * size);
        const map = new Map<unknown, unknown>();
        for (let i = 0; i < size; i++) {
            const start = this.pos;
            const key = this.value();
            // Engines hash a BigInt by its last 64 bits alone, so they may compare each with all.
            this.longKey(start, MAX_HASHED);
            if (typeof key === "bigint") this.count(i * ((this.pos - start - 4) >> 3));
            map.set(key, this.value());
            if (map.size <= i) this.twice(start);
        }
        this.depth--;
        return map;
    }

    /** Reads a list as an object, unless an element shows that it is not a property list. */
    private proplist(count: number): unknown {
        this.enter(count);
        const items: unknown[] = [];
        const object: { [name: string]: unknown } = {};
        let isProplist = count > 0;
        for (let i = 0; i < count; i++) {
            const start = this.pos;
            const isPair = this.buf[start] === Tag.SmallTuple && this.buf[start + 1] === 2;
            if (isPair) this.pos += 2;
            isProplist &&= this.startsAtom();
            if (!isProplist) {
                this.pos = start;
                items.push(this.value());
                continue;
            }
            const name = this.atomName();
            const key = this.atom(name, start);
            const [value] = isPair ? this.sequence(1) : [true];
            // The result if the list is not a property list.
            items.push(isPair ? this.tupleOf(name, [key, value]) : key);
            // The first of two entries with one key counts, as in the proplists module. A list of
            // booleans is not a property list.
            if (name === "__proto__" || key == null || key === !!key) isProplist = false;
            else if (!hasOwn.call(object, name)) object[name] = value;
        }
        this.depth--;
        isProplist &&= this.buf[this.pos] === Tag.Nil;
        const list = this.list(items);
        return isProplist ? object : list;
    }
}
