/**
 * Erlang terms in JavaScript: decoding and encoding of the external term format.
 * @module
 */
// Bundles contain the modules in this order, each after the modules that it needs. Of all orders
// that we tried, gzip compresses this one best.
export { defaultLimits, MAX_DEPTH, type Limits } from "./limits.js";
export * from "./term.js";
export { compare, equal } from "./compare.js";
export { decode, decodeTerm, plainDecoder, termDecoder } from "./standard.js";
export { byteSize } from "./size.js";
export { ErlMap } from "./map.js";
export { frame, FrameReader } from "./frames.js";
export { show } from "./show.js";
export * as write from "./write.js";
export * as read from "./read.js";
export {
    encode,
    encodeInto,
    encoder,
    type Bytes,
    type Encodable,
    type EncodeOptions,
    type TermEncoder,
} from "./encode.js";
export { EtfError, type EtfErrorCode } from "./error.js";
export type { PlainOptions } from "./plain.js";
export type { Inflate, Prefix } from "./reader.js";
export type { DecodeOptions, ReaderOptions, TermDecoder } from "./decode.js";
export type { Decoded, Decoder, ReadError, Result } from "./read.js";
export type { Encoder } from "./write.js";
