// Opens a page in Chromium, narrow and wide, on light and dark screens, and prints it.
//
//     node open_page.mjs PAGE [DIRECTORY]
//
// Prints one object of JSON: `faults` has a line for each rule that the page breaks, `figures` and
// `tables` are their numbers, and `text` is what a reader sees. DIRECTORY gets a picture of each
// view. The browser speaks its DevTools protocol on the file descriptors 3 and 4, so it opens no
// port.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { inflateSync } from "node:zlib";

const WIDTHS = { narrow: 360, wide: 1440 };
const SCHEMES = ["light", "dark"];

const [page, pictures] = process.argv.slice(2);
const address = pathToFileURL(page).href;
const profile = mkdtempSync(join(tmpdir(), "whittle-page-"));
const browser = spawn(
    process.env.CHROMIUM ?? "chromium",
    ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"].concat(
        `--user-data-dir=${profile}`,
        "about:blank",
    ),
    { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] },
);
const [, , , requests, answers] = browser.stdio;
const asked = new Map();
const addresses = [];
let last = 0;
let rest = "";
let loaded;

answers.setEncoding("utf8").on("data", (piece) => {
    const messages = (rest + piece).split("\0");
    rest = messages.pop();
    for (const { id, error, result, method, params } of messages.map((text) => JSON.parse(text))) {
        if (id) {
            const { resolve, reject } = asked.get(id);
            error ? reject(new Error(error.message)) : resolve(result);
        } else if (method === "Network.requestWillBeSent") {
            addresses.push(params.request.url);
        } else if (method === "Page.loadEventFired") {
            loaded();
        }
    }
});

// If the browser ends early, nothing answers, and this program ends with the code 13 of Node.js.
function ask(method, params = {}, sessionId = undefined) {
    return new Promise((resolve, reject) => {
        asked.set(++last, { resolve, reject });
        requests.write(JSON.stringify({ id: last, method, params, sessionId }) + "\0");
    });
}

// The rules for each view. This function runs in the page.
function check() {
    const faults = [];
    const printed = matchMedia("print").matches;
    const name = (element) =>
        `${element.tagName.toLowerCase()} \`${element.textContent.trim().slice(0, 40)}'`;

    const most = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > most) {
        const wide = [...document.querySelectorAll("main *")].filter(
            (each) =>
                each.getBoundingClientRect().right > most && !each.closest("figure, .table"),
        );
        faults.push(`the page is wider than the screen: ${wide.map(name).join(", ")}`);
    }

    // The contrast ratio of WCAG 2.2 (w3.org/TR/WCAG22/#dfn-contrast-ratio).
    const parts = (color) => color.match(/[\d.]+/g).map(Number);
    const over = ([r, g, b, a = 1], below) =>
        [r, g, b].map((part, index) => part * a + below[index] * (1 - a));
    const luminance = (color) =>
        color
            .map((part) => part / 255)
            .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
            .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
    const contrast = (one, other) => {
        const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    };
    const ancestors = (element) =>
        element ? [...ancestors(element.parentElement), element] : [];
    for (const element of document.querySelectorAll("body *")) {
        const own = [...element.childNodes].some(
            (node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== "",
        );
        if (!own || !element.checkVisibility()) continue;
        const styles = ancestors(element).map((each) => getComputedStyle(each));
        // A browser prints no background, if its user does not ask for one.
        const below = styles
            .filter(({ printColorAdjust }) => !printed || printColorAdjust === "exact")
            .reduce(
                (color, { backgroundColor }) => over(parts(backgroundColor), color),
                [255, 255, 255],
            );
        const { color, fill } = styles.at(-1);
        const [r, g, b, a = 1] = parts(element instanceof SVGElement ? fill : color);
        const alpha = styles.reduce((product, { opacity }) => product * Number(opacity), a);
        if (alpha === 0) continue; // the drawing hides labels for which there is no room
        const ratio = contrast(over([r, g, b, alpha], below), below);
        if (ratio < 4.5) faults.push(`${name(element)} has a contrast of ${ratio.toFixed(2)}`);
    }

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

async function opened() {
    const { targetInfos } = await ask("Target.getTargets");
    const { targetId } = targetInfos.find(({ type }) => type === "page");
    const { sessionId } = await ask("Target.attachToTarget", { targetId, flatten: true });
    const tell = (method, params) => ask(method, params, sessionId);
    const run = async (rule) => {
        const { result, exceptionDetails } = await tell("Runtime.evaluate", {
            expression: `(${rule})()`,
            returnByValue: true,
        });
        if (exceptionDetails) throw new Error(exceptionDetails.exception.description);
        return result.value;
    };
    const show = (media, scheme) =>
        tell("Emulation.setEmulatedMedia", {
            media,
            features: [{ name: "prefers-color-scheme", value: scheme }],
        });

    await tell("Page.enable");
    await tell("Network.enable");
    const load = new Promise((resolve) => (loaded = resolve));
    const { errorText } = await tell("Page.navigate", { url: address });
    if (errorText) throw new Error(`${address}: ${errorText}`);
    await load;

    const { links, command, footer, colors, ...facts } = await run(read);
    const faults = addresses
        .filter((each) => each !== address)
        .map((each) => `the page asks for ${each}`)
        .concat(links.filter((link) => !isFile(link)).map((link) => `no file for ${link}`));
    if (!links.some((link) => link.endsWith("/samples.jsonl"))) faults.push("no link to samples");
    if (!/^whittle [a-z]+/.test(command)) faults.push("no command in the footer");
    if (!/Machine: .+, \d+ CPUs, \d+ GB, Linux \S+\./.test(footer))
        faults.push("no machine in the footer");
    if (!/Whittle \d+\.\d+\.\d+/.test(footer)) faults.push("no version in the footer");

    for (const [view, width] of Object.entries(WIDTHS)) {
        await tell("Emulation.setDeviceMetricsOverride", {
            width,
            height: 800,
            deviceScaleFactor: 1,
            mobile: view === "narrow",
        });
        for (const scheme of SCHEMES) {
            await show("screen", scheme);
            faults.push(...(await run(check)).map((fault) => `${view}, ${scheme}: ${fault}`));
            if (pictures) {
                const { data } = await tell("Page.captureScreenshot", {
                    captureBeyondViewport: true,
                });
                writeFileSync(join(pictures, `${view}-${scheme}.png`), data, "base64");
            }
        }
    }

    // A4. The printer gets no backgrounds, as browsers have it by default.
    await tell("Emulation.clearDeviceMetricsOverride");
    await show("print", "dark");
    faults.push(
        ...(await run(check))
            .filter((fault) => !fault.startsWith("the page is wider"))
            .map((fault) => `printed: ${fault}`),
    );
    await show("", "dark");
    const { data } = await tell("Page.printToPDF", { paperWidth: 8.27, paperHeight: 11.69 });
    const pdf = Buffer.from(data, "base64");
    if (pictures) writeFileSync(join(pictures, "printed.pdf"), pdf);
    const kept = printed(pdf);
    for (const color of colors)
        if (!kept.has(color)) faults.push(`printed: the color ${color} is lost`);

    return { faults, ...facts };
}

try {
    process.stdout.write(JSON.stringify(await opened()));
} finally {
    const ended = new Promise((resolve) => browser.on("close", resolve));
    browser.kill();
    await ended;
    rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
}
