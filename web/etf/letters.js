// Written by bench/etf/letters.js. Names that compile.js gives to members of classes, from the
// most to the least used: those that gzip makes the least of. More members get what is left.
export const letters = "et_sunyfolparwiNmKMgbxOCcd$BZvkWEqRSHXDzGFThAVLjYIQJUP";

/** Those of a class and of the classes that extend it. */
export const lettersOf = {
    Binary: "t e",
    Keys: "J",
    ErlMap: "e t",
    Shape: "s t e b r B a C o f",
    Input:
        "s t D e u Q h ee i ed S d E o r w eb ep j a b R eg es O v m en F et V ei ec eO c el ey " +
        "I p z C x G e_ ef L l n N W f k Y B eo ea J X eu H _ g T M eM P eK A er ew ex em Z eN " +
        "$ K eC U y q",
    Output:
        "e K h Y b o m j s w S R E Q C y c B p t F r x G _ q L n T v Z A $ i u g V U z X d N a " +
        "f l P I",
    FrameReader: "e t s n w b C Z",
    Failure: "e i t s",
    Decoder: "n t e _",
};
