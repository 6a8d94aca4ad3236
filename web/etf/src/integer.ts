/** The number, where one holds it exactly. */
export function narrowed(integer: bigint): number | bigint {
    const number = Number(integer);
    return Number.isSafeInteger(number) ? number : integer;
}
