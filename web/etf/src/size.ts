/** How many bytes a value takes, without writing them. */
import type { Encodable, EncodeOptions } from "./encode.js";
import { EtfError } from "./error.js";
import { ErlMap } from "./map.js";
import { isBytes, isLatin1 } from "./output.js";
import {
    Atom, Binary, BitBinary, ErlRecord, ExportFun, Float, Fun, ImproperList, LocalTerm, OldFun, Pid, Port, Reference,
    Tuple,
} from "./term.js";
import { utf8Length } from "./utf8.js";

/**
 * The number of bytes that `encode` would make of the value with these options, the leading 131
 * included, if it accepts it; `deflate` is not looked at. It costs no memory.
 */
export function byteSize(value: Encodable, options: EncodeOptions = {}): number {
    return 1 + new Sizer(options).of(value);
}

class Sizer {
    private readonly atomKeys: boolean;
    private readonly nullSize: number;
    private readonly latin1Atoms: boolean;
    private readonly floatSize: number;

    constructor(options: EncodeOptions) {
        const version = options.minorVersion ?? 2;
        this.atomKeys = options.keys === "atom";
        this.latin1Atoms = version < 2;
        this.floatSize = version === 0 ? 32 : 9;
        this.nullSize = this.atom(options.null ?? "null");
    }

    of(value: Encodable): number {
        switch (typeof value) {
            case "string": return 5 + utf8Length(value);
            case "number": return this.number(value);
            case "boolean": return this.atom(String(value));
            case "undefined": return this.atom("undefined");
            case "bigint": return this.big(value);
            case "symbol": return this.atom(value.description ?? "");
            case "object": return value === null ? this.nullSize : this.object(value);
            default: throw new EtfError("encode", `a ${typeof value} is no term`, -1);
        }
    }

    private number(value: number): number {
        if (!Number.isInteger(value) || Object.is(value, -0)) return this.floatSize;
        if ((value | 0) === value) return value >= 0 && value < 256 ? 2 : 5;
        return this.big(BigInt(value));
    }

    private big(value: bigint): number {
        const small = Number(value);
        if ((small | 0) === small && Number.isSafeInteger(small)) return this.number(small);
        const length = ((value < 0n ? -value : value).toString(16).length + 1) >> 1;
        return length < 256 ? 3 + length : 6 + length;
    }

    private atom(name: string): number {
        if (this.latin1Atoms && isLatin1(name)) return 3 + name.length;
        const length = utf8Length(name);
        return length < 256 ? 2 + length : 3 + length;
    }

    private all(values: readonly Encodable[]): number {
        let size = 0;
        for (let i = 0; i < values.length; i++) size += this.of(values[i]);
        return size;
    }

    private list(items: readonly Encodable[], tail: Encodable): number {
        if (Array.isArray(tail)) {
            if (items.length === 0) return 1;
            return items.length <= 0xffff && isBytes(items) ? 3 + items.length : 6 + this.all(items);
        }
        return 5 + this.all(items) + this.of(tail);
    }

    private object(value: object): number {
        if (Array.isArray(value)) return this.list(value as readonly Encodable[], []);
        if (value instanceof Binary || value instanceof Uint8Array) return 5 + value.length;
        if (value instanceof Atom) return this.atom(value.name);
        if (value instanceof Float) return this.floatSize;
        if (value instanceof Tuple) {
            return (value.elements.length < 256 ? 2 : 5) + this.all(value.elements);
        }
        if (value instanceof ErlMap) return 5 + this.all(value.keys) + this.all(value.values);
        if (value instanceof Map) return 5 + this.all([...value.keys() as Iterable<Encodable>]) + this.all([...value.values() as Iterable<Encodable>]);
        if (value instanceof ImproperList) {
            const { items, tail } = value;
            return Array.isArray(tail) ? this.list([...items, ...tail as readonly Encodable[]], []) : this.list(items, tail);
        }
        if (value instanceof BitBinary) return 6 + value.bytes.length;
        if (value instanceof Pid) return 13 + this.atom(value.node.name);
        if (value instanceof Port) return (value.wide || value.id > 0xffffffff ? 13 : 9) + this.atom(value.node.name);
        if (value instanceof Reference) return 7 + this.atom(value.node.name) + 4 * value.words.length;
        if (value instanceof ExportFun) return 1 + this.all([value.module, value.fun, value.arity]);
        if (value instanceof Fun) return 30 + this.all([value.module, value.oldIndex, value.oldUniq, value.pid]) + this.all(value.free);
        if (value instanceof OldFun) return 5 + this.all([value.pid, value.module, value.index, value.uniq]) + this.all(value.free);
        if (value instanceof ErlRecord) return 6 + this.all([value.module, value.name]) + this.all(value.fields) + this.all(value.values);
        if (value instanceof LocalTerm) return 1 + value.bytes.length;
        let size = 5;
        for (const [name, held] of Object.entries(value as { readonly [key: string]: Encodable })) {
            size += (this.atomKeys ? this.atom(name) : 5 + utf8Length(name)) + this.of(held);
        }
        return size;
    }
}
