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

/** Makes the same builder as generated code, if the page allows it. */
export function objectCode(keys: readonly string[], dropped?: string): Builder | undefined {
    const properties = keys.flatMap((key, at) =>
        key === dropped ? [] : [`${JSON.stringify(key)}:v[b+${at}]`],
    );
    return code("v", "b", `return{${properties.join()}}`);
}

/** Assigns the properties one by one. The result is the same as that of a builder. */
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
 * Makes a constructor of ordinary empty objects for one sequence of keys. V8 guesses the size of
 * an object from the number of assignments in its constructor, even if all assign to one name.
 * Later V8 reduces that size to the need of the first objects. A `{}` has room for four properties
 * only; V8 copies it to a larger place for every few more. With `{}` a message of 10,000 objects of
 * 20 properties takes 1.2 times as long (bench/etf/README.md).
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
 * Makes a function of these two parameters. Returns undefined if the page forbids generated code.
 * After that it does not try again, because the browser may report each attempt as a violation.
 */
export function code<F>(first: string, second: string, body: string): F | undefined {
    try {
        if (!forbidden) return new Function(first, second, body) as F;
    } catch {
        forbidden = true;
    }
    return undefined;
}
