/** The checksum of zlib streams (RFC 1950). */
export function adler32(bytes: Uint8Array): number {
    let a = 1;
    let b = 0;
    for (let at = 0; at < bytes.length; ) {
        // So many sums fit in 32 bits before the remainder must be taken.
        const end = Math.min(at + 5552, bytes.length);
        for (; at < end; at++) {
            a += bytes[at];
            b += a;
        }
        a %= 65521;
        b %= 65521;
    }
    return ((b << 16) | a) >>> 0;
}
