// Ends with one line if the packages of this workspace are not installed. npm runs it before the
// scripts that need them.
import { existsSync } from "node:fs";

const lock = new URL("node_modules/.package-lock.json", import.meta.url);
if (!existsSync(lock)) {
    console.error("The packages are not installed: run `npm ci` in the directory web.");
    process.exit(1);
}
