// Drives Chromium over its DevTools protocol on the file descriptors 3 and 4, so it opens no port.

import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const WIDTHS = { narrow: 360, wide: 1440 };
const SCHEMES = ["light", "dark"];

// Starts a browser, calls a function with its page, and ends the browser. If the browser ends
// early, nothing answers, and this program ends with the code 13 of Node.js.
export async function withBrowser(use) {
    const profile = mkdtempSync(join(tmpdir(), "whittle-page-"));
    const browser = spawn(
        process.env.CHROMIUM ?? "chromium",
        ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"].concat(
            `--user-data-dir=${profile}`,
            "about:blank",
        ),
        { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"], detached: true },
    );
    try {
        return await use(await page(browser.stdio[3], browser.stdio[4]));
    } finally {
        const ended = new Promise((resolve) => browser.on("close", resolve));
        // The browser leads a process group, so that all its processes end with it.
        process.kill(-browser.pid, "SIGKILL");
        await ended;
        // A child can outlive the browser for a moment and write a file meanwhile. Only this `rm'
        // empties the directory again before it tries again; rmSync does not.
        await rm(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
    }
}

// A page: `tell' sends a command of the protocol, `run' evaluates a function in the page, `visit'
// loads an address, `loading' waits for the load that an action causes, and `requested' lists the
// addresses that the page has asked for.
async function page(requests, answers) {
    const asked = new Map();
    const requested = [];
    let last = 0;
    let rest = "";
    let loaded = () => {};
    answers.setEncoding("utf8").on("data", (piece) => {
        const messages = (rest + piece).split("\0");
        rest = messages.pop();
        for (const text of messages) {
            const { id, error, result, method, params } = JSON.parse(text);
            if (id) {
                const { resolve, reject } = asked.get(id);
                error ? reject(new Error(error.message)) : resolve(result);
            } else if (method === "Network.requestWillBeSent") {
                requested.push(params.request.url);
            } else if (method === "Page.loadEventFired") {
                loaded();
            }
        }
    });
    const ask = (method, params = {}, sessionId = undefined) =>
        new Promise((resolve, reject) => {
            asked.set(++last, { resolve, reject });
            requests.write(JSON.stringify({ id: last, method, params, sessionId }) + "\0");
        });

    const { targetInfos } = await ask("Target.getTargets");
    const { targetId } = targetInfos.find(({ type }) => type === "page");
    const { sessionId } = await ask("Target.attachToTarget", { targetId, flatten: true });
    const tell = (method, params) => ask(method, params, sessionId);
    const run = async (rule, ...values) => {
        const { result, exceptionDetails } = await tell("Runtime.evaluate", {
            expression: `(${rule})(...${JSON.stringify(values)})`,
            returnByValue: true,
        });
        if (exceptionDetails) throw new Error(exceptionDetails.exception.description);
        return result.value;
    };
    const loading = async (action) => {
        const load = new Promise((resolve) => (loaded = resolve));
        const result = await action();
        await load;
        return result;
    };
    const visit = (url) =>
        loading(async () => {
            const { errorText } = await tell("Page.navigate", { url });
            if (errorText) throw new Error(`${url}: ${errorText}`);
        });
    await tell("Page.enable");
    await tell("Network.enable");
    return { tell, run, visit, loading, requested };
}

// Sets the medium and the colors that the page sees.
export function show({ tell }, media, scheme) {
    return tell("Emulation.setEmulatedMedia", {
        media,
        features: [{ name: "prefers-color-scheme", value: scheme }],
    });
}

// Calls a function in each view of the page, narrow and wide, light and dark, and returns the
// faults that it finds, each with its view. A directory gets a picture of each view.
export async function inEachView(page, check, pictures, title = "") {
    const faults = [];
    for (const [view, width] of Object.entries(WIDTHS)) {
        await page.tell("Emulation.setDeviceMetricsOverride", {
            width,
            height: 800,
            deviceScaleFactor: 1,
            mobile: view === "narrow",
        });
        for (const scheme of SCHEMES) {
            await show(page, "screen", scheme);
            faults.push(...(await check()).map((fault) => `${view}, ${scheme}: ${fault}`));
            if (pictures) {
                const { data } = await page.tell("Page.captureScreenshot", {
                    captureBeyondViewport: true,
                });
                writeFileSync(join(pictures, `${title}${view}-${scheme}.png`), data, "base64");
            }
        }
    }
    await page.tell("Emulation.clearDeviceMetricsOverride");
    return faults;
}

// The rules for the texts of each view. This function runs in the page.
export function texts() {
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
    return faults;
}
