// The data that the benches read and write: generated, never stored.
// Every generator is a pure function of its seed, so two runs, two machines and
// two codecs see the same values. Values are plain JavaScript that JSON can represent.

/** A small deterministic generator (mulberry32): numbers in [0, 1). */
export function random(seed) {
    let state = seed >>> 0;
    return () => {
        state = (state + 0x6d2b79f5) >>> 0;
        let t = state;
        t = Math.imul(t ^ (t >>> 15), t | 1);
        t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
}

const first = "Ada Alan Barbara Claude Donald Edsger Grace Joe Leslie Mike Robert Tony".split(" ");
const last =
    `Armstrong Dijkstra Hamilton Hoare Hopper Knuth Lamport Liskov Lovelace Shannon Turing Virding
    Williams`.split(/\s+/);
const words =
    `a board holds one node and every node answers for its neighbours while the line is up or
    down until someone cuts it`.split(/\s+/);
const streets = "Canal Harbour Mill Orchard Station Tower".split(" ");
const towns = "Uppsala Lund Visby Falun Kalmar Ystad".split(" ");
const hex = "0123456789abcdef";

/** Picks things with one random source. */
function picker(seed) {
    const next = random(seed);
    const int = (low, high) => low + Math.floor(next() * (high - low + 1));
    const of = (list) => list[int(0, list.length - 1)];
    const some = (count, make) => Array.from({ length: count }, (_, index) => make(index));
    const digits = (count) => some(count, () => hex[int(0, 15)]).join("");
    return { next, int, of, some, digits };
}

/** One person: 20 fields, nested maps and lists, about 680 bytes of JSON. */
function person(index, pick) {
    const name = `${pick.of(first)} ${pick.of(last)}`;
    const company = pick.of(last).toUpperCase();
    return {
        id: pick.digits(24),
        index,
        guid: [8, 4, 4, 4, 12].map(pick.digits).join("-"),
        isActive: pick.next() < 0.5,
        balance: pick.int(100000, 400000) / 100,
        age: pick.int(20, 70),
        eyeColor: pick.of(["blue", "brown", "green"]),
        name,
        gender: pick.of(["female", "male"]),
        company,
        email: `${name.replace(" ", ".").toLowerCase()}@${company.toLowerCase()}.example`,
        phone: `+46 ${pick.int(100, 999)} ${pick.int(1000, 9999)}`,
        address:
            `${pick.int(1, 999)} ${pick.of(streets)} Street, ` +
            `${pick.of(towns)}, ${pick.int(10000, 99999)}`,
        registered:
            `20${pick.int(10, 24)}-0${pick.int(1, 9)}-${pick.int(10, 28)}` +
            `T1${pick.int(0, 9)}:${pick.int(10, 59)}:${pick.int(10, 59)}Z`,
        latitude: pick.int(-90000000, 90000000) / 1000000,
        longitude: pick.int(-180000000, 180000000) / 1000000,
        tags: pick.some(7, () => pick.of(words)),
        friends: pick.some(4, (id) => ({
            id,
            name: `${pick.of(first)} ${pick.of(last)}`,
        })),
        greeting: `Hello, ${name}! You have ${pick.int(1, 10)} unread messages.`,
        note: null,
    };
}

/** A list of `count` people. 10,000 are 6.8 MB of JSON. */
export function people(count, seed = 1) {
    const pick = picker(seed);
    return pick.some(count, (index) => person(index, pick));
}

/** A snapshot of counters, gauges and histograms, as an exporter would send it. */
export function metrics(count = 2000, seed = 2) {
    const pick = picker(seed);
    return {
        node: "gateway@10.0.0.7",
        taken_at: 1700000000000,
        metrics: pick.some(count, (index) => ({
            name: `${pick.of(["http", "mqtt", "serial", "ets"])}_${pick.of(words)}_${index}_total`,
            kind: pick.of(["counter", "gauge", "histogram"]),
            labels: { host: `h${pick.int(1, 40)}`, queue: String(pick.int(0, 9)) },
            value: pick.next() < 0.5 ? pick.int(0, 2000000000) : pick.next() * 1000,
            buckets: pick.some(8, () => pick.int(0, 100000)),
        })),
    };
}

/** Rows of numbers: integers of all widths and floats. In Erlang each row is a tuple. */
export function table(rows = 20000, seed = 3) {
    const pick = picker(seed);
    return pick.some(rows, (index) => [
        index,
        pick.int(0, 255),
        pick.int(-100000, 100000),
        pick.next() * 1e6,
        pick.int(0, 2 ** 40),
        pick.next(),
    ]);
}

/** Many small terms inside each other: binary trees of single-field maps and pairs. */
export function deep(trees = 400, height = 7, seed = 4) {
    const pick = picker(seed);
    const tree = (level) =>
        level === 0 ? pick.int(0, 9) : { l: tree(level - 1), r: [tree(level - 1)] };
    return pick.some(trees, () => tree(height));
}

/** Paragraphs of `length` characters, ASCII or (about one in six) not. */
export function texts(count = 300, length = 8000, ascii = true, seed = 5) {
    const pick = picker(seed);
    const vocabulary = ascii
        ? words
        : [...words, "fjärrkontroll", "smörgås", "приём", "узел", "信号", "🛰️"];
    return pick.some(count, () => {
        let text = "";
        while (text.length < length) text += pick.of(vocabulary) + " ";
        return text.slice(0, length).replace(/[\ud800-\udbff]$/, "");
    });
}

/** Byte strings, for the codecs that have them (JSON gets them in base64). */
export function blobs(count = 8, length = 250000, seed = 6) {
    const pick = picker(seed);
    return pick.some(count, () => {
        const bytes = new Uint8Array(length);
        for (let i = 0; i < length; i += 4)
            new DataView(bytes.buffer).setUint32(i, pick.next() * 4294967296);
        return bytes;
    });
}

/** A record of up to eleven keys, eight of which are always there, three with nested values. */
function record(id, pick) {
    const made = {
        id,
        name: `${pick.of(first)} ${pick.of(last)}`,
        created: 1700000000 + pick.int(0, 9999999),
        status: pick.of(["new", "open", "closed"]),
        score: pick.int(0, 10000) / 100,
        tags: pick.some(3, () => pick.of(words)),
        owner: { id: pick.int(1, 500), team: pick.of(towns), active: pick.next() < 0.5 },
        history: pick.some(2, () => ({ at: pick.int(0, 99999), by: pick.of(last), note: null })),
    };
    if (pick.next() < 0.5) made.comment = `seen by ${pick.of(first)}`;
    if (pick.next() < 0.5) made.parent = pick.int(0, 9999);
    if (pick.next() < 0.5) made.place = { lat: pick.next() * 90, lon: pick.next() * 180 };
    return made;
}

/** The same value with the keys of each map in an order of its own. */
function shuffled(value, pick) {
    if (Array.isArray(value)) return value.map((item) => shuffled(item, pick));
    if (value === null || typeof value !== "object") return value;
    const entries = Object.entries(value);
    for (let i = entries.length - 1; i > 0; i--) {
        const j = pick.int(0, i);
        [entries[i], entries[j]] = [entries[j], entries[i]];
    }
    return Object.fromEntries(entries.map(([key, part]) => [key, shuffled(part, pick)]));
}

/**
 * Records of 8 to 11 keys, some of them missing, with nested maps and lists; `mixed` gives each map
 * an order of its own, as encoders with hash tables write them.
 */
export function records(count = 10000, mixed = false, seed = 7) {
    const pick = picker(seed);
    const made = pick.some(count, (id) => record(id, pick));
    return mixed ? shuffled(made, picker(seed + 1)) : made;
}
