// Written by bench/etf/letters.js. Names that compile.js gives to members of classes, from the most
// to the least used: those that gzip makes the least of. More members get what is left.
export const letters = "et_sunyfolparwiNmKMgbxOCcd$BZvkWEqRSHXDzGFThAVLjYIQJUP";

/** Those of a class and of the classes that extend it. */
export const lettersOf = {
    Binary: "t e",
    Keys: "E",
    ErlMap: "e t",
    Shape: "s t _ b e J h C o g",
    Input:
        "s t _ e u p y ee a r V l P o i w ey ep R ei b eC el v c es $ en eN et f eo L q F eb ea " +
        "N D S eO em I E A j M n Y U g ef h J H X e_ x m k z C G T Q W er ew eK eu Z K eM eg ex " +
        "d B O",
    Output:
        "e b N n U o c O s f q P V m u y a J R t $ r x F S d B L g v Z W _ w C K E X D i M h I " +
        "l T A",
    FrameReader: "e t i s w p b Z",
    Failure: "e i t s",
    Decoder: "e t _",
};
