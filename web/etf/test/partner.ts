// Runs Erlang's side of the tests: vectors/etf/terms.escript in the erl on PATH, and in the one
// that ETF_OTP29 names.
import { spawn, type ChildProcess } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { decodeTerm, encode, frame, FrameReader, Tuple, type Term } from "@whittle/etf";

const script = fileURLToPath(new URL("../../../../vectors/etf/terms.escript", import.meta.url));

/** The Erlang installations, each with its name. The release of that on PATH is not known yet. */
export function partners(): { erl: string; who: string; release: number | undefined }[] {
    const { ETF_OTP29 } = process.env;
    const onPath = { erl: "erl", who: "erl on PATH", release: undefined };
    if (ETF_OTP29) return [onPath, { erl: ETF_OTP29, who: "OTP 29", release: 29 }];
    const skip = "ETF_OTP29 names no erl of OTP 29 (tools/test gives it)";
    test("OTP 29", { skip }, () => undefined);
    return [onPath];
}

/** A running Erlang that answers questions in their order. */
export class Partner {
    private readonly child: ChildProcess;
    private readonly waiting: {
        resolve: (answer: Term) => void;
        reject: (error: Error) => void;
    }[] = [];

    constructor(erl: string) {
        this.child = spawn(
            erl,
            ["-noshell", "-noinput", "-run", "escript", "start", "-extra", script, "partner"],
            {
                stdio: ["pipe", "pipe", "inherit"],
            },
        );
        const frames = new FrameReader();
        this.child.stdout!.on("data", (piece: Uint8Array) => {
            for (const message of frames.push(piece))
                this.waiting.shift()!.resolve(decodeTerm(message));
        });
        const failed = (error: Error) =>
            this.waiting.splice(0).forEach(({ reject }) => reject(error));
        this.child.on("error", () =>
            failed(new Error(`${erl} does not start: install erlang-base, or correct ETF_OTP29`)),
        );
        this.child.on("exit", (code) => failed(new Error(`${erl} ended with ${code}`)));
    }

    ask(...question: readonly Term[]): Promise<Term> {
        return new Promise((resolve, reject) => {
            this.waiting.push({ resolve, reject });
            this.child.stdin!.write(frame(encode(new Tuple(question))));
        });
    }

    stop(): void {
        this.child.stdin!.end();
    }
}
