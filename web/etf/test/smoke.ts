// Runs the same checks wherever JavaScript runs: Node, Deno, Bun, a browser. It uses only the
// language and its arguments: the package's modules and the lines of vectors/etf.
type Etf = typeof import("@whittle/etf");
type Async = typeof import("@whittle/etf/async");
type Light = typeof import("@whittle/etf/decode");

/** The number of successful runs of each check. */
export interface Tried {
    generated: boolean;
    terms: number;
    truncations: number;
    inflated: number;
    damaged: number;
    texts: number;
}

function check(holds: boolean, what: string): void {
    if (!holds) throw new Error(`smoke test: ${what}`);
}

export async function smoke(
    etf: Etf,
    { asyncDecoder, inflated }: Async,
    { termDecoder }: Light,
    lines: readonly string[],
): Promise<Tried> {
    const tried = { generated: true, terms: 0, truncations: 0, inflated: 0, damaged: 0, texts: 0 };
    try {
        new Function("return 1");
    } catch {
        tried.generated = false;
    }
    const later = asyncDecoder(termDecoder());
    const refuses = (bytes: Uint8Array): boolean => {
        try {
            etf.decodeTerm(bytes);
            return false;
        } catch (error) {
            return error instanceof etf.EtfError;
        }
    };
    const refusesLater = async (bytes: Uint8Array): Promise<boolean> =>
        later.decode(bytes).then(
            () => false,
            (error: unknown) => error instanceof etf.EtfError,
        );
    for (const line of lines.filter((text) => text.includes("\t"))) {
        const [name, , hex] = line.split("\t");
        const pairs = hex.match(/../g) ?? [];
        const bytes = Uint8Array.from(pairs, (pair) => parseInt(pair, 16));
        const term = etf.decodeTerm(bytes);
        const again = etf.encode(term);
        check(etf.equal(etf.decodeTerm(again), term), `${name} comes back`);
        check(etf.byteSize(term) === again.length, `${name} has its size`);
        tried.terms++;
        for (let length = 0; length < bytes.length; length++) {
            check(refuses(bytes.subarray(0, length)), `${name} cut to ${length} is refused`);
            tried.truncations++;
        }
        check(etf.equal(await later.decode(bytes), term), `${name} is read later, too`);
        if (bytes[1] !== 80) continue;
        tried.inflated++;
        const plain = await inflated(bytes);
        check(plain.length === 1 + new DataView(bytes.buffer).getUint32(2), `${name} is inflated`);
        const wrong = (change: (copy: Uint8Array) => Uint8Array | void): Uint8Array => {
            const copy = bytes.slice();
            return change(copy) ?? copy;
        };
        const last = bytes.length - 1;
        const faults = [
            wrong((copy) => copy.subarray(0, last)),
            wrong((copy) => copy.subarray(0, last - 5)),
            wrong((copy) => copy.subarray(0, 7)),
            wrong((copy) => copy.subarray(0, 3)),
            wrong((copy) => Uint8Array.of(...copy, 1)),
            wrong((copy) => {
                copy[last] ^= 1;
            }),
            wrong((copy) => {
                copy[6] ^= 1;
            }),
            wrong((copy) => {
                copy[5] += 1;
            }),
            wrong((copy) => {
                copy[5] -= 1;
            }),
            wrong((copy) => {
                copy[2] = 255;
            }),
        ];
        for (const [at, fault] of faults.entries()) {
            check(await refusesLater(fault), `${name} with fault ${at} is refused`);
            tried.damaged++;
        }
    }
    const texts: string[] = [];
    for (let n = 0; n < 300; n++) texts.push("x".repeat(n), "å".repeat(n), "a信🛰".repeat(n));
    texts.push("y".repeat(140000), "λ".repeat(140000));
    for (let round = 0; round < 3; round++) {
        const value = { texts, more: texts.map((text) => ({ text, n: 255, none: null, x: 1.5 })) };
        const back = etf.decode(etf.encode(value)) as typeof value;
        texts.forEach((text, at) => {
            check(back.texts[at] === text && back.more[at].text === text, `text ${at} is kept`);
            tried.texts++;
        });
        check(JSON.stringify(back) === JSON.stringify(value), "objects come back");
    }
    return tried;
}
