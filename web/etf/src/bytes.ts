/**
 * The same bytes with room for `wanted`: if they have not, in an array twice as long, but of no
 * more than `most`, into which the first `used` of them are copied.
 */
export function grown(
    bytes: Uint8Array,
    used: number,
    wanted: number,
    most = Infinity,
): Uint8Array {
    if (wanted <= bytes.length) return bytes;
    const larger = new Uint8Array(Math.min(most, Math.max(wanted, bytes.length * 2)));
    larger.set(bytes.subarray(0, used));
    return larger;
}

/** The memory of these bytes as numbers. */
export function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
    return new DataView(buffer, byteOffset, byteLength);
}
