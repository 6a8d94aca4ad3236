// Draws charts. It reads a JSON array of Vega-Lite descriptions from standard input and prints a
// JSON array with one drawing for each.
//
// usage: node draw.js [--png] <descriptions.json >drawings.json
//
// The drawings are SVG texts. With --png they are PNG files in base64, on white, for pages that do
// not show SVG. Exit codes: 0, 1 (a description is wrong), 2 (usage error).
import process from "node:process";
import { text } from "node:stream/consumers";
import * as vega from "vega";
import { compile } from "vega-lite";

const SCALE = 2; // pixels of a PNG for each pixel of the chart, for dense screens

/** Draws one description as SVG. A description that Vega-Lite refuses throws an Error. */
export async function drawSvg(description) {
    const view = new vega.View(vega.parse(compile(description).spec), { renderer: "none" });
    return view.toSVG();
}

/** Converts an SVG text to a PNG. Text and lines that take the page's color become dark. */
export async function drawPng(svg) {
    const { Resvg } = await import("@resvg/resvg-js");
    const image = new Resvg(svg.replaceAll("currentColor", "#222222"), {
        background: "white",
        fitTo: { mode: "zoom", value: SCALE },
    });
    return image.render().asPng();
}

async function main(words) {
    if (words.length > 1 || (words.length === 1 && words[0] !== "--png")) {
        process.stderr.write("usage: node draw.js [--png] <descriptions.json\n");
        return 2;
    }
    try {
        const drawings = [];
        for (const description of JSON.parse(await text(process.stdin))) {
            const svg = await drawSvg(description);
            drawings.push(words.length === 0 ? svg : (await drawPng(svg)).toString("base64"));
        }
        process.stdout.write(JSON.stringify(drawings));
        return 0;
    } catch (error) {
        process.stderr.write(`draw.js: ${error.message}\n`);
        return 1;
    }
}

if (import.meta.filename === process.argv[1] || process.argv[1]?.endsWith("chart/draw.js")) {
    process.exitCode = await main(process.argv.slice(2));
}
