// The question: how long does each codec take for each payload? Runs anywhere a browser or
// Node does. Rounds of all codecs alternate, so that what the machine does meanwhile hits all;
// a figure is the median of the rounds, its spread the middle half of them.
import { decode as msgpackDecode, encode as msgpackEncode } from "@msgpack/msgpack";
import { Decoder as CborDecoder, Encoder as CborEncoder } from "cbor-x";
import { Packr, Unpackr } from "msgpackr";
import { atom, encoder, plainDecoder, termDecoder, tuple } from "../../web/etf/dist/index.js";
import { blobs, deep, metrics, people, records, table, texts } from "./payloads.js";

/** Bytes of a text: in Node by Buffer, which is faster than TextEncoder. */
const { Buffer } = globalThis;
const encoderOfText = new TextEncoder();
const toBytes = Buffer ? (text) => Buffer.from(text) : (text) => encoderOfText.encode(text);
const toText = new TextDecoder();

/**
 * Payloads by name: the value, how many times it is done in a round, and what JSON gets instead.
 */
export const payloads = {
    "one person": { make: () => people(1)[0], times: 3000 },
    "10,000 people": { make: () => people(10000), times: 2 },
    "records, one order": { make: () => records(), times: 2 },
    "records, shuffled": { make: () => records(10000, true), times: 2 },
    "metrics snapshot": { make: () => metrics(), times: 20 },
    "table of tuples": { make: () => table(), times: 8 },
    "deep small terms": { make: () => deep(), times: 10 },
    "long ASCII texts": { make: () => texts(), times: 10 },
    "long other texts": { make: () => texts(300, 8000, false), times: 5 },
    "big binaries": { make: () => blobs(), times: 2, binary: true },
};

const base64 = (bytes) => {
    let text = "";
    for (let at = 0; at < bytes.length; at += 8190)
        text += String.fromCharCode(...bytes.subarray(at, at + 8190));
    return btoa(text);
};

/** Base64 is what JSON needs for bytes: encoding it is part of its work, as is decoding. */
const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

/** The codecs: each gives a function that decodes and one that encodes the payload. */
function codecs(name, payload, value) {
    const rows = name === "table of tuples";
    const binaries = payload.binary === true;
    const etfValue = rows ? value.map((row) => tuple(...row)) : value;
    const json = () => JSON.stringify(binaries ? value.map(base64) : value);
    const parsed = (text) => (binaries ? JSON.parse(text).map(fromBase64) : JSON.parse(text));
    const text = json();
    const jsonBytes = toBytes(text);
    const plain = plainDecoder({ binaries: binaries ? "bytes" : "text" });
    const noCode = plainDecoder({
        binaries: binaries ? "bytes" : "text",
        codegen: false,
    });
    const model = termDecoder();
    const writer = encoder();
    const noCodeWriter = encoder({ codegen: false });
    const atomWriter = encoder({ keys: "atom" });
    const etf = writer.encode(etfValue);
    const atoms = atomWriter.encode(etfValue);
    const packr = new Packr({ useRecords: false });
    const unpackr = new Unpackr({ useRecords: false });
    const packed = Uint8Array.from(packr.pack(value));
    const cborEncoder = new CborEncoder({
        useRecords: false,
        tagUint8Array: false,
    });
    const cborDecoder = new CborDecoder({ useRecords: false });
    const cbor = Uint8Array.from(cborEncoder.encode(value));
    const msgpack = Uint8Array.from(msgpackEncode(value));
    return {
        sizes: {
            JSON: jsonBytes.length,
            ETF: etf.length,
            "ETF, atom keys": atoms.length,
            MessagePack: packed.length,
            CBOR: cbor.length,
        },
        decode: {
            "JSON.parse, bytes": () => parsed(toText.decode(jsonBytes)),
            "JSON.parse, string": () => parsed(text),
            "etf plain": () => plain.decode(etf),
            "etf plain, atom keys": () => plain.decode(atoms),
            "etf plain, no new Function": () => noCode.decode(etf),
            "etf term model": () => model.decode(etf),
            msgpackr: () => unpackr.unpack(packed),
            "cbor-x": () => cborDecoder.decode(cbor),
            "@msgpack/msgpack": () => msgpackDecode(msgpack),
        },
        encode: {
            "JSON.stringify, bytes": () => toBytes(json()),
            "JSON.stringify, string": () => json(),
            etf: () => writer.encode(etfValue),
            "etf, atom keys": () => atomWriter.encode(etfValue),
            "etf, no new Function": () => noCodeWriter.encode(etfValue),
            msgpackr: () => packr.pack(value),
            "cbor-x": () => cborEncoder.encode(value),
            "@msgpack/msgpack": () => msgpackEncode(value),
        },
    };
}

/** Keeps results from being optimised away. */
export let kept;

const quantile = (sorted, share) =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];

/**
 * Measures everything; `only` chooses payloads. Each result: payload, direction, codec, median
 * milliseconds, and the quartiles.
 */
export function measure({ rounds = 11, only, log = () => {} } = {}) {
    const results = [];
    for (const [name, payload] of Object.entries(payloads)) {
        if (only !== undefined && !only.includes(name)) continue;
        const value = payload.make();
        const made = codecs(name, payload, value);
        results.push({ payload: name, sizes: made.sizes });
        for (const direction of ["decode", "encode"]) {
            const times = new Map(Object.keys(made[direction]).map((codec) => [codec, []]));
            // The first rounds warm up.
            for (let round = -3; round < rounds; round++) {
                for (const [codec, run] of Object.entries(made[direction])) {
                    kept = undefined;
                    globalThis.gc?.();
                    const start = performance.now();
                    for (let i = 0; i < payload.times; i++) kept = run();
                    const took = (performance.now() - start) / payload.times;
                    if (round >= 0) times.get(codec).push(took);
                }
            }
            for (const [codec, list] of times) {
                list.sort((a, b) => a - b);
                results.push({
                    payload: name,
                    direction,
                    codec,
                    ms: quantile(list, 0.5),
                    low: quantile(list, 0.25),
                    high: quantile(list, 0.75),
                });
            }
            log(`${name}, ${direction}`);
        }
    }
    return results;
}
