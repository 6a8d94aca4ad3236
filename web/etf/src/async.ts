/**
 * Decodes compressed terms with the platform's own inflate, which is asynchronous.
 *
 * This is the entry point `@whittle/etf/async`. It needs `DecompressionStream` (browsers of 2023,
 * Node 18, Deno, Bun and workers have it), and contains no inflate of its own.
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

/** Decodes terms and gives the results later. */
export interface AsyncDecoder<T> {
    /** Decodes the one term in `bytes`. Rejects with an EtfError for anything else. */
    decode(bytes: Uint8Array): Promise<T>;
}

/** The options of {@link inflated}. */
export interface InflateLimits {
    /**
     * The largest inflated size of a compressed term in bytes. Default 64 MiB, as for other
     * decoders.
     */
    readonly maxInflatedBytes?: number;
}

/**
 * Makes a decoder that inflates compressed terms before it passes them to `decoder`, which needs no
 * inflate. The limits of `decoder` apply to the inflated bytes (its `maxBytes`, too), but only
 * `limits` restricts the size during inflating. An offset in inflated bytes counts a version byte
 * before them. `decode` reads the bytes before it returns.
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
            // The code reads nothing after the first wait, because the caller may use the memory
            // again.
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
 * Returns the same term without compression. Returns an uncompressed term unchanged. The inflated
 * bytes must have the size in the header. The function allocates memory for the inflated bytes,
 * never for the size in the header. Typed decoders take the result:
 * `person.readBytes(await inflated(bytes))`.
 */
export async function inflated(bytes: Uint8Array, limits: InflateLimits = {}): Promise<Uint8Array> {
    return (await inflating(bytes, checked(limits))) ?? bytes;
}

/** Inflates a compressed term. Returns undefined for another term. */
function inflating(bytes: Uint8Array, most: Limits): Promise<Uint8Array> | undefined {
    checkBytes(bytes, "the input");
    if (bytes[0] !== Tag.Version || bytes[1] !== Tag.Compressed) return undefined;
    // The shortest compressed term has this many bytes.
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
        // The code has reported the fault of the stream already.
        reader.cancel().catch(() => undefined);
    }
    if (length !== size) throw damaged("not of the promised size");
    const term = new Uint8Array(await new Blob(pieces).arrayBuffer());
    // Deno does not check the checksum, and Node 20 does not check the bytes after it. So this code
    // checks the last four bytes of the input. It cannot notice additional bytes that end in a copy
    // of the checksum.
    if (checksum !== adler32(term.subarray(1))) throw damaged();
    // A decoder would inflate it again.
    if (term[1] === Tag.Compressed) throw new EtfError("tag", "no term starts with 80", 0);
    return term;
}

function damaged(reason = "damaged, or other bytes follow it"): EtfError {
    return badStream(reason, 6);
}
