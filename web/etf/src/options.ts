/** What options may say: TypeScript checks it, plain JavaScript does not. */

/** The words that each option may be, if it is one of some words. */
export type Choices<T> = { readonly [K in keyof Required<T>]: string | undefined };

/**
 * Refuses an option that has no such name or none of its words, with a TypeError: a limit that
 * stands in the wrong place must not go unnoticed.
 */
export function checkOptions<T extends object>(options: T, choices: Choices<T>): void {
    for (const [name, value] of Object.entries(options)) {
        if (!(name in choices)) throw new TypeError(`no option is called ${name}`);
        const words = choices[name as keyof T];
        if (words === undefined || value === undefined) continue;
        const choice = words.split(" ");
        if (!choice.includes(String(value)))
            throw new TypeError(`${name} is ${choice.join(" or ")}, not ${String(value)}`);
    }
}
