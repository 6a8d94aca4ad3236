/**
 * Reads terms into plain JavaScript values. What two terms turn into may be the same value: an
 * atom and a binary, a tuple and a list, 1 and 1.0. {@link PlainOptions} says where to draw lines.
 */
import { canGenerate, fill, objectBuilder, type Builder } from "./build.js";
import type { Limits } from "./limits.js";
import { RareReader, type RecordHead } from "./rare.js";
import type { Inflate } from "./reader.js";
import { MAX_KEYS } from "./shape.js";
import { Tag } from "./tags.js";
import { Atom, Tuple } from "./term.js";

/** What terms turn into in the plain view. */
export interface PlainOptions {
    /**
     * What atoms become: `string` (default), `symbol` (`Symbol.for(name)`), or `class` (an `Atom`).
     * `true` and `false` are booleans, `nil` and `null` are null and `undefined` is undefined in
     * all three.
     */
    readonly atoms?: "string" | "symbol" | "class";
    /**
     * What binaries become: `text` (default; one that is not UTF-8 is an error), `bytes` (a
     * Uint8Array that shares the input's memory), or `either` (text where it is UTF-8, else bytes).
     */
    readonly binaries?: "text" | "bytes" | "either";
    /**
     * What maps become: `object` (default; keys are text, atoms or integers, and `__proto__` is
     * an error), or `map` (a Map with any keys).
     */
    readonly maps?: "object" | "map";
    /** What tuples become: `array` (default) or `class` (a `Tuple`). */
    readonly tuples?: "array" | "class";
    /**
     * What a list of bytes becomes that Erlang sent as a string: `array` (default) or `text`
     * (one character for each byte). Erlang does not say which lists are meant as text.
     */
    readonly charlists?: "array" | "text";
    /**
     * Whether lists that hold only atoms and `{atom, Value}` pairs become objects. Default false.
     */
    readonly proplists?: boolean;
    /**
     * Records to make objects of, by tag: `{ person: ["name", "age"] }`. A tuple with that tag and
     * as many fields becomes an object without the tag. Default none. Native records always do.
     */
    readonly records?: { readonly [tag: string]: readonly string[] };
    /** Whether the `__struct__` key of Elixir structs is kept (default) or dropped from objects. */
    readonly structs?: "keep" | "drop";
    /**
     * Whether objects may be built by generated code, which is faster. Default: where the page
     * allows it.
     */
    readonly codegen?: boolean;
}

/** How the maps of one shape are built. */
interface Leaf {
    /** Makes the object of the values on the stack from `base` on. */
    build: Builder;
    /** How often it was met. */
    uses: number;
}

/** Code is generated for a shape only when it was met this often: it costs as much as 100 maps. */
const WORTH_GENERATING = 8;

/** A reader of the plain view. */
export class PlainReader extends RareReader<unknown, string, Leaf> {
    private readonly atomStyle: "string" | "symbol" | "class";
    private readonly binaryStyle: "text" | "bytes" | "either";
    private readonly mapsAsMaps: boolean;
    private readonly tuplesAsClass: boolean;
    private readonly charlistsAsText: boolean;
    private readonly proplists: boolean;
    private readonly records: ReadonlyMap<string, readonly string[]>;
    private readonly dropped: string | undefined;
    private readonly codegen: boolean;
    private readonly symbols = new Set<string>();

    constructor(options: PlainOptions, limits: Limits, inflate: Inflate | undefined) {
        super(limits, inflate);
        this.atomStyle = options.atoms ?? "string";
        this.binaryStyle = options.binaries ?? "text";
        this.mapsAsMaps = options.maps === "map";
        this.tuplesAsClass = options.tuples === "class";
        this.charlistsAsText = options.charlists === "text";
        this.proplists = options.proplists ?? false;
        this.records = new Map(Object.entries(options.records ?? {}));
        this.dropped = options.structs === "drop" ? "__struct__" : undefined;
        this.codegen = options.codegen ?? canGenerate();
    }

    protected value(): unknown {
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
                return buf[pos + 1];
            case Tag.Integer:
                this.pos = pos + 5;
                return view.getInt32(pos + 1);
            case Tag.NewFloat: {
                const value = view.getFloat64(pos + 1);
                if (value - value !== 0) this.fail("value", "a float must be finite");
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
            case Tag.List: {
                const count = view.getUint32(pos + 1);
                this.pos = pos + 5;
                return this.proplists ? this.proplist(count) : this.list(this.sequence(count));
            }
            case Tag.Map: {
                const size = view.getUint32(pos + 1);
                this.pos = pos + 5;
                return this.mapsAsMaps ? this.entries(size) : this.object(size);
            }
            case Tag.SmallTuple:
                this.need(pos, 2);
                this.pos = pos + 2;
                return this.tuple(buf[pos + 1]);
            case Tag.LargeTuple: {
                const count = view.getUint32(pos + 1);
                this.pos = pos + 5;
                return this.tuple(count);
            }
            case Tag.String: {
                if (!this.charlistsAsText) return this.byteList();
                const length = view.getUint16(pos + 1);
                this.pos = pos + 3 + length;
                return this.latin1(pos + 3, length);
            }
            case Tag.SmallBig:
                this.need(pos, 3);
                return this.big(pos + 2, buf[pos + 1]);
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

    /** The property that a map key names. */
    private keyName(): string {
        const { buf, pos, view } = this;
        let name: string;
        switch (buf[pos]) {
            case Tag.Binary: {
                const length = view.getUint32(pos + 1);
                this.pos = pos + 5 + length;
                name = this.text(pos + 5, length);
                break;
            }
            case Tag.SmallAtomUtf8:
            case Tag.AtomUtf8:
            case Tag.SmallAtom:
            case Tag.Atom:
                name = this.atomName();
                break;
            case Tag.SmallInteger:
            case Tag.Integer:
            case Tag.SmallBig:
                return String(this.value());
            default:
                this.need(pos, 1);
                return this.fail("key", "a property is named by text, an atom or an integer");
        }
        return this.property(name, pos);
    }

    /** Refuses the one name that would set a prototype and not a property. */
    private property(name: string, pos: number): string {
        if (name === "__proto__") this.fail("key", "__proto__ cannot be a property", pos);
        return name;
    }

    /** The atom of this name, which stands at `pos`. */
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
                return this.atomStyle === "string" ? name : this.made(name, pos);
        }
    }

    /** An atom as a symbol or an object. */
    private made(name: string, pos: number): symbol | Atom {
        if (this.atomStyle === "class") return this.named(name);
        if (this.symbols.size >= this.limits.maxAtoms && !this.symbols.has(name)) {
            this.over("maxAtoms", pos);
        }
        this.symbols.add(name);
        return Symbol.for(name);
    }

    protected float(value: number): number {
        return value;
    }

    protected binary(start: number, length: number): string | Uint8Array {
        if (this.binaryStyle === "text") return this.text(start, length);
        this.need(start, length);
        if (this.binaryStyle === "either") {
            try {
                return this.text(start, length);
            } catch {
                // Not UTF-8: bytes it is.
            }
        }
        return this.buf.subarray(start, start + length);
    }

    private tuple(count: number): unknown {
        if (this.records.size > 0 && this.startsAtom()) {
            const start = this.pos;
            const fields = this.records.get(this.atomName());
            if (fields !== undefined && fields.length === count - 1) {
                return fill({}, fields, this.sequence(count - 1), 0);
            }
            this.pos = start;
        }
        const elements = this.sequence(count);
        return this.tuplesAsClass ? new Tuple(elements) : elements;
    }

    protected record({ fields }: RecordHead): unknown {
        const names = fields.map((field) => this.property(field.name, this.pos));
        return fill({}, names, this.sequence(names.length), 0);
    }

    private object(size: number): unknown {
        this.enter(2 * size);
        if (size > MAX_KEYS) return this.largeObject({}, 0, size);
        const { stack, sp: base } = this;
        let shape = this.shapeRoot(size);
        for (let i = 0; i < size; i++) {
            const next = this.step(shape);
            if (next === undefined) {
                const object = fill({}, shape.keys, stack, base);
                this.sp = base;
                object[this.stray!] = this.value();
                return this.largeObject(object, i + 1, size);
            }
            shape = next;
            this.sp = base + i;
            const value = this.value();
            stack[base + i] = value;
        }
        this.sp = base;
        this.depth--;
        const leaf = (shape.leaf ??= {
            build: objectBuilder(shape.keys, false, this.dropped),
            uses: 0,
        });
        if (++leaf.uses === WORTH_GENERATING && this.codegen)
            leaf.build = objectBuilder(shape.keys, true, this.dropped);
        return leaf.build(stack, base);
    }

    /** The rest of a map whose keys have no shape. */
    private largeObject(object: { [name: string]: unknown }, done: number, size: number): unknown {
        for (let i = done; i < size; i++) {
            const start = this.pos;
            const name = this.keyName();
            if (hasOwn.call(object, name)) this.twice(start);
            object[name] = this.value();
        }
        this.depth--;
        if (this.dropped !== undefined) delete object[this.dropped];
        return object;
    }

    private entries(size: number): unknown {
        this.enter(2 * size);
        const map = new Map<unknown, unknown>();
        for (let i = 0; i < size; i++) {
            const start = this.pos;
            map.set(this.value(), this.value());
            if (map.size <= i) this.twice(start);
        }
        this.depth--;
        return map;
    }

    /** A list that becomes an object unless an element shows that it is not a property list. */
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
            let value: unknown = true;
            if (isPair) {
                this.enter(1);
                value = this.value();
                this.depth--;
                items.push(this.tuplesAsClass ? new Tuple([key, value]) : [key, value]);
            } else {
                items.push(key);
            }
            // The first of two entries with one key counts, as in the proplists module.
            if (name === "__proto__") isProplist = false;
            else if (!hasOwn.call(object, name)) object[name] = value;
        }
        this.depth--;
        isProplist &&= this.buf[this.pos] === Tag.Nil;
        const list = this.list(items);
        return isProplist ? object : list;
    }
}

const hasOwn = Object.prototype.hasOwnProperty;
