/** Returns the integer as a number if a number holds it exactly, else unchanged. */
export function narrowed(integer: bigint): number | bigint {
    const number = Number(integer);
    return Number.isSafeInteger(number) ? number : integer;
}
