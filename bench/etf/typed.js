// Compares the time of typed decoders with that of the views that they use, for 2,000 objects of
// seven properties, one of which is an object. usage: node typed.js
import { encode, plainDecoder, read, termDecoder } from "../../web/etf/dist/index.js";

const TURNS = 100;
const value = Array.from({ length: 2000 }, (_, id) => ({
    id,
    name: `sensor ${id}`,
    unit: "celsius",
    value: id / 7,
    active: id % 3 === 0,
    tags: ["roof", "north"],
    place: { floor: id % 9, room: `r${id % 50}` },
}));
const reading = read.object({
    id: read.integer,
    name: read.string,
    unit: read.string,
    value: read.number,
    active: read.boolean,
    tags: read.list(read.string),
    place: read.object({ floor: read.integer, room: read.string }),
});
const readings = read.list(reading);
const bytes = encode(value);
const plain = plainDecoder();
const model = termDecoder();
const ways = {
    "typed decoder": () => readings.readBytes(bytes, model.decode),
    "term model": () => model.decode(bytes),
    "plain view": () => plain.decode(bytes),
};
if (!ways["typed decoder"]().ok) throw new Error("the typed decoder refuses the payload");

const times = new Map(Object.keys(ways).map((name) => [name, []]));
for (let turn = -10; turn < TURNS; turn++)
    for (const [name, run] of Object.entries(ways)) {
        const start = performance.now();
        run();
        if (turn >= 0) times.get(name).push(performance.now() - start);
    }
for (const [name, list] of times) {
    list.sort((a, b) => a - b);
    const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => list[TURNS * share].toFixed(2));
    console.log(`${name}: ${middle} ms (${low} to ${high})`);
}
