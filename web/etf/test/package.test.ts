// The package as its users get it: how large it is, that its README's snippets run, that it works
// without Node's own conversions, and in a real browser whose page forbids generated code.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";


const root = new URL("../../", import.meta.url);

test("the package is no larger than promised", async () => {
    const { size, pages } = await import(new URL("size.js", root).href) as
        { size: (code: string) => Promise<number>; pages: Record<string, string> };
    const limits: Record<string, number> = {
        "decoder alone (plain view)": 6600, "the same with inflate": 8200,
        "decoder alone (term model)": 6400, "encode": 6800, "all": 18000,
    };
    assert.deepEqual(Object.keys(pages), Object.keys(limits));
    for (const [name, code] of Object.entries(pages)) {
        const bytes = await size(code);
        assert.ok(bytes <= limits[name], `${name} takes ${bytes} bytes, more than ${limits[name]}`);
    }
});

test("what the README shows is what happens", async () => {
    const readme = readFileSync(new URL("README.md", root), "utf8");
    const snippets = [...readme.matchAll(/```js\n([\s\S]*?)```/g)].map(([, code]) => code);
    assert.ok(snippets.length >= 5);
    for (const [at, code] of snippets.entries()) {
        // A comment that starts with an arrow says what the expression before it gives.
        const checked = code.replace(/^(.+?);? *\/\/ → (.+)$/gm, (_, expression: string, expected: string) =>
            `{ const shown = inspect((${expression.replace(/;$/, "")}), { breakLength: Infinity, depth: 9 }); ` +
            `if (shown !== ${JSON.stringify(expected)}) throw new Error(shown + " is not " + ${JSON.stringify(expected)}); }`);
        const file = new URL(`build/readme-${at}.mjs`, root);
        writeFileSync(file, `import { inspect } from "node:util";\n${checked}`);
        await import(file.href);
    }
});

test("the portable ways of turning bytes into text and back give the same", () => {
    const check = `
        delete globalThis.Buffer;
        const { encode, decode, decodeTerm } = await import(${JSON.stringify(new URL("dist/index.js", root).href)});
        const texts = [];
        for (let n = 0; n < 300; n++) texts.push("x".repeat(n), "å".repeat(n), "a信🛰".repeat(n));
        texts.push("y".repeat(140000), "λ".repeat(140000));
        for (let round = 0; round < 3; round++) {
            const back = decode(encode({ texts, more: texts.map((text) => ({ text, n: 255 })) }));
            texts.forEach((text, at) => {
                if (back.texts[at] !== text || back.more[at].text !== text) throw new Error("differs at " + at);
            });
        }
        console.log("same");`;
    assert.equal(execFileSync(process.execPath, ["--input-type=module", "-e", check]).toString(), "same\n");
});

/** Serves the package and a page that decodes, under a policy that forbids generated code. */
async function serve(done: (result: string) => void): Promise<Server> {
    const types: Record<string, string> = { js: "text/javascript", html: "text/html" };
    const page = `<!doctype html><meta charset="utf-8"><script type="module">
        let result;
        try {
            const { encode, decode, decodeTerm } = await import("/dist/index.js");
            let generated = true;
            try { new Function("return 1"); } catch { generated = false; }
            const vectors = await (await fetch("/vectors")).json();
            let terms = 0;
            for (const bytes of vectors) { decodeTerm(Uint8Array.from(bytes)); terms++; }
            const value = Array.from({ length: 100 }, (_, n) => ({ n, name: "name å " + n, list: [n, 1.5, null, true] }));
            const same = JSON.stringify(decode(encode(value))) === JSON.stringify(value);
            result = JSON.stringify({ generated, terms, same });
        } catch (error) { result = String(error); }
        await fetch("/done", { method: "POST", body: result });
    </script>`;
    const server = createServer((request, response) => {
        const path = request.url ?? "/";
        if (path === "/done") {
            let body = "";
            request.setEncoding("utf8").on("data", (piece: string) => body += piece).on("end", () => {
                response.end();
                done(body);
            });
        } else if (path === "/vectors") {
            const lines = readFileSync(new URL("../../vectors/etf/otp29.tsv", root), "utf8").split("\n").filter((line) => line.includes("\t"));
            response.end(JSON.stringify(lines.map((line) => [...Buffer.from(line.split("\t")[2], "hex")])));
        } else if (path.startsWith("/dist/")) {
            response.setHeader("content-type", types["js"]).end(readFileSync(new URL(path.slice(1), root)));
        } else {
            response.setHeader("content-security-policy", "script-src 'self' 'unsafe-inline'");
            response.setHeader("content-type", types["html"]).end(page);
        }
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return server;
}

test("it works in a browser, under a policy that forbids generated code", async () => {
    const profile = mkdtempSync(join(tmpdir(), "etf-test-"));
    let finished: (result: string) => void = () => undefined;
    let failed: (error: Error) => void = () => undefined;
    const result = new Promise<string>((resolve, reject) => [finished, failed] = [resolve, reject]);
    const server = await serve((body) => finished(body));
    const { port } = server.address() as { port: number };
    const browser = spawn(process.env["CHROMIUM"] ?? "chromium", [
        "--headless", "--no-sandbox", "--disable-gpu", `--user-data-dir=${profile}`, `http://127.0.0.1:${port}/`,
    ], { stdio: "ignore" });
    browser.on("error", () => failed(new Error("chromium does not start: run setup/install web, or name a browser in CHROMIUM")));
    const closed = new Promise((resolve) => browser.on("close", (code) => {
        failed(new Error(`the browser ended with ${code}`));
        resolve(undefined);
    }));
    try {
        assert.deepEqual(JSON.parse(await result), { generated: false, terms: 283, same: true });
    } finally {
        browser.kill();
        await closed;
        server.close();
        rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
    }
});

test("there is no dependency at run time and no any in the public types", () => {
    const manifest = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as { dependencies?: object };
    assert.equal(manifest.dependencies, undefined);
    for (const name of ["index", "decode", "encode", "read", "write", "term", "map", "frames", "compare", "size", "limits", "error"]) {
        const types = readFileSync(new URL(`dist/${name}.d.ts`, root), "utf8").replace(/\/\*[\s\S]*?\*\//g, "");
        assert.doesNotMatch(types, /[:<|,(] *any\b/, name);
    }
});
