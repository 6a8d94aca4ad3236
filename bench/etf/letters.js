// Searches for member letters that make the package small after gzip, and writes
// web/etf/letters.js: node letters.js [TRIES [SEED]]. Each try swaps two letters of one class. The
// search keeps a swap unless it makes the pages larger. It starts from the letters in start.js and
// counts tries, not seconds. So the same sources, Node, esbuild and terser give the same file.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { letters, lettersOf } from "./start.js";
import { minified, pages, zipped } from "../../web/etf/size.js";

const [tries = "1200", seed = "1"] = process.argv.slice(2);
const compile = fileURLToPath(new URL("../../web/etf/compile.js", import.meta.url));
execFileSync("node", [compile, "--marked"]);

/** The pages that the search makes small, the minifier, and the weight of the page. */
const goals = [
    ["all", "terser", 3],
    ["all", "esbuild", 2],
    ["decoder alone (term model)", "esbuild", 1],
    ["decoder alone (plain view)", "esbuild", 3],
    ["decoder alone (plain view)", "terser", 3],
];
/** How many members each class has. */
const counts = new Map();
const scripts = [];
for (const [page, minifier, weight] of goals) {
    const script = (await minified(pages[page]))[minifier];
    // Text, then the class and the place of a name, and again.
    const parts = script.split(/q_(\w+?)_(\d+)_q/);
    for (let at = 1; at < parts.length; at += 3)
        counts.set(parts[at], Math.max(counts.get(parts[at]) ?? 0, Number(parts[at + 1]) + 1));
    scripts.push({ parts, weight });
}

const spare = [...letters, ...[...letters].map((letter) => `e${letter}`)];
let best = Object.fromEntries(
    [...counts].map(([name, count]) => {
        const own = lettersOf[name]?.split(" ") ?? [];
        return [name, [...own, ...spare.filter((letter) => !own.includes(letter))].slice(0, count)];
    }),
);

function filled(parts, names) {
    let script = parts[0];
    for (let at = 1; at < parts.length; at += 3)
        script += names[parts[at]][parts[at + 1]] + parts[at + 2];
    return script;
}

function score(names) {
    const sizes = scripts.map(({ parts, weight }) => weight * zipped(filled(parts, names)));
    return sizes.reduce((sum, size) => sum + size);
}

let state = Number(seed);
function random(count) {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >> 8) % count;
}

/** Larger classes more often. */
const places = [...counts].flatMap(([name, count]) => new Array(count).fill(name));
let least = score(best);
const start = least;
for (let tried = 0; tried < tries; tried++) {
    const name = places[random(places.length)];
    const order = [...best[name]];
    const at = random(order.length);
    const letter = letters[random(letters.length)];
    const other = order.indexOf(letter);
    if (other >= 0) order[other] = order[at];
    order[at] = letter;
    const names = { ...best, [name]: order };
    const reached = score(names);
    if (reached > least) continue;
    least = reached;
    best = names;
}

/** A class and its letters, in lines of no more than 100 columns. */
function entry([name, order]) {
    const texts = order.join(" ").match(/.{1,86}( |$)/g);
    const text = texts.map((part) => JSON.stringify(part)).join(" +\n        ");
    return `    ${name}:${texts.length > 1 ? "\n        " : " "}${text},\n`;
}

writeFileSync(
    new URL("../../web/etf/letters.js", import.meta.url),
    `// Written by bench/etf/letters.js. Names that compile.js gives to members of classes, from the
// most to the least used: those that gzip makes the least of. More members get what is left.
export const letters = "${letters}";

/** Those of a class and of the classes that extend it. */
export const lettersOf = {
${Object.entries(best).map(entry).join("")}};
`,
);
console.log(`${tries} tries: ${start} to ${least} (weighted bytes)`);
execFileSync("node", [compile]);
