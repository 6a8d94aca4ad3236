/**
 * Builds objects from the values of a map and its keys. Generated code makes an object in one step,
 * with all its properties in place. If the content security policy of a page forbids such code, the
 * same object gets its properties one by one.
 */

type Plain = { [name: string]: unknown };

/** Makes an object from the values in an array, starting at `base`. */
export type Builder = (values: readonly unknown[], base: number) => Plain;

/**
 * Makes a builder for these keys, all different and none of them `__proto__`. It leaves out
 * `dropped`.
 */
export function objectBuilder(keys: readonly string[], dropped?: string): Builder {
    const Roomy = roomy();
    return (values, base) => fill(new Roomy(), keys, values, base, dropped);
}

/** Makes the same builder as code, where the page allows it. */
export function objectCode(keys: readonly string[], dropped?: string): Builder | undefined {
    const properties = keys.flatMap((key, at) =>
        key === dropped ? [] : [`${JSON.stringify(key)}:v[b+${at}]`],
    );
    return code("v", "b", `return{${properties.join()}}`);
}

/** Gives an object the same properties as a builder of these keys does. */
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
 * Makes a function of these two parameters. The result is undefined where this page may not turn
 * text into code. After that the code does not ask again, because the browser may report each
 * attempt as a violation.
 */
export function code<F>(first: string, second: string, body: string): F | undefined {
    try {
        if (!forbidden) return new Function(first, second, body) as F;
    } catch {
        forbidden = true;
    }
    return undefined;
}
