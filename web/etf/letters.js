// Written by bench/etf/letters.js. Names that compile.js gives to members of classes, from the
// most to the least used: those that gzip makes the least of. More members get what is left.
export const letters = "et_sunyfolparwiNmKMgbxOCcd$BZvkWEqRSHXDzGFThAVLjYIQJUP";

/** Those of a class and of the classes that extend it. */
export const lettersOf = {
    Binary: "t e",
    Keys: "G",
    ErlMap: "e t",
    Shape: "s t e i _ B w p b f",
    Input:
        "s t o e w u ee _ N ef k et f en i j b ep eM V eb $ g M O v m a er ed C h ec eO H el B " +
        "r J p q eo G L ea K T R e_ E c n Y z ew es X P eu ey A U D W Q I x l d eg ex em Z eN S " +
        "eK eC F y ei",
    Output:
        "e A t Y l p U V s a i g $ w o N v n z j R L r Q d W q G T D Z C M J u F K b k I P _ y " +
        "c E f S",
    FrameReader: "e t s i j p o Z",
    Failure: "e i t s",
    Decoder: "_ t e W",
};
