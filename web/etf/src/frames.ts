/**
 * Messages with a length of four bytes before each, as `{packet, 4}` sockets send them, put
 * together again from pieces that were split anywhere.
 */
import type { Bytes } from "./encode.js";
import { overLimit } from "./error.js";
import { checkedLimits, type Limits } from "./limits.js";
import { isBytes } from "./utf8.js";

/** Collects pieces of a stream and gives the messages in them. */
export class FrameReader {
    private readonly limits: Pick<Limits, "maxBytes">;
    /** The four bytes of the length, while some are missing. */
    private readonly head = new Uint8Array(4);
    private headLength = 0;
    /** The message being collected, or undefined between messages. */
    private body: Uint8Array | undefined = undefined;
    private bodyLength = 0;
    private wanted = 0;

    /**
     * @param limits the largest message that is accepted; default 64 MiB, as for a decoder's input
     */
    constructor(limits: { readonly maxBytes?: number } = {}) {
        this.limits = checkedLimits(limits);
    }

    /**
     * The messages that end in this piece. A message that lies in the piece as a whole shares its
     * memory, others are copied together. Memory is taken for what arrived, not for what a length
     * promises. The whole piece is taken in at once, so a loop over the messages may end early
     * (or throw, as decoding may) without losing the place in the stream.
     *
     * A length over the limit throws an EtfError of code `limit` after the messages before it, and
     * again with each further piece: the stream cannot be followed after that.
     */
    push(piece: Uint8Array): IterableIterator<Uint8Array> {
        if (!isBytes(piece)) throw new TypeError("a piece of a stream is a Uint8Array");
        return this.given(this.split(piece));
    }

    private *given(messages: readonly Uint8Array[]): IterableIterator<Uint8Array> {
        yield* messages;
        if (this.isOver) throw overLimit("maxBytes", this.limits, -1);
    }

    /** Whether a message was promised that is larger than the limit. */
    private get isOver(): boolean {
        return this.wanted > this.limits.maxBytes;
    }

    private split(piece: Uint8Array): Uint8Array[] {
        const messages: Uint8Array[] = [];
        let at = 0;
        while (at < piece.length && !this.isOver) {
            if (this.headLength < 4) {
                this.head[this.headLength++] = piece[at++];
                if (this.headLength === 4) this.begin();
                if (this.headLength < 4 || this.isOver) continue;
            }
            const part = piece.subarray(at, at + this.wanted - this.bodyLength);
            at += part.length;
            if (part.length === this.wanted) {
                this.headLength = 0;
                messages.push(part);
                continue;
            }
            this.collect(part);
            if (this.bodyLength === this.wanted) {
                messages.push(this.body!.subarray(0, this.wanted));
                this.headLength = 0;
                this.body = undefined;
            }
        }
        return messages;
    }

    /**
     * Whether a message has begun that has not ended: true at the end of a stream means it was cut.
     */
    get pending(): boolean {
        return this.headLength > 0;
    }

    private begin(): void {
        this.wanted = new DataView(this.head.buffer).getUint32(0);
        this.bodyLength = 0;
    }

    private collect(part: Uint8Array): void {
        const length = this.bodyLength + part.length;
        if (this.body === undefined || length > this.body.length) {
            const larger = new Uint8Array(Math.min(this.wanted, Math.max(length * 2, 4096)));
            if (this.body !== undefined) larger.set(this.body.subarray(0, this.bodyLength));
            this.body = larger;
        }
        this.body.set(part, this.bodyLength);
        this.bodyLength = length;
    }
}

/** The message with its length before it, ready to be sent to a `{packet, 4}` socket. */
export function frame(message: Uint8Array): Bytes {
    if (!isBytes(message)) throw new TypeError("a message is a Uint8Array");
    const framed = new Uint8Array(4 + message.length);
    new DataView(framed.buffer).setUint32(0, message.length);
    framed.set(message, 4);
    return framed;
}
