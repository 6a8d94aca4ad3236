// Opens a page in Chromium, narrow and wide, on light and dark screens, and prints it.
//
//     node open_page.mjs PAGE [DIRECTORY]
//
// Prints one object of JSON: `faults` has a line for each rule that the page breaks, `figures` and
// `tables` are their numbers, and `text` is what a reader sees. DIRECTORY gets a picture of each
// view.

import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { inflateSync } from "node:zlib";
import { inEachView, show, texts, withBrowser } from "./browser.mjs";

const [file, pictures] = process.argv.slice(2);
const address = pathToFileURL(file).href;

// The rules for the charts of each view. This function runs in the page.
function charts() {
    const faults = [];
    for (const figure of document.querySelectorAll("figure")) {
        const title = figure.closest("section")?.querySelector("h2")?.textContent ?? "no heading";
        const fault = (text) => faults.push(`the chart below \`${title}': ${text}`);
        const svg = figure.querySelector("svg");
        if (!svg) {
            fault("no drawing");
            continue;
        }
        const box = svg.getBoundingClientRect();
        const marks = [...svg.querySelectorAll(".role-mark :is(path, line, rect, text)")].filter(
            (mark) => {
                const { width, height } = mark.getBoundingClientRect();
                return width + height > 0;
            },
        );
        if (marks.length === 0) fault("no marks");
        const axes = new Set(
            [...svg.querySelectorAll(".role-axis-label text")].map((text) =>
                text.closest(".role-axis"),
            ),
        );
        if (axes.size < 2) fault(`${axes.size} axes with labels`);
        for (const text of svg.querySelectorAll("text")) {
            const { left, right, top, bottom, width } = text.getBoundingClientRect();
            const out = Math.max(
                box.left - left,
                right - box.right,
                box.top - top,
                bottom - box.bottom,
            );
            if (width > 0 && out > 1) fault(`\`${text.textContent}' stands out of the drawing`);
        }
        // The seconds of a load test are too many for a table.
        const seconds = document.querySelector('a[href="seconds.csv"]');
        if (!figure.closest("section")?.querySelector("table") && !seconds)
            fault("no table beside it");
        for (const { textContent } of svg.querySelectorAll("text"))
            if (textContent.endsWith("…")) fault(`\`${textContent}' is cut`);
    }
    return faults;
}

// What does not depend on the view. This function runs in the page too.
function read() {
    const footer = document.querySelector("footer");
    const colors = [...document.querySelectorAll("figure .role-mark *")].flatMap((mark) =>
        ["fill", "stroke"].map((key) => mark.getAttribute(key)),
    );
    return {
        figures: document.querySelectorAll("figure").length,
        tables: document.querySelectorAll("table").length,
        text: document.body.innerText,
        links: [...document.querySelectorAll("a[href]")].map((link) => link.href),
        command: footer?.querySelector("code")?.innerText ?? "",
        footer: footer?.innerText ?? "",
        colors: [...new Set(colors)].filter((color) => /^#[0-9a-f]{6}$/.test(color)),
    };
}

function isFile(link) {
    try {
        return statSync(fileURLToPath(link)).size > 0;
    } catch {
        return false;
    }
}

// The colors of texts, lines and areas in a PDF file, as `#rrggbb`.
function printed(pdf) {
    const colors = new Set();
    for (let at = pdf.indexOf("stream\n"); at >= 0; at = pdf.indexOf("stream\n", at + 1)) {
        let content;
        try {
            content = inflateSync(pdf.subarray(at + 7), { finishFlush: 2 }).toString("latin1");
        } catch {
            continue; // the end of a stream, or one that is not compressed
        }
        for (const [, ...parts] of content.matchAll(/([\d.]+) ([\d.]+) ([\d.]+) (?:rg|RG)\b/g)) {
            const hex = parts.map((part) => Math.round(255 * part).toString(16).padStart(2, "0"));
            colors.add(`#${hex.join("")}`);
        }
    }
    return colors;
}

async function opened(page) {
    const { tell, run, requested } = page;
    const check = async () => [...(await run(texts)), ...(await run(charts))];
    await page.visit(address);

    const { links, command, footer, colors, ...facts } = await run(read);
    const faults = requested
        .filter((each) => each !== address)
        .map((each) => `the page asks for ${each}`)
        .concat(links.filter((link) => !isFile(link)).map((link) => `no file for ${link}`));
    if (!links.some((link) => link.endsWith("/samples.jsonl"))) faults.push("no link to samples");
    if (!/^whittle [a-z]+/.test(command)) faults.push("no command in the footer");
    if (!/Machine: .+, \d+ CPUs, \d+ GB, Linux \S+\./.test(footer))
        faults.push("no machine in the footer");
    if (!/Whittle \d+\.\d+\.\d+/.test(footer)) faults.push("no version in the footer");
    faults.push(...(await inEachView(page, check, pictures)));

    // A4. The printer gets no backgrounds, as browsers have it by default.
    await show(page, "print", "dark");
    faults.push(
        ...(await check())
            .filter((fault) => !fault.startsWith("the page is wider"))
            .map((fault) => `printed: ${fault}`),
    );
    await show(page, "", "dark");
    const { data } = await tell("Page.printToPDF", { paperWidth: 8.27, paperHeight: 11.69 });
    const pdf = Buffer.from(data, "base64");
    if (pictures) writeFileSync(join(pictures, "printed.pdf"), pdf);
    const kept = printed(pdf);
    for (const color of colors)
        if (!kept.has(color)) faults.push(`printed: the color ${color} is lost`);

    return { faults, ...facts };
}

process.stdout.write(JSON.stringify(await withBrowser(opened)));
