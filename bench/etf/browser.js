// Runs cases.js in headless Chromium: node browser.js [ROUNDS [PAYLOAD...]]
// The page gets one bundle from a server here and posts its results back. CHROMIUM names the
// browser.
import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "esbuild";
import { report } from "./report.js";

const [rounds = "11", ...only] = process.argv.slice(2);
const chosen = only.length > 0 ? JSON.stringify(only) : "undefined";
const page = `
    import { measure } from "./cases.js";
    const results = measure({ rounds: ${Number(rounds)}, only: ${chosen} });
    const version = /Chrome\\/[0-9.]+/.exec(navigator.userAgent)[0];
    const body = JSON.stringify({ title: "Headless " + version, results });
    await fetch("/done", { method: "POST", body });
`;
const bundle = await build({
    stdin: {
        contents: page,
        resolveDir: import.meta.dirname ?? new URL(".", import.meta.url).pathname,
    },
    bundle: true,
    format: "esm",
    write: false,
    platform: "browser",
    target: "es2022",
});
const profile = mkdtempSync(join(tmpdir(), "etf-bench-"));
let browser;

function fail(why) {
    console.error(why);
    process.exitCode = 1;
}

const server = createServer((request, response) => {
    if (request.url === "/done" || request.url === "/failed") {
        let body = "";
        request
            .setEncoding("utf8")
            .on("data", (piece) => (body += piece))
            .on("end", () => {
                if (request.url === "/done") report(JSON.parse(body));
                else fail(body);
                response.end();
                server.close();
                process.kill(-browser.pid, "SIGKILL");
            });
    } else if (request.url === "/bundle.js") {
        response.setHeader("content-type", "text/javascript").end(bundle.outputFiles[0].text);
    } else {
        response.setHeader("content-type", "text/html").end(
            `<!doctype html><meta charset="utf-8"><script>
                const tell = (what) => fetch("/failed", { method: "POST", body: String(what) });
                onerror = tell;
                onunhandledrejection = ({ reason }) => tell(reason);
            </script><script type="module" src="/bundle.js"></script>`,
        );
    }
});
server.listen(0, "127.0.0.1", () => {
    browser = spawn(
        process.env.CHROMIUM ?? "chromium",
        [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--js-flags=--expose-gc",
            `--user-data-dir=${profile}`,
            `http://127.0.0.1:${server.address().port}/`,
        ],
        // The browser leads a process group, so that all its processes end with it.
        { stdio: ["ignore", "ignore", "pipe"], detached: true },
    );
    let complaints = "";
    browser.stderr.setEncoding("utf8").on("data", (text) => (complaints += text));
    browser.on("error", () => {
        fail("chromium does not start: run tools/setup web, or name a browser in CHROMIUM");
        server.close();
    });
    browser.on("close", () => {
        if (server.listening) {
            fail(`the browser ended early:\n${complaints.slice(-2000)}`);
            server.close();
        }
        server.closeAllConnections?.();
        rm(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
    });
});
