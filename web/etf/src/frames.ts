/**
 * Messages with a length of four bytes before each, as `{packet, 4}` sockets send them, put
 * together again from pieces that were split anywhere.
 */
import { overLimit } from "./error.js";
import { grown, sized, viewOf, type Bytes } from "./bytes.js";
import { checkedLimits, type Limits } from "./limits.js";
import { checkNames } from "./options.js";
import { checkBytes } from "./utf8.js";

/** Collects pieces of a stream and gives the messages in them. */
export class FrameReader {
    private readonly limits: Pick<Limits, "maxBytes">;
    /** What is there of a length or a message that has not ended, and of how many bytes it is. */
    private held: Uint8Array = new Uint8Array(4);
    private length = 0;
    private wanted = 4;
    private inMessage = false;

    /**
     * @param limits the largest message that is accepted; default 64 MiB, as for a decoder's input
     */
    constructor(limits: { readonly maxBytes?: number } = {}) {
        checkNames(limits, { maxBytes: 0 });
        this.limits = checkedLimits(limits);
    }

    /**
     * The messages that end in this piece. A message that lies in the piece as a whole shares its
     * memory, others are copied together. Memory is taken for what arrived, not for what a length
     * promises. The whole piece is taken in at once, so a loop over the messages may end early
     * (or throw, as decoding may) without losing the place in the stream; the messages that are left
     * in the piece are dropped then.
     *
     * A length over the limit throws an EtfError of code `limit` after the messages before it, and
     * again with each further piece: the stream cannot be followed after that.
     */
    push(piece: Uint8Array): IterableIterator<Uint8Array> {
        checkBytes(piece, "a piece");
        return this.given(this.split(piece));
    }

    private *given(messages: readonly Uint8Array[]): IterableIterator<Uint8Array> {
        yield* messages;
        if (this.isOver) throw overLimit("maxBytes", this.limits, -1);
    }

    /** Whether a message was promised that is larger than the limit. */
    private get isOver(): boolean {
        return this.inMessage && this.wanted > this.limits.maxBytes;
    }

    private split(piece: Uint8Array): Uint8Array[] {
        const messages: Uint8Array[] = [];
        let at = 0;
        while (!this.isOver) {
            const { wanted, length } = this;
            let part = piece.subarray(at, at + wanted - length);
            at += part.length;
            if (part.length < wanted) {
                this.length += part.length;
                this.held = grown(this.held, length, this.length, wanted);
                this.held.set(part, length);
                if (this.length < wanted) break;
                part = this.held.subarray(0, wanted);
            }
            this.length = 0;
            this.inMessage = !this.inMessage;
            if (this.inMessage) {
                this.wanted = viewOf(part).getUint32(0);
            } else {
                messages.push(part);
                this.held = new Uint8Array(4);
                this.wanted = 4;
            }
        }
        return messages;
    }

    /**
     * Whether a message has begun that has not ended: true at the end of a stream means it was cut.
     */
    get pending(): boolean {
        return this.inMessage || this.length > 0;
    }
}

/** The message with its length before it, ready to be sent to a `{packet, 4}` socket. */
export function frame(message: Uint8Array): Bytes {
    checkBytes(message, "a message");
    return sized([], message.length, message);
}
