// Makes random values from a seed: the same ones on every machine.
import {
    Atom,
    Binary,
    BitBinary,
    ErlMap,
    ErlRecord,
    ExportFun,
    Float,
    Fun,
    ImproperList,
    Pid,
    Port,
    Reference,
    Tuple,
    type Term,
} from "@whittle/etf";

export class Random {
    private state: number;

    constructor(seed: number) {
        this.state = seed >>> 0;
    }

    /** A number in [0, 1). */
    next(): number {
        this.state = (this.state + 0x6d2b79f5) >>> 0;
        let t = this.state;
        t = Math.imul(t ^ (t >>> 15), t | 1);
        t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    }

    below(limit: number): number {
        return Math.floor(this.next() * limit);
    }

    of<T>(choices: readonly T[]): T {
        return choices[this.below(choices.length)];
    }

    some<T>(most: number, make: () => T): T[] {
        return Array.from({ length: this.below(most + 1) }, make);
    }

    word(): number {
        return this.below(4294967296);
    }

    bytes(length: number): Uint8Array {
        return Uint8Array.from({ length }, () => this.below(256));
    }

    text(most: number): string {
        return this.some(most, () =>
            this.of(["a", "q", "Z", "0", " ", "å", "λ", "信", "🛰", "\u0000"]),
        ).join("");
    }

    private integer(): number | bigint {
        const bits = this.of([8, 31, 32, 33, 52, 53, 54, 64, 65, 200, 2040, 2048]);
        let value = 1n << BigInt(bits);
        value += BigInt(this.below(5)) - 2n;
        if (this.below(2) === 0) value -= BigInt(Math.floor(this.next() * 2 ** Math.min(bits, 52)));
        if (this.below(2) === 0) value = -value;
        const small = Number(value);
        return Number.isSafeInteger(small) ? small : value;
    }

    private float(): number {
        const view = new DataView(new ArrayBuffer(8));
        view.setUint32(0, this.word());
        view.setUint32(4, this.word());
        const value = view.getFloat64(0);
        return Number.isFinite(value) ? value : this.of([0, -0, 1, 5e-324, 1.7976931348623157e308]);
    }

    atom(): Atom {
        return new Atom(
            this.of([
                "ok",
                "true",
                "nil",
                "",
                "with space",
                "åäö",
                "λ",
                "🛰",
                "a".repeat(255),
                "å".repeat(200),
            ]),
        );
    }

    private node(): Atom {
        return new Atom(this.of(["n@far", "m@near"]));
    }

    private pid(): Pid {
        return new Pid(this.node(), this.word(), this.word(), this.word());
    }

    /** Makes a term. `records` allows native records in it, which OTP 25 cannot read. */
    term(depth: number, records: boolean): Term {
        const inner = () => this.term(depth - 1, records);
        const leaves: (() => Term)[] = [
            () => this.below(300) - 20,
            () => this.integer(),
            () => new Float(this.float()),
            () => this.atom(),
            () => Binary.of(this.text(60)),
            () => Binary.of(this.bytes(this.below(40))),
            () => {
                const bits = 1 + this.below(7);
                const bytes = this.bytes(1 + this.below(5));
                bytes[bytes.length - 1] &= 0xff << (8 - bits);
                return new BitBinary(bytes, bits);
            },
            () => this.pid(),
            () => {
                const wide = (BigInt(this.word()) << 32n) | BigInt(this.word());
                return new Port(
                    this.node(),
                    this.below(2) === 0
                        ? this.below(1 << 28)
                        : wide > 9007199254740991n
                          ? wide
                          : Number(wide),
                    this.word(),
                );
            },
            () =>
                new Reference(
                    this.node(),
                    this.word(),
                    Array.from({ length: this.of([1, 2, 3, 5]) }, () => this.word()),
                ),
            () => new ExportFun(this.atom(), this.atom(), this.below(200)),
            () => this.some(12, () => this.below(256)),
            () => this.of<Term>([[], new Tuple([]), ErlMap.from([]), Binary.of("")]),
        ];
        if (depth <= 0) return this.of(leaves)();
        const nodes: (() => Term)[] = [
            () => new Tuple(this.some(6, inner)),
            () => this.some(6, inner),
            () => {
                const items = this.some(4, inner);
                const tail = inner();
                if (items.length === 0) return tail;
                if (Array.isArray(tail)) return [...items, ...(tail as Term[])];
                return tail instanceof ImproperList
                    ? new ImproperList([...items, ...tail.items], tail.tail)
                    : new ImproperList(items, tail);
            },
            () => ErlMap.from(this.some(8, () => [inner(), inner()] as const)),
            () =>
                Array.from({ length: 3 }, () =>
                    ErlMap.from(["a", "b", "c"].map((key) => [new Atom(key), inner()] as const)),
                ),
            () => ErlMap.from(Array.from({ length: 70 }, (_, at) => [at, at % 2] as const)),
            () =>
                new Fun(
                    this.atom(),
                    this.below(20),
                    this.bytes(16),
                    this.below(100),
                    this.below(100),
                    this.below(1 << 27),
                    this.pid(),
                    this.some(3, inner),
                ),
        ];
        if (records) {
            nodes.push(() => {
                const fields = ["x", "y", "z", "four", "5"]
                    .slice(0, this.below(6))
                    .map((name) => new Atom(name));
                return new ErlRecord(
                    this.atom(),
                    this.atom(),
                    this.below(2) === 0,
                    fields,
                    fields.map(inner),
                );
            });
        }
        return this.of(this.below(3) === 0 ? leaves : nodes)();
    }
}
