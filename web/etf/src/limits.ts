import { checkNames } from "./options.js";

/**
 * Limits the use of memory and time for an untrusted input. Every limit counts the use of one call
 * of a decode function. If the input exceeds a limit, the call ends with an {@link EtfError} of
 * code `limit`.
 */
export interface Limits {
    /** Bytes of the whole input. Default 64 MiB. */
    readonly maxBytes: number;
    /**
     * The largest inflated size of a compressed term in bytes, checked before and during inflating.
     * Default 64 MiB.
     */
    readonly maxInflatedBytes: number;
    /**
     * Elements of all containers together. Default 16,777,216. These count:
     * - elements of lists and tuples. A list of bytes counts unless it becomes text. A pair in a
     *   possible property list counts only its value;
     * - keys and values of maps and native records, and values in funs;
     * - the bytes of a map key, with its tag, if there are more than 64 (in the plain view 16,383);
     * - 16 for a bit string as a map key;
     * - with `maps: "map"`, for an integer key of more than 8 bytes: the number of keys before it,
     *   for each 8 bytes.
     */
    readonly maxElements: number;
    /**
     * The depth of nested containers. Default 512. Decoding recurses, so the largest value is
     * {@link MAX_DEPTH}.
     */
    readonly maxDepth: number;
    /** Bytes of one integer's magnitude. Default 8,192 (about 19,700 decimal digits). */
    readonly maxBigBytes: number;
    /**
     * The number of different atoms that one decoder remembers. Default 8,192. Further atoms decode
     * without the cache. The decoder refuses only further symbols, which JavaScript never frees.
     */
    readonly maxAtoms: number;
}

/**
 * The largest depth of nesting. Tests decode terms of this depth, nested in five ways, on V8's
 * usual stack (984 kB), and terms of the default depth on half of it. If less stack is free, the
 * decoder reports the overflow as a `limit`.
 */
export const MAX_DEPTH = 1000;

/** The defaults. */
export const defaultLimits: Limits = Object.freeze({
    maxBytes: 1 << 26,
    maxInflatedBytes: 1 << 26,
    maxElements: 1 << 24,
    maxDepth: 512,
    maxBigBytes: 8192,
    maxAtoms: 8192,
});

/**
 * @internal Fills in the defaults and refuses invalid values.
 */
export function checkedLimits(given: Partial<Limits> = {}): Limits {
    checkNames(given, defaultLimits);
    const limits: { [name: string]: unknown } = { ...defaultLimits };
    for (const name in limits) {
        const said: unknown = given[name as keyof Limits];
        const value = said === undefined ? limits[name] : said;
        const most = name === "maxDepth" ? MAX_DEPTH : Infinity;
        if (typeof value !== "number" || !(value >= 0 && value <= most))
            throw new TypeError(`${name} cannot be ${value}`);
        limits[name] = value;
    }
    return limits as unknown as Limits;
}
