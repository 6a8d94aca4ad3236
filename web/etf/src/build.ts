/**
 * Builds objects from the values of a map and its keys. Generated code makes an object in one
 * step, with all its properties in place; pages whose content security policy forbids that get
 * the same object property by property.
 */

/** Makes an object of values that stand in an array from `base` on. */
export type Builder = (values: readonly unknown[], base: number) => { [name: string]: unknown };

/** A builder for these keys, all different and none of them `__proto__`; `dropped` is left out. */
export function objectBuilder(keys: readonly string[], generate: boolean, dropped?: string): Builder {
    if (generate) {
        const properties = keys.flatMap((key, at) => key === dropped ? [] : [`${JSON.stringify(key)}:v[b+${at}]`]);
        return new Function("v", "b", `return{${properties.join()}}`) as Builder;
    }
    return (values, base) => {
        const object: { [name: string]: unknown } = {};
        for (let i = 0; i < keys.length; i++) {
            if (keys[i] !== dropped) object[keys[i]] = values[base + i];
        }
        return object;
    };
}

let generating: boolean | undefined;

/** Whether this page may turn text into code. Asked once, since asking may be reported as a violation. */
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
