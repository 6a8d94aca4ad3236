// Measures the size of the package in a page: esbuild bundles and minifies it, with and without
// terser (webpack's minifier) after it, and gzip compresses it. Prints both sizes. A test compares
// them with the README.
import { gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { minify } from "terser";

/** Returns a page's script with these imports from dist/, minified by esbuild and by terser. */
export async function minified(code) {
    const bundle = await build({
        stdin: { contents: code, resolveDir: fileURLToPath(new URL("dist/", import.meta.url)) },
        bundle: true,
        minify: true,
        format: "esm",
        target: "es2021",
        write: false,
    });
    const [{ text }] = bundle.outputFiles;
    const again = await minify(text, { module: true, ecma: 2021, compress: { passes: 3 } });
    return { esbuild: text, terser: again.code };
}

/** Returns the size of a script after gzip, in bytes. */
export function zipped(script) {
    return gzipSync(script, { level: 9 }).length;
}

/** Returns the sizes of a page with these imports from dist/, in bytes after gzip. */
export async function size(code) {
    const { esbuild, terser } = await minified(code);
    return { esbuild: zipped(esbuild), terser: zipped(terser) };
}

/** The imports of each measured page. */
export const pages = {
    "decoder alone (plain view)": 'export { plainDecoder } from "./decode.js";',
    "the same with inflate": `export { plainDecoder } from "./decode.js";
        export { inflate } from "./inflate.js";`,
    "the same with the platform's inflate": `export { plainDecoder } from "./decode.js";
        export { asyncDecoder } from "./async.js";`,
    "decoder alone (term model)": 'export { termDecoder } from "./decode.js";',
    encode: 'export { encode } from "./index.js";',
    all: 'export * from "./index.js";',
    "all, and the platform's inflate": 'export * from "./index.js"; export * from "./async.js";',
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
    for (const [name, code] of Object.entries(pages)) {
        const { esbuild, terser } = await size(code);
        console.log(`${name}: ${esbuild} bytes by esbuild, ${terser} with terser`);
    }
}
