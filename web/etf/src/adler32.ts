/** The checksum of zlib streams (RFC 1950), as a signed integer. */
export function adler32(bytes: Uint8Array): number {
    let a = 1;
    let b = 0;
    for (let at = 0; at < bytes.length; at++) {
        a = (a + bytes[at]) % 65521;
        b = (b + a) % 65521;
    }
    return (b << 16) | a;
}
