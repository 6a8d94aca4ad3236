// Runs cases.js in Node: node --expose-gc node.js [ROUNDS [PAYLOAD...]]
// cbor-x and msgpackr run without their native add-ons (npm ci --omit=optional).
import { measure } from "./cases.js";
import { report } from "./report.js";

const [rounds = "11", ...only] = process.argv.slice(2);
const results = measure({
    rounds: Number(rounds),
    only: only.length > 0 ? only : undefined,
    log: (line) => console.error(line),
});
for (const { payload, sizes } of results.filter((result) => result.sizes))
    console.error(payload, sizes);
report({ title: `Node ${process.version}, V8 ${process.versions.v8}`, results });
