// Defines inputs, decoders and checks for several tests of hostile input.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { decodeTerm, EtfError, plainDecoder, termDecoder, type TermDecoder } from "@whittle/etf";
import { unhex } from "./describe.js";

/** The terms that OTP 25 and OTP 29 wrote. */
export const vectors = ["otp25.tsv", "otp29.tsv"].flatMap((file) =>
    readFileSync(new URL(`../../../../vectors/etf/${file}`, import.meta.url), "utf8")
        .split("\n")
        .filter((line) => line.includes("\t"))
        .map((line) => unhex(line.split("\t")[2])),
);

/** One decoder of the term model, and three of the plain view with other options. */
export const decoders: TermDecoder<unknown>[] = [
    termDecoder(),
    plainDecoder(),
    plainDecoder({
        codegen: false,
        atoms: "symbol",
        binaries: "either",
        maps: "map",
        tuples: "class",
        limits: { maxAtoms: 100000 },
    }),
    plainDecoder({
        atoms: "class",
        binaries: "bytes",
        charlists: "text",
        proplists: true,
        records: { person: ["a", "b"] },
        structs: "drop",
    }),
];

/** Checks that the bytes are refused with this code, at this offset. */
export function refused(
    bytes: Uint8Array | readonly number[],
    code: EtfError["code"],
    offset?: number,
): void {
    assert.throws(
        () => decodeTerm(Uint8Array.from(bytes)),
        (error: unknown) => {
            assert.ok(error instanceof EtfError);
            assert.equal(error.code, code);
            if (offset !== undefined) assert.equal(error.offset, offset);
            return true;
        },
    );
}

/** Returns the output of a program that runs in the folder of the package, in a separate Node. */
export function printed(program: string): string {
    const said = spawnSync(process.execPath, ["--input-type=module", "--eval", program], {
        cwd: fileURLToPath(new URL("../..", import.meta.url)),
    });
    assert.equal(said.status, 0, said.stderr.toString());
    return said.stdout.toString().trim();
}
