// Tests the package as its users get it: its size, the examples of its README, a run without
// Node's own conversions, and a run in a real browser with a page that forbids generated code.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const root = new URL("../../", import.meta.url);

test("the package is no larger than promised", async () => {
    const { size, pages } = (await import(new URL("size.js", root).href)) as {
        size: (code: string) => Promise<{ esbuild: number; terser: number }>;
        pages: Record<string, string>;
    };
    // The sizes today, with esbuild alone and with terser after it. The bars are 6 kB for a
    // decoder alone and 14 kB for everything; bench/etf/README.md tells which ones the package
    // meets.
    const limits: Record<string, readonly [esbuild: number, terser: number]> = {
        "decoder alone (plain view)": [6212, 6123],
        "the same with inflate": [7326, 7127],
        "the same with the platform's inflate": [6702, 6612],
        "decoder alone (term model)": [6005, 5944],
        encode: [7200, 7030],
        all: [17328, 16720],
        "all, and the platform's inflate": [17750, 17124],
    };
    assert.deepEqual(Object.keys(pages), Object.keys(limits));
    for (const [name, code] of Object.entries(pages)) {
        const { esbuild, terser } = await size(code);
        const said = `${name} takes ${esbuild} bytes, ${terser} with terser`;
        // The zlib of Node 18 needs up to 5 bytes more than that of other releases.
        const fits = (bytes: number, limit: number) => bytes <= limit + 8;
        assert.ok(fits(esbuild, limits[name][0]) && fits(terser, limits[name][1]), said);
    }
});

test("what the README shows is what happens", async () => {
    const readme = readFileSync(new URL("README.md", root), "utf8");
    const snippets = [...readme.matchAll(/```js\n([\s\S]*?)```/g)].map(([, code]) => code);
    assert.ok(snippets.length >= 5);
    for (const [at, code] of snippets.entries()) {
        // A comment that starts with an arrow contains the result of the expression before it.
        const checked = code.replace(
            /^(.+?);? *\/\/ → (.+)$/gm,
            (_, expression: string, expected: string) =>
                `shows((${expression.replace(/;$/, "")}), ${JSON.stringify(expected)});`,
        );
        const file = new URL(`build/readme-${at}.mjs`, root);
        writeFileSync(
            file,
            `import { inspect } from "node:util";
            function shows(value, expected) {
                const shown = inspect(value, { breakLength: Infinity, depth: 9 });
                if (shown !== expected) throw new Error(shown + " is not " + expected);
            }
            ${checked}`,
        );
        await import(file.href);
    }
});

const vectorFile = new URL("../../vectors/etf/otp29.tsv", root);
/** The checks that {@link smoke} runs on every platform. */
const tried = { terms: 283, truncations: 18010, inflated: 7, damaged: 70, texts: 2706 };

/** Returns a program that runs the smoke test and prints its checks. `before` runs first. */
function program(before: string): string {
    return `${before}
        const names = ["dist/index", "dist/async", "dist/decode", "build/test/smoke"];
        const modules = names.map((name) => import("${root}" + name + ".js"));
        const [etf, later, light, { smoke }] = await Promise.all(modules);
        const { readFileSync } = await import("node:fs");
        const lines = readFileSync(new URL("${vectorFile}"), "utf8").split("\\n");
        console.log(JSON.stringify(await smoke(etf, later, light, lines)));`;
}

const runtimes: readonly [
    name: string,
    command: string,
    arguments: readonly string[],
    before: string,
][] = [
    ["Node", process.execPath, [], ""],
    ["Node without its own conversions", process.execPath, [], "delete globalThis.Buffer;"],
    ["Deno", "deno", ["run", "--allow-read"], ""],
    ["Deno without Buffer", "deno", ["run", "--allow-read"], "delete globalThis.Buffer;"],
    ["Bun", "bun", ["run"], ""],
    ["Bun without Buffer", "bun", ["run"], "delete globalThis.Buffer;"],
];
for (const [name, command, words, before] of runtimes) {
    test(`it works in ${name}`, () => {
        const file = fileURLToPath(new URL(`build/smoke-${name.replaceAll(" ", "-")}.mjs`, root));
        writeFileSync(file, program(before));
        const bin = fileURLToPath(new URL(`../node_modules/.bin/${command}`, root));
        const said = execFileSync(words.length > 0 ? bin : command, [...words, file]).toString();
        assert.deepEqual(JSON.parse(said), { generated: true, ...tried });
    });
}

/**
 * Serves the package and a page that decodes. The policy of the page forbids generated code. A
 * worker does the same without a policy.
 */
async function serve(done: (result: string) => void): Promise<Server> {
    const types: Record<string, string> = { js: "text/javascript", html: "text/html" };
    const run = `export async function run() {
        try {
            const [etf, later, light, { smoke }] = await Promise.all([
                import("/dist/index.js"), import("/dist/async.js"), import("/dist/decode.js"),
                import("/build/test/smoke.js"),
            ]);
            const lines = (await (await fetch("/vectors")).text()).split("\\n");
            return await smoke(etf, later, light, lines);
        } catch (error) { return String(error); }
    }`;
    const worker = 'import { run } from "/run.js"; postMessage(await run());';
    const page = `<!doctype html><meta charset="utf-8"><script type="module">
        import { run } from "/run.js";
        const worker = new Worker("/worker.js", { type: "module" });
        const answer = new Promise((resolve) => {
            worker.onmessage = ({ data }) => resolve(data);
            worker.onerror = ({ message }) => resolve(message);
        });
        const body = JSON.stringify({ page: await run(), worker: await answer });
        await fetch("/done", { method: "POST", body });
    </script>`;
    const scripts: Record<string, string> = { "/run.js": run, "/worker.js": worker };
    const server = createServer((request, response) => {
        const path = request.url ?? "/";
        if (path === "/done") {
            let body = "";
            request
                .setEncoding("utf8")
                .on("data", (piece: string) => (body += piece))
                .on("end", () => {
                    response.end();
                    done(body);
                });
        } else if (path === "/vectors") {
            response.end(readFileSync(vectorFile));
        } else if (path in scripts) {
            response.setHeader("content-type", types["js"]).end(scripts[path]);
        } else if (path.startsWith("/dist/") || path === "/build/test/smoke.js") {
            response
                .setHeader("content-type", types["js"])
                .end(readFileSync(new URL(path.slice(1), root)));
        } else {
            response.setHeader("content-security-policy", "script-src 'self' 'unsafe-inline'");
            response.setHeader("content-type", types["html"]).end(page);
        }
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return server;
}

test("it works in a browser: in a worker, and where generated code is forbidden", async () => {
    const profile = mkdtempSync(join(tmpdir(), "etf-test-"));
    let finished: (result: string) => void = () => undefined;
    let failed: (error: Error) => void = () => undefined;
    const result = new Promise<string>(
        (resolve, reject) => ([finished, failed] = [resolve, reject]),
    );
    const server = await serve((body) => finished(body));
    const { port } = server.address() as { port: number };
    const browser = spawn(
        process.env["CHROMIUM"] ?? "chromium",
        [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            `--user-data-dir=${profile}`,
            `http://127.0.0.1:${port}/`,
        ],
        // The browser leads a process group, so that all its processes end with it.
        { stdio: "ignore", detached: true },
    );
    browser.on("error", () =>
        failed(
            new Error(
                "chromium does not start: run tools/setup web, or name a browser in CHROMIUM",
            ),
        ),
    );
    const closed = new Promise((resolve) =>
        browser.on("close", (code) => {
            failed(new Error(`the browser ended with ${code}`));
            resolve(undefined);
        }),
    );
    try {
        // The policy applies to the page. Its worker has no policy.
        assert.deepEqual(JSON.parse(await result), {
            page: { generated: false, ...tried },
            worker: { generated: true, ...tried },
        });
    } finally {
        if (browser.pid !== undefined) process.kill(-browser.pid, "SIGKILL");
        await closed;
        server.close();
        // A process of the browser may write until it is dead. Only this `rm' empties the directory
        // again before it tries again; rmSync does not.
        await rm(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 200 });
    }
});

test("a stack trace leads to the sources, though private names are shortened", () => {
    const index = new URL("dist/index.js", root).href;
    const failing = `import { encode } from "${index}"; encode([Symbol()]);`;
    const { stderr } = spawnSync(
        process.execPath,
        ["--enable-source-maps", "--input-type=module", "--eval", failing],
        { encoding: "utf8" },
    );
    assert.match(stderr, /EtfError: at \[0\]: an atom's name must be a string/);
    const places = [...stderr.matchAll(/src\/(\w+\.ts):(\d+)/g)];
    assert.ok(places.some(([, name]) => name === "output.ts"));
    for (const [, name, line] of places) {
        const source = readFileSync(new URL(`src/${name}`, root), "utf8").split("\n");
        assert.ok(Number(line) <= source.length, `${name}:${line}`);
    }
});

test("what npm packs from a fresh checkout is built, and holds every entry point", () => {
    const manifest = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as {
        exports: Record<string, Record<string, string>>;
        scripts: Record<string, string>;
    };
    assert.equal(manifest.scripts["prepack"], "make -C .. all");
    const said = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
        cwd: fileURLToPath(root),
        stdio: ["ignore", "pipe", "ignore"],
    });
    const [{ files }] = JSON.parse(said.toString()) as [{ files: { path: string }[] }];
    const packed = files.map(({ path }) => `./${path}`);
    assert.ok(packed.includes("./LICENSE"));
    for (const entry of Object.values(manifest.exports)) {
        for (const path of Object.values(entry)) assert.ok(packed.includes(path), path);
    }
});

test("the workspace has one lock file, pinned versions, and scripts that run in each package", () => {
    type Manifest = {
        workspaces: string[];
        scripts: Record<string, string>;
        devDependencies?: Record<string, string>;
    };
    const workspace = new URL("../", root);
    const read = (folder: string) =>
        JSON.parse(readFileSync(new URL(`${folder}package.json`, workspace), "utf8")) as Manifest;
    const { workspaces, scripts } = read("");
    assert.ok(workspaces.includes("etf"));
    for (const script of ["build", "test", "docs", "format"]) {
        assert.equal(scripts[script], `npm run ${script} --workspaces`);
        for (const name of workspaces) assert.ok(read(`${name}/`).scripts[script], script);
    }
    for (const name of workspaces) {
        const files = readdirSync(new URL(`${name}/`, workspace));
        assert.ok(!files.includes("package-lock.json"), `${name} has a lock file of its own`);
        const versions = Object.values(read(`${name}/`).devDependencies ?? {});
        for (const version of versions) assert.match(version, /^\d+\.\d+\.\d+$/);
    }
    // npm refuses to install if the lock file does not match the manifests.
    const npm = ["ci", "--dry-run", "--offline", "--ignore-scripts"];
    const { status, stderr } = spawnSync("npm", npm, { cwd: fileURLToPath(workspace) });
    assert.equal(status, 0, String(stderr));
});

test("there is no dependency at run time and no any in the public types", () => {
    const manifest = JSON.parse(readFileSync(new URL("package.json", root), "utf8")) as {
        dependencies?: object;
    };
    assert.equal(manifest.dependencies, undefined);
    const files = readdirSync(new URL("dist/", root)).filter((name) => name.endsWith(".d.ts"));
    assert.ok(files.length > 20);
    for (const name of files) {
        const types = readFileSync(new URL(`dist/${name}`, root), "utf8").replace(
            /\/\*[\s\S]*?\*\//g,
            "",
        );
        assert.doesNotMatch(types, /[:<|,(] *any\b/, name);
    }
});
