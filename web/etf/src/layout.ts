/**
 * How objects with the same property names are written. The names and their order decide the
 * bytes around the values, so these are made once; where code may be generated, a layout becomes
 * one function that reads the properties directly and stores the names four bytes at a time.
 */
import { code } from "./build.js";
import { compare } from "./compare.js";
import { Tag } from "./tags.js";
import type { Term } from "./term.js";
import type { Encodable } from "./encode.js";
import type { Output } from "./output.js";

/** Objects with more names than this are written name by name. */
const MAX_NAMES = 64;
/** Layouts remembered for each number of names. */
const MAX_CHOICES = 16;
/** A layout becomes generated code when it was used this often. */
const WORTH_GENERATING = 8;

type Writer = (output: Output, object: { readonly [key: string]: Encodable }) => void;

/** The layout of one sequence of names. */
export class Layout {
    /** Writes an object that has exactly these names. */
    write: Writer;
    private uses = 0;

    constructor(
        readonly names: readonly string[],
        keys: readonly Uint8Array[],
        ordered: readonly string[],
        generate: boolean,
    ) {
        const size = 5 + keys.reduce((sum, key) => sum + key.length, 0);
        this.write = (output, object) => {
            if (generate && ++this.uses === WORTH_GENERATING)
                this.write = generated(ordered, keys) ?? this.write;
            output.room(size);
            output.mapHead(ordered.length);
            for (let i = 0; i < ordered.length; i++) {
                const key = keys[i];
                output.room(key.length);
                const { buf, pos } = output;
                for (let at = 0; at < key.length; at++) buf[pos + at] = key[at];
                output.pos = pos + key.length;
                output.write(object[ordered[i]]);
            }
        };
    }

    has(names: readonly string[]): boolean {
        for (let i = 0; i < names.length; i++) if (names[i] !== this.names[i]) return false;
        return true;
    }
}

/** All layouts of one encoder. */
export class Layouts {
    private readonly bySize: Layout[][] = Array.from({ length: MAX_NAMES + 1 }, () => []);

    /**
     * @param term what a name becomes
     * @param key its bytes, tag included
     */
    constructor(
        private readonly term: (name: string) => Term,
        private readonly key: (name: string) => Uint8Array,
        private readonly sorted: boolean,
        private readonly generate: boolean,
    ) {}

    /** The layout of objects with these names. */
    of(names: readonly string[]): Layout {
        if (names.length > MAX_NAMES) return this.make(names, false);
        const known = this.bySize[names.length];
        for (let i = 0; i < known.length; i++) if (known[i].has(names)) return known[i];
        const layout = this.make(names, this.generate && known.length < MAX_CHOICES);
        if (known.length < MAX_CHOICES) known.push(layout);
        return layout;
    }

    private make(names: readonly string[], generate: boolean): Layout {
        let ordered = names;
        if (this.sorted)
            ordered = [...names].sort((a, b) => compare(this.term(a), this.term(b), true));
        return new Layout(
            names,
            ordered.map((name) => this.key(name)),
            ordered,
            generate,
        );
    }
}

/**
 * A writer of these names as code, where the page allows that: names are constants, properties are
 * read by name.
 */
function generated(names: readonly string[], keys: readonly Uint8Array[]): Writer | undefined {
    const lines: string[] = [];
    let pending = [Tag.Map, 0, 0, 0, names.length] as number[];
    names.forEach((name, i) => {
        pending.push(...keys[i]);
        lines.push(
            `if(o.pos+${pending.length}>o.buf.length)o.room(${pending.length});`,
            storing(pending),
            `o.write(x[${JSON.stringify(name)}]);`,
        );
        pending = [];
    });
    if (names.length === 0) lines.push("o.room(5);", storing(pending));
    return code("o", "x", lines.join(""));
}

/** Code that writes constant bytes: whole words, the last of which may overlap the one before. */
function storing(bytes: readonly number[]): string {
    const view = new DataView(Uint8Array.from(bytes).buffer);
    const word = (at: number) => `v.setInt32(p+${at},${view.getInt32(at)});`;
    let stores = "{const p=o.pos,v=o.view;";
    if (bytes.length < 4) {
        bytes.forEach((byte, at) => (stores += `v.setUint8(p+${at},${byte});`));
    } else {
        for (let at = 0; at + 4 <= bytes.length; at += 4) stores += word(at);
        if (bytes.length % 4 !== 0) stores += word(bytes.length - 4);
    }
    return `${stores}o.pos=p+${bytes.length}}`;
}
