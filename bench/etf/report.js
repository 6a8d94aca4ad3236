// Prints the results of runs as tables. node.js and browser.js print their own results. If RESULTS
// names a file, they also add them to it, and `node report.js FILE` summarizes all runs in it.
// `node report.js FILE --versus` compares this codec with JSON and msgpackr only.
import { appendFileSync, readFileSync } from "node:fs";
import { argv, env } from "node:process";
import { fileURLToPath } from "node:url";
import { loadavg } from "node:os";

/** Prints a run. */
export function report(run) {
    const [load] = loadavg();
    if (env.RESULTS) appendFileSync(env.RESULTS, JSON.stringify({ ...run, load }) + "\n");
    console.log(tables(run.results, run.title, "middle half of the turns"));
}

/** Prints times, and speeds divided by that of JSON from and to bytes. */
function tables(results, title, spread) {
    const lines = [`### ${title}`, ""];
    const timed = results.filter(({ codec }) => codec);
    for (const direction of ["decode", "encode"]) {
        const rows = timed.filter((result) => result.direction === direction);
        const codecs = distinct(rows, "codec");
        const payloads = distinct(rows, "payload");
        lines.push(
            `${direction}, ms (${spread}), times as fast as JSON with bytes`,
            "",
            `| codec | ${payloads.join(" | ")} |`,
            `|---|${payloads.map(() => "---").join("|")}|`,
        );
        for (const codec of codecs) {
            const cells = payloads.map((payload) => {
                const { ms, low, high } = find(rows, payload, codec);
                const digits = ms < 0.1 ? 4 : ms < 10 ? 2 : 1;
                const shown = [ms, low, high].map((time) => time.toFixed(digits));
                const times = ms > 0 ? find(rows, payload, codecs[0]).ms / ms : Infinity;
                return `${shown[0]} (${shown[1]}–${shown[2]}) ${ratio(times)}`;
            });
            lines.push(`| ${codec} | ${cells.join(" | ")} |`);
        }
        lines.push("");
    }
    return lines.join("\n");
}

const distinct = (results, field) => [...new Set(results.map((result) => result[field]))];
const find = (rows, payload, codec) =>
    rows.find((result) => result.payload === payload && result.codec === codec);
const figure = (number) => number.toFixed(number < 100 ? 2 : 0);
/** Prints a dash for a time that is too short for the clock. */
const ratio = (times) => (times === Infinity ? "–" : `${figure(times)}×`);

/** The figures with bars: the time of one codec divided by that of another. */
const bars = [
    ["plain", "decode", "JSON.parse, bytes", "etf plain"],
    ["atom keys", "decode", "JSON.parse, bytes", "etf plain, atom keys"],
    ["no new Function", "decode", "JSON.parse, bytes", "etf plain, no new Function"],
    ["model / plain", "decode", "etf term model", "etf plain"],
    ["msgpackr / plain", "decode", "msgpackr", "etf plain"],
    ["cbor-x / plain", "decode", "cbor-x", "etf plain"],
    ["encode", "encode", "JSON.stringify, bytes", "etf"],
    ["encode, no new Function", "encode", "JSON.stringify, bytes", "etf, no new Function"],
];

/** The bars of a payload in one run. */
function barsOf({ results }, payload) {
    return bars.map(([, direction, over, under]) => {
        const rows = results.filter((result) => result.direction === direction);
        return find(rows, payload, over).ms / find(rows, payload, under).ms;
    });
}

/** Summarizes several runs of one kind: each figure is their median, with their range. */
function combined(runs) {
    return runs[0].results.map((result, at) => {
        const times = runs.map(({ results }) => results[at].ms).sort((a, b) => a - b);
        return { ...result, ms: times[times.length >> 1], low: times[0], high: times.at(-1) };
    });
}

/** Prints how many times as fast as JSON and as msgpackr this codec is, over several runs of one
 * kind: the median, with the lowest and the highest run. */
function versus(runs) {
    const [{ title, results }] = runs;
    const others = [
        ["decode", "JSON.parse, bytes"],
        ["decode", "msgpackr"],
        ["encode", "JSON.stringify, bytes"],
        ["encode", "msgpackr"],
    ];
    const ours = ["etf", "etf, atom keys", "etf, no new Function"];
    console.log(`\n${title}: ${runs.length} runs\n`);
    console.log(`| payload | ${others.map(([how, name]) => `${how}: ${name}`).join(" | ")} |`);
    console.log(`|---|${others.map(() => "---").join("|")}|`);
    for (const payload of distinct(results, "payload"))
        for (const codec of ours) {
            const cells = others.map(([direction, other]) => {
                const name = direction === "decode" ? codec.replace("etf", "etf plain") : codec;
                const speeds = runs.map((run) => {
                    const rows = run.results.filter((result) => result.direction === direction);
                    return find(rows, payload, other).ms / find(rows, payload, name).ms;
                });
                const [low, ...rest] = speeds.sort((a, b) => a - b).map((x) => x.toFixed(2));
                const middle = [low, ...rest][speeds.length >> 1];
                return `${middle} (${low}–${rest.at(-1) ?? low})`;
            });
            console.log(`| ${codec.replace("etf", payload)} | ${cells.join(" | ")} |`);
        }
}

function summary(runs) {
    const names = bars.map(([name]) => name).join(" | ");
    const line = `|---|${bars.map(() => "---").join("|")}|`;
    const row = (name, cells) => `| ${name} | ${cells.join(" | ")} |`;
    const people = "10,000 people";
    console.log(`${people}, run by run\n\n| run | ${names} |\n${line}`);
    for (const run of runs) {
        const cells = barsOf(run, people).map((bar) => bar.toFixed(2));
        console.log(row(`${run.title.replace(/,.*/, "")}, load ${run.load.toFixed(1)}`, cells));
    }
    const kinds = distinct(runs, "title").map((title) => runs.filter((run) => run.title === title));
    for (const kind of kinds) {
        const [{ title, results }] = kind;
        console.log(`\n${title}: lowest and highest of ${kind.length} runs\n`);
        console.log(`| payload | ${names} |\n${line}`);
        for (const payload of distinct(results, "payload")) {
            const each = kind.map((run) => barsOf(run, payload));
            const cells = bars.map((_, at) => {
                const values = each.map((row) => row[at]).sort((a, b) => a - b);
                if (!values.every((value) => value > 0 && value < Infinity)) return "–";
                return [values[0], values.at(-1)].map(figure).join(" to ");
            });
            console.log(row(payload, cells));
        }
    }
    for (const kind of kinds)
        console.log("\n" + tables(combined(kind), kind[0].title, "lowest and highest run"));
}

if (argv[1] === fileURLToPath(import.meta.url)) {
    const lines = readFileSync(argv[2], "utf8").trim().split("\n");
    const runs = lines.map((line) => JSON.parse(line));
    if (argv[3] === "--versus")
        for (const title of distinct(runs, "title"))
            versus(runs.filter((run) => run.title === title));
    else summary(runs);
}
