/**
 * Builds objects from the values of a map and its keys. Generated code makes an object in one
 * step, with all its properties in place; pages whose content security policy forbids that get
 * the same object property by property.
 */

type Plain = { [name: string]: unknown };

/** Makes an object of values that stand in an array from `base` on. */
export type Builder = (values: readonly unknown[], base: number) => Plain;

/** A builder for these keys, all different and none of them `__proto__`; `dropped` is left out. */
export function objectBuilder(
    keys: readonly string[],
    generate: boolean,
    dropped?: string,
): Builder {
    if (generate) {
        const properties = keys.flatMap((key, at) =>
            key === dropped ? [] : [`${JSON.stringify(key)}:v[b+${at}]`],
        );
        return new Function("v", "b", `return{${properties.join()}}`) as Builder;
    }
    const Roomy = roomy();
    return (values, base) => fill(new Roomy(), keys, values, base, dropped);
}

/** Gives an object the properties that a builder of these keys gives it. */
export function fill(
    object: Plain,
    keys: readonly string[],
    values: readonly unknown[],
    base: number,
    dropped?: string,
): Plain {
    for (let i = 0; i < keys.length; i++) {
        if (keys[i] !== dropped) object[keys[i]] = values[base + i];
    }
    return object;
}

/**
 * A constructor of ordinary empty objects for one sequence of keys. From the assignments in it V8
 * guesses how much room an object needs, and cuts that to what the first objects really took;
 * `{}` has room for four properties, and each few more are copied to a larger place (a message of
 * 10,000 objects of 20 properties takes 1.2 times as long with it: bench/etf/README.md).
 */
function roomy(): new () => Plain {
    function Roomy(this: Plain, never?: boolean): void {
        if (never) {
            this.a = this.b = this.c = this.d = this.e = this.f = this.g = this.h = 0;
            this.i = this.j = this.k = this.l = this.m = this.n = this.o = this.p = 0;
            this.q = this.r = this.s = this.t = this.u = this.v = this.w = this.x = 0;
        }
    }
    Roomy.prototype = Object.prototype;
    return Roomy as unknown as new () => Plain;
}

let generating: boolean | undefined;

/**
 * Whether this page may turn text into code. Asked once, since asking may be reported as a
 * violation.
 */
export function canGenerate(): boolean {
    if (generating === undefined) {
        try {
            generating = new Function("return 1")() === 1;
        } catch {
            generating = false;
        }
    }
    return generating;
}
