/**
 * Joins messages from pieces that were split anywhere. Each message has a length of four bytes
 * before it, as `{packet, 4}` sockets send them.
 */
import { overLimit } from "./error.js";
import { grown, sized, viewOf, type Bytes } from "./bytes.js";
import { checkedLimits, type Limits } from "./limits.js";
import { checkNames } from "./options.js";
import { checkBytes } from "./utf8.js";

/** Collects pieces of a stream and returns the messages in them. */
export class FrameReader {
    private readonly limits: Pick<Limits, "maxBytes">;
    /** The available bytes of an unfinished length or message, and their number. */
    private held: Uint8Array = new Uint8Array(4);
    private length = 0;
    private wanted = 4;
    private inMessage = false;

    /**
     * @param limits the largest accepted message; default 64 MiB, as for a decoder's input
     */
    constructor(limits: { readonly maxBytes?: number } = {}) {
        checkNames(limits, { maxBytes: 0 });
        this.limits = checkedLimits(limits);
    }

    /**
     * Returns the messages that end in this piece. A message that is completely inside the piece
     * shares its memory; the function joins the parts of other messages in a copy. It allocates
     * memory for the bytes that arrived, not for the announced length. It reads the whole piece at
     * once. So the position in the stream stays correct if a loop over the messages ends early, for
     * example because decoding throws. The remaining messages of the piece are then lost.
     *
     * A length over the limit throws an EtfError of code `limit` after the earlier messages, and
     * again with each further piece, because the rest of the stream is unreadable.
     */
    push(piece: Uint8Array): IterableIterator<Uint8Array> {
        checkBytes(piece, "a piece");
        return this.given(this.split(piece));
    }

    private *given(messages: readonly Uint8Array[]): IterableIterator<Uint8Array> {
        yield* messages;
        if (this.isOver) throw overLimit("maxBytes", this.limits, -1);
    }

    /** Whether an announced message is larger than the limit. */
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
     * Returns whether a message is unfinished. At the end of a stream, true means that the last
     * message is truncated.
     */
    get pending(): boolean {
        return this.inMessage || this.length > 0;
    }
}

/** Puts the length before the message, ready for a `{packet, 4}` socket. */
export function frame(message: Uint8Array): Bytes {
    checkBytes(message, "a message");
    return sized([], message.length, message);
}
