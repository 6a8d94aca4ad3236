/** Copies bytes to their own memory, for `fetch`, `Blob` and others that take no shared memory. */
export type Bytes = ReturnType<typeof Uint8Array.from>;

/**
 * Returns the same bytes with room for `wanted`. If the array is too small, copies the first `used`
 * bytes to an array of twice the length, but of no more than `most`.
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

/** Joins these bytes, a size in four bytes, and the rest. */
export function sized(first: readonly number[], size: number, rest: Uint8Array): Bytes {
    const at = first.length;
    const whole = new Uint8Array(at + 4 + rest.length);
    whole.set(first);
    viewOf(whole).setUint32(at, size);
    whole.set(rest, at + 4);
    return whole;
}

/** Returns a DataView of the memory of these bytes. */
export function viewOf(bytes: Uint8Array): DataView {
    return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}
