/**
 * Builds objects from the values of a map and its keys. Generated code makes an object in one
 * step, with all its properties in place; pages whose content security policy forbids that get
 * the same object property by property.
 */

type Plain = { [name: string]: unknown };

/** Makes an object of values that stand in an array from `base` on. */
export type Builder = (values: readonly unknown[], base: number) => Plain;

/** A builder for these keys, all different and none of them `__proto__`; `dropped` is left out. */
export function objectBuilder(keys: readonly string[], dropped?: string): Builder {
    const Roomy = roomy();
    return (values, base) => fill(new Roomy(), keys, values, base, dropped);
}

/** The same as code, where the page allows that. */
export function objectCode(keys: readonly string[], dropped?: string): Builder | undefined {
    const properties = keys.flatMap((key, at) =>
        key === dropped ? [] : [`${JSON.stringify(key)}:v[b+${at}]`],
    );
    return code("v", "b", `return{${properties.join()}}`);
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
 * A constructor of ordinary empty objects for one sequence of keys. From the number of assignments
 * in it (even to one name) V8 guesses how much room an object needs, and cuts that to what the
 * first objects really took; `{}` has room for four properties, and each few more are copied to a
 * larger place (a message of 10,000 objects of 20 properties takes 1.2 times as long with it:
 * bench/etf/README.md).
 */
function roomy(): new () => Plain {
    function Roomy(this: Plain, never?: boolean): void {
        if (never) {
            this.a = this.a = this.a = this.a = this.a = this.a = this.a = this.a = 0;
            this.a = this.a = this.a = this.a = this.a = this.a = this.a = this.a = 0;
            this.a = this.a = this.a = this.a = this.a = this.a = this.a = this.a = 0;
        }
    }
    Roomy.prototype = Object.prototype;
    return Roomy as unknown as new () => Plain;
}

let forbidden = false;

/**
 * A function of these two parameters; undefined where this page may not turn text into code. Asked
 * no more after that, since asking may be reported as a violation.
 */
export function code<F>(first: string, second: string, body: string): F | undefined {
    try {
        if (!forbidden) return new Function(first, second, body) as F;
    } catch {
        forbidden = true;
    }
    return undefined;
}
