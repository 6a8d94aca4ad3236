// Tests draw.js, alone and as a program.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { drawPng, drawSvg } from "../draw.js";

const program = fileURLToPath(new URL("../draw.js", import.meta.url));

const description = {
    data: {
        values: [
            { cell: "build=stock", median: 349 },
            { cell: "build=<load>", median: 129 },
        ],
    },
    mark: "point",
    config: { axis: { labelColor: "currentColor" } },
    encoding: {
        x: { field: "median", type: "quantitative", title: "time, ms" },
        y: { field: "cell", type: "nominal" },
    },
};

const run = (input, ...words) =>
    spawnSync(process.execPath, [program, ...words], { input, encoding: "utf8" });

test("an SVG has the titles, the cells and the color of the page", async () => {
    const svg = await drawSvg(description);
    assert.match(svg, /^<svg /);
    assert.match(svg, />time, ms</);
    assert.match(svg, />build=stock</);
    assert.match(svg, />build=&lt;load&gt;</);
    assert.match(svg, /currentColor/);
});

test("a PNG is twice as wide as the SVG", async () => {
    const svg = await drawSvg(description);
    const png = await drawPng(svg);
    assert.deepEqual([...png.subarray(1, 4)], [...Buffer.from("PNG")]);
    assert.equal(png.readUInt32BE(16), 2 * Number(/width="(\d+)"/.exec(svg)[1]));
});

test("the program draws each description, in order", async () => {
    const other = { ...description, mark: "bar" };
    const result = run(JSON.stringify([description, other]));
    assert.equal(result.status, 0);
    assert.deepEqual(JSON.parse(result.stdout), [await drawSvg(description), await drawSvg(other)]);
    const [png] = JSON.parse(run(JSON.stringify([description]), "--png").stdout);
    assert.equal(Buffer.from(png, "base64").subarray(1, 4).toString(), "PNG");
});

test("bad input ends with one line and the exit code", () => {
    for (const input of ["", "{", JSON.stringify([{ mark: "nothing" }]), "7"]) {
        const result = run(input);
        assert.equal(result.status, 1, input);
        assert.equal(result.stdout, "");
        assert.match(result.stderr, /^draw\.js: [^\n]+\n$/);
    }
    assert.equal(run("[]", "--jpeg").status, 2);
});
