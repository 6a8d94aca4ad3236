// Makes random values of JavaScript.
import { type Encodable } from "@whittle/etf";
import { Random } from "./random.js";

/** A random plain value that both JSON and the plain view keep. */
export function value(random: Random, depth: number): Encodable {
    const leaf = () =>
        random.of<() => Encodable>([
            () => random.below(400),
            () => -random.below(70000),
            () => random.next() * 1e6,
            () => random.text(30),
            () => random.of([true, false, null]),
            () => random.word() * 4096,
            () => "key",
        ])();
    if (depth === 0) return leaf();
    return random.of<() => Encodable>([
        leaf,
        () => random.some(5, () => value(random, depth - 1)),
        () =>
            Object.fromEntries(
                random.some(5, () => [random.text(6), value(random, depth - 1)] as const),
            ),
        () =>
            Array.from({ length: 10 }, (_, i) => ({
                id: i,
                name: random.text(20),
                more: value(random, depth - 1),
            })),
    ])();
}
