/**
 * Writes objects with known property names. The names and their order determine the bytes around
 * the values, so the layout makes these bytes once. If the page allows generated code, a layout
 * becomes one function. It reads the properties directly and stores the names four bytes at a time.
 */
import { code } from "./build.js";
import { compareText } from "./compare.js";
import { Tag } from "./tags.js";
import type { Encodable, EncodeOptions } from "./encode.js";
import type { Output } from "./output.js";

/** The largest number of names in an object with a layout. */
const MAX_NAMES = 64;
/** The largest number of characters in a name of a layout. */
const MAX_NAME = 64;
/** The number of layouts that the encoder remembers for each number of names. */
const MAX_CHOICES = 16;
/** A layout becomes generated code after this number of uses. */
const WORTH_GENERATING = 8;

type Writer = (output: Output, object: { readonly [key: string]: Encodable }) => void;

/** The layout of one sequence of names. */
export interface Layout {
    readonly names: readonly string[];
    /** Writes an object that has exactly these names. */
    write: Writer;
}

/**
 * Finds the layout of objects with these names among the layouts of one encoder, or makes it.
 * Returns undefined if a layout would not save time.
 * @param key returns the bytes of a name, including the tag
 */
export function layouts(
    key: (name: string) => Uint8Array,
    { deterministic, codegen = true }: EncodeOptions,
): (names: readonly string[]) => Layout | undefined {
    const bySize: Layout[][] = [];
    return (names) => {
        if (names.length > MAX_NAMES) return undefined;
        const known = (bySize[names.length] ??= []);
        for (let i = 0; i < known.length; i++) if (isSame(known[i].names, names)) return known[i];
        if (known.length >= MAX_CHOICES || names.some(({ length }) => length > MAX_NAME))
            return undefined;
        // Atoms and text have the same order by their code points.
        const ordered = deterministic ? [...names].sort(compareText) : names;
        const layout = layoutOf(names, ordered, ordered.map(key), codegen);
        known.push(layout);
        return layout;
    };
}

function isSame(names: readonly string[], others: readonly string[]): boolean {
    for (let i = 0; i < names.length; i++) if (names[i] !== others[i]) return false;
    return true;
}

function layoutOf(
    names: readonly string[],
    ordered: readonly string[],
    keys: readonly Uint8Array[],
    generate: boolean,
): Layout {
    let uses = 0;
    const words = keys.map(wordsOf);
    const layout: Layout = {
        names,
        write(output, object) {
            if (generate && ++uses === WORTH_GENERATING)
                layout.write = generated(ordered, keys) ?? layout.write;
            output.head(Tag.Map, ordered.length);
            let i = 0;
            try {
                for (; i < ordered.length; i++) {
                    const key = keys[i];
                    const own = words[i];
                    output.room(key.length + 3);
                    const { pos, view } = output;
                    for (let at = 0; at < own.length; at++) view.setInt32(pos + 4 * at, own[at]);
                    output.pos = pos + key.length;
                    output.write(object[ordered[i]]);
                }
            } catch (error) {
                throw output.at(ordered[i], error);
            }
        },
    };
    return layout;
}

/**
 * Makes a writer of these names as code, where the page allows it. Names are constants, and the
 * code reads properties by name.
 */
function generated(names: readonly string[], keys: readonly Uint8Array[]): Writer | undefined {
    let body = "";
    let pending = [Tag.Map, 0, 0, 0, names.length] as number[];
    names.forEach((name, i) => {
        const text = JSON.stringify(name);
        body += `${storing([...pending, ...keys[i]])}n=${text};o.write(x[${text}]);`;
        pending = [];
    });
    return code("o", "x", `let n;try{${body || storing(pending)}}catch(e){throw o.at(n,e)}`);
}

/**
 * Makes code that writes constant bytes as whole words. The next write overwrites the end of the
 * last word.
 */
function storing(bytes: readonly number[]): string {
    const size = bytes.length + 3;
    let stores = `{if(o.pos+${size}>o.buf.length)o.room(${size});const p=o.pos,v=o.view;`;
    wordsOf(bytes).forEach((word, at) => (stores += `v.setInt32(p+${4 * at},${word});`));
    return `${stores}o.pos=p+${bytes.length}}`;
}

/** Returns bytes as whole words. Zeros fill the last word. */
function wordsOf(bytes: ArrayLike<number>): Int32Array {
    const words = new Int32Array((bytes.length + 3) >> 2);
    const view = new DataView(words.buffer);
    for (let at = 0; at < bytes.length; at++) view.setUint8(at, bytes[at]);
    return words.map((_, at) => view.getInt32(4 * at));
}
