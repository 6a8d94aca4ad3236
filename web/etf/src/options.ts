/** Checks options. TypeScript checks them too, and plain JavaScript does not. */

/**
 * The values of each option: JSON values with bars between them, or `function`. Undefined means
 * that other code checks the option.
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
        if (value === undefined || !choice) continue;
        const said: string = (JSON.stringify(value) as string | undefined) ?? typeof value;
        if (!choice.split("|").includes(said))
            throw new TypeError(`${name} must be ${choice}, not ${said}`);
    }
}

/**
 * @internal Returns whether an object itself has a property. Its prototype does not count.
 */
export const hasOwn = Object.prototype.hasOwnProperty;

/** Refuses field names that JavaScript would put before all others: the fields have an order. */
export function checkOrder(fields: object): void {
    checkFields(fields);
    if (Object.keys(fields).some((name) => /^\d+$/.test(name)))
        throw new TypeError("a record's fields cannot have numbers for names");
}

/** Refuses a value that is not an object. */
export function checkFields(fields: object): void {
    if (Object(fields) !== fields || Array.isArray(fields))
        throw new TypeError("an object of fields is missing here");
}

/** Refuses names outside this list. */
export function checkNames(given: object, known: object): void {
    if (Object(given) !== given || Array.isArray(given))
        throw new TypeError("options must be an object");
    for (const name of Object.keys(given))
        if (!hasOwn.call(known, name)) throw new TypeError(`unknown option ${name}`);
}
