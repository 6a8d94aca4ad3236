// Makes terms of a given depth, in each way in which a term can be deep. As a program (with node's
// --stack-size) it decodes terms of the default depth.
import { fileURLToPath } from "node:url";
import { defaultLimits, plainDecoder, termDecoder } from "@whittle/etf";

/** The bytes that open and end a level: of a list, a tuple, a map by value and by key, a fun. */
const levels: readonly (readonly [open: readonly number[], close: readonly number[]])[] = [
    [[108, 0, 0, 0, 1], [106]],
    [[104, 1], []],
    [[116, 0, 0, 0, 1, 97, 1], []],
    [[116, 0, 0, 0, 1], [106]],
    [
        [
            112,
            0,
            0,
            0,
            0,
            0,
            ...Array<number>(16).fill(0),
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            1,
            119,
            1,
            97,
            97,
            0,
            97,
            0,
            88,
            119,
            1,
            97,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ],
        [],
    ],
];

/** For each way, a function that makes a term with so many levels. */
export const nests = levels.map(
    ([open, close]) =>
        (depth: number): Uint8Array =>
            Buffer.concat([
                Uint8Array.of(131),
                ...Array<Uint8Array>(depth).fill(Uint8Array.from(open)),
                Uint8Array.of(106),
                ...Array<Uint8Array>(depth).fill(Uint8Array.from(close)),
            ]),
);

if (process.argv[1] === fileURLToPath(import.meta.url)) {
    for (const make of nests) {
        termDecoder().decode(make(defaultLimits.maxDepth));
        plainDecoder({ maps: "map" }).decode(make(defaultLimits.maxDepth));
    }
}
