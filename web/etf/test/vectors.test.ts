// Tests the bytes that Erlang wrote: every line of vectors/etf, both ways.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { decodeTerm, encoder } from "@whittle/etf";
import { describe, hex, unhex } from "./describe.js";

const folder = new URL("../../../../vectors/etf/", import.meta.url);

// OTP 25 writes minor version 1 by default. OTP 26 and later write 2.
for (const [file, minorVersion] of [
    ["otp25.tsv", 1],
    ["otp29.tsv", 2],
] as const) {
    const lines = readFileSync(new URL(file, folder), "utf8")
        .split("\n")
        .filter((line) => line !== "" && !line.startsWith("#"));
    test(`${file}: ${lines.length} terms are what Erlang says they are`, () => {
        assert.ok(lines.length > 250);
        for (const line of lines) {
            const [name, words, bytes] = line.split("\t");
            assert.equal(describe(decodeTerm(unhex(bytes))), words, name);
        }
    });
    test(`${file}: they are written back byte for byte`, () => {
        let read = false;
        let compared = 0;
        for (const line of lines) {
            const [name, , bytes] = line.split("\t");
            // The tags from here on are those that Erlang reads but does not write.
            read ||= name === "pid of another node";
            if (read || name.endsWith("compressed")) continue;
            const minor = name.endsWith("minor 1")
                ? 1
                : name.endsWith("minor 0")
                  ? 0
                  : minorVersion;
            assert.equal(
                hex(encoder({ minorVersion: minor }).encode(decodeTerm(unhex(bytes)))),
                bytes,
                name,
            );
            compared++;
        }
        assert.ok(compared > 200);
    });
}
