// How large the package is for a page: minified by esbuild and gzipped, the decoder alone and all
// of it. Prints the sizes; a test compares them with what is promised.
import { gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

/** The size of a page that imports this from dist/, in bytes after gzip. */
export async function size(code) {
    const bundle = await build({
        stdin: { contents: code, resolveDir: fileURLToPath(new URL("dist/", import.meta.url)) },
        bundle: true,
        minify: true,
        format: "esm",
        target: "es2020",
        write: false,
    });
    return gzipSync(bundle.outputFiles[0].contents, { level: 9 }).length;
}

/** Pages by what they use. */
export const pages = {
    "decoder alone (plain view)": 'export { plainDecoder } from "./decode.js";',
    "the same with inflate": `export { plainDecoder } from "./decode.js";
        export { inflate } from "./inflate.js";`,
    "the same with the platform's inflate": `export { plainDecoder } from "./decode.js";
        export { asyncDecoder } from "./async.js";`,
    "decoder alone (term model)": 'export { termDecoder } from "./decode.js";',
    encode: 'export { encode } from "./index.js";',
    all: 'export * from "./index.js"; export * from "./async.js";',
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
    for (const [name, code] of Object.entries(pages))
        console.log(`${name}: ${await size(code)} bytes`);
}
