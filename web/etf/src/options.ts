/** Checks options. TypeScript checks them too, and plain JavaScript does not. */

/**
 * The values that each option may have, as JSON and with bars between them, or `function`;
 * undefined for one that is checked elsewhere.
 */
export type Choices<T> = { readonly [K in keyof Required<T>]: string | undefined };

/**
 * Refuses an option with an unknown name or value, with a TypeError. A limit in the wrong place
 * must not go unnoticed.
 */
export function checkOptions<T extends object>(options: T, choices: Choices<T>): void {
    checkNames(options, choices);
    for (const [name, value] of Object.entries<unknown>(options as {})) {
        const choice = choices[name as keyof T];
        const said: string = (JSON.stringify(value) as string | undefined) ?? typeof value;
        if (value !== undefined && choice && !choice.split("|").includes(said))
            throw new TypeError(`${name} must be ${choice}, not ${said}`);
    }
}

/**
 * @internal Tells whether an object has a property itself, not by its prototype.
 */
export const hasOwn = Object.prototype.hasOwnProperty;

/** Refuses ordered fields with names that JavaScript puts before all others. */
export function checkOrder(fields: object): void {
    if (Object.keys(fields).some((name) => /^\d+$/.test(name)))
        throw new TypeError("a record's fields cannot have numbers for names");
}

/** Refuses names outside this list. */
export function checkNames(given: object, known: object): void {
    if (Object(given) !== given || Array.isArray(given))
        throw new TypeError("options must be an object");
    for (const name of Object.keys(given))
        if (!hasOwn.call(known, name)) throw new TypeError(`unknown option ${name}`);
}
