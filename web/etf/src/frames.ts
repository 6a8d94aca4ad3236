/**
 * Messages with a length of four bytes before each, as `{packet, 4}` sockets send them, put
 * together again from pieces that were split anywhere.
 */
import { overLimit } from "./error.js";
import { defaultLimits, type Limits } from "./limits.js";

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
        this.limits = { ...defaultLimits, ...limits };
    }

    /**
     * The messages that end in this piece. A message that lies in the piece as a whole shares its
     * memory, others are copied together. Memory is taken for what arrived, not for what a length
     * promises. A length over the limit throws an EtfError of code `limit`; the stream cannot be
     * followed after that.
     */
    *push(piece: Uint8Array): IterableIterator<Uint8Array> {
        let at = 0;
        while (at < piece.length || (this.headLength === 4 && this.wanted === 0)) {
            if (this.headLength < 4) {
                this.head[this.headLength++] = piece[at++];
                if (this.headLength === 4) this.begin();
                continue;
            }
            const missing = this.wanted - this.bodyLength;
            const part = piece.subarray(at, at + missing);
            at += part.length;
            if (this.bodyLength === 0 && part.length === this.wanted) {
                this.headLength = 0;
                yield part;
                continue;
            }
            this.collect(part);
            if (this.bodyLength === this.wanted) {
                const body = this.body!.subarray(0, this.wanted);
                this.headLength = 0;
                this.body = undefined;
                yield body;
            }
        }
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
        if (this.wanted > this.limits.maxBytes) throw overLimit("maxBytes", this.limits, -1);
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
export function frame(message: Uint8Array): Uint8Array {
    const framed = new Uint8Array(4 + message.length);
    new DataView(framed.buffer).setUint32(0, message.length);
    framed.set(message, 4);
    return framed;
}
