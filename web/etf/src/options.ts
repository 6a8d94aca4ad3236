/** What options may say: TypeScript checks it, plain JavaScript does not. */

/** The words that each option may be, if it is one of some words. */
export type Choices<T> = { readonly [K in keyof Required<T>]: string | undefined };

/**
 * Refuses an option that has no such name or none of its words, with a TypeError: a limit that
 * stands in the wrong place must not go unnoticed.
 */
export function checkOptions<T extends object>(options: T, choices: Choices<T>): void {
    checkNames(options, choices);
    for (const [name, value] of Object.entries(options) as [string, unknown][]) {
        const choice = choices[name as keyof T]?.split(" ");
        if (value !== undefined && choice && !choice.includes(String(value)))
            throw new TypeError(`${name} is ${choice.join(" or ")}, not ${String(value)}`);
    }
}

/** Refuses names that none of these is. */
export function checkNames(given: object, known: object): void {
    for (const name of Object.keys(given))
        if (!(name in known)) throw new TypeError(`no option is called ${name}`);
}
