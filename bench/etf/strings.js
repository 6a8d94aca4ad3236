// Measures up to which length our own code turns text into bytes, and bytes into text, faster than the
// platform. The results set two constants: SHORT in web/etf/src/utf8.ts and in output.ts.
// node strings.js prints nanoseconds for a string, the median of 15 rounds of 20,000 strings. The
// variants run in turn. With --portable, the platform's functions are those of browsers (TextEncoder's
// encodeInto, TextDecoder) and not Node's own.
import { decodeUtf8 } from "../../web/etf/dist/utf8.js";

const portable = process.argv.includes("--portable");
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();
const target = new Uint8Array(4096);
const count = 20000;

function writeByHand(text) {
    for (let at = 0; at < text.length; at++) {
        const unit = text.charCodeAt(at);
        if (unit >= 0x80) throw new Error("not ASCII");
        target[at] = unit;
    }
    return text.length;
}

const { utf8Write } = Buffer.prototype;
const writeByPlatform = portable
    ? (text) => encoder.encodeInto(text, target.subarray(0, 3 * text.length)).written
    : (text) => utf8Write.call(target, text, 0, 3 * text.length);

/** Half of the characters are ASCII, half take two bytes: text for which there is no fast path. */
const mixed = (length) => "aå".repeat(length).slice(0, length);
const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];
let kept = 0;

console.log(`Node ${process.version}, ${portable ? "the platform as in browsers" : "Node's own"}`);
console.log("| units | write by hand | by the platform | read by hand | by the platform |");
console.log("|---|---|---|---|---|");
for (const length of [8, 16, 24, 32, 40, 48, 64, 96]) {
    // Different strings, cut again for each round: flat strings that no code has read yet.
    const pool = "abcdefghijklmnopqrstuvwxyz ".repeat(4096);
    const texts = () => Array.from({ length: count }, (_, at) => pool.slice(at, at + length));
    const bytes = encoder.encode(mixed(length));
    const ways = {
        hand: (list) => list.forEach((text) => (kept += writeByHand(text))),
        platform: (list) => list.forEach((text) => (kept += writeByPlatform(text))),
        // Past SHORT, decodeUtf8 uses the platform, so both are the same.
        readHand: (list) => list.forEach(() => (kept += decodeUtf8(bytes, 0, bytes.length).length)),
        readPlatform: (list) =>
            list.forEach(() => (kept += strict.decode(bytes.subarray(0)).length)),
    };
    const times = Object.fromEntries(Object.keys(ways).map((way) => [way, []]));
    for (let round = -3; round < 15; round++) {
        for (const [way, run] of Object.entries(ways)) {
            const list = texts();
            const start = performance.now();
            run(list);
            if (round >= 0) times[way].push(((performance.now() - start) * 1e6) / count);
        }
    }
    const cells = Object.values(times).map((list) => median(list).toFixed(0));
    console.log(`| ${length} | ${cells.join(" | ")} |`);
}
if (kept === 0) throw new Error("nothing was done");
