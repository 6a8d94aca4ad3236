/**
 * Erlang terms in JavaScript: decoding and encoding of the external term format.
 * @module
 */
export * from "./decode.js";
export { byteSize } from "./size.js";
export { compare, equal } from "./compare.js";
export { encode, encodeInto, encoder, type Encodable, type EncodeOptions, type TermEncoder } from "./encode.js";
export { frame, FrameReader } from "./frames.js";
export * as read from "./read.js";
export * as write from "./write.js";
export type { Decoded, Decoder, ReadError, Result } from "./read.js";
export type { Encoder } from "./write.js";
