/**
 * Compressed terms with the platform's own inflate, which is asynchronous: the entry point
 * `@whittle/etf/async`. It needs `DecompressionStream` (browsers of 2023, Node 18, Deno, Bun
 * and workers have it) and no inflate of ours.
 * @module
 */
import { adler32 } from "./adler32.js";
import { viewOf } from "./bytes.js";
import type { TermDecoder } from "./decode.js";
import { badStream, EtfError, overLimit } from "./error.js";
import { checkedLimits, type Limits } from "./limits.js";
import { checkNames } from "./options.js";
import { Tag } from "./tags.js";
import { checkBytes } from "./utf8.js";

/** A decoder whose results come later. */
export interface AsyncDecoder<T> {
    /** The one term that `bytes` hold. Rejects with an EtfError for anything else. */
    decode(bytes: Uint8Array): Promise<T>;
}

/** What {@link inflated} may be told. */
export interface InflateLimits {
    /** Bytes that a compressed term may inflate to. Default 64 MiB, as for other decoders. */
    readonly maxInflatedBytes?: number;
}

/**
 * A decoder that inflates compressed terms before it hands them to `decoder`, which needs no
 * inflate. The limits that were given to `decoder` hold for what comes out of inflating (its
 * `maxBytes`, too); how large that may be is asked of `limits` alone. An offset in what was
 * inflated counts a version byte before it. The bytes are read before `decode` returns.
 */
export function asyncDecoder<T>(
    decoder: TermDecoder<T>,
    limits: InflateLimits = {},
): AsyncDecoder<T> {
    const most = checked(limits);
    if (typeof (decoder as TermDecoder<T> | null)?.decode !== "function")
        throw new TypeError("asyncDecoder needs a plainDecoder or a termDecoder");
    return {
        decode: async (bytes) => {
            // Nothing is read after the first wait: the caller may use the memory again.
            const later = inflating(bytes, most);
            return decoder.decode(later ? await later : bytes);
        },
    };
}

function checked(limits: InflateLimits): Limits {
    checkNames(limits, { maxInflatedBytes: 0 });
    return checkedLimits(limits);
}

/**
 * The same term, not compressed: the bytes themselves if they are not, else what they inflate to,
 * which must be as long as its header says. Memory is taken for what came out, never for what
 * the header promises. Typed decoders take it: `person.readBytes(await inflated(bytes))`.
 */
export async function inflated(bytes: Uint8Array, limits: InflateLimits = {}): Promise<Uint8Array> {
    return (await inflating(bytes, checked(limits))) ?? bytes;
}

/** What a compressed term inflates to; undefined for another. */
function inflating(bytes: Uint8Array, most: Limits): Promise<Uint8Array> | undefined {
    checkBytes(bytes, "the input");
    if (bytes[0] !== Tag.Version || bytes[1] !== Tag.Compressed) return undefined;
    // So many has the shortest.
    if (bytes.length < 12) throw damaged();
    const view = viewOf(bytes);
    const size = view.getUint32(2);
    if (size > most.maxInflatedBytes) throw overLimit("maxInflatedBytes", most, 2);
    return unpacked(
        new Blob([bytes.subarray(6) as BlobPart]),
        size,
        view.getInt32(bytes.length - 4),
    );
}

async function unpacked(compressed: Blob, size: number, checksum: number): Promise<Uint8Array> {
    const reader = compressed.stream().pipeThrough(new DecompressionStream("deflate")).getReader();
    const pieces: BlobPart[] = [Uint8Array.of(Tag.Version)];
    let length = 0;
    try {
        while (length <= size) {
            const { done, value } = await reader.read();
            if (done) break;
            pieces.push(value);
            length += value.length;
        }
    } catch {
        throw damaged();
    } finally {
        // What is wrong with the stream was told already.
        reader.cancel().catch(() => undefined);
    }
    if (length !== size) throw damaged("not of the promised size");
    const term = new Uint8Array(await new Blob(pieces).arrayBuffer());
    // Not every platform looks at the checksum, or at what follows it: Deno does not do the
    // first, Node 20 not the second. Of what follows only the end is seen here: bytes that end in
    // the checksum again pass there.
    if (checksum !== adler32(term.subarray(1))) throw damaged();
    // A decoder would inflate it again.
    if (term[1] === Tag.Compressed) throw new EtfError("tag", "no term starts with 80", 0);
    return term;
}

function damaged(reason = "damaged, or other bytes follow it"): EtfError {
    return badStream(reason, 6);
}
