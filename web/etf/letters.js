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
        "s t o e w u ee _ N ef k et f en i j b ep eM V $ eb g M O v m a er ed C h ec eO ey el B " +
        "r J p q eo G L ea K T R n l c e_ Y z ew es U P eu X A x D E Q I H W d eg ex em Z eN S " +
        "eK eC F y ei",
    Output:
        "e A t Y d b m V s a i g $ w o N v f z U R I r Q _ W q G T D Z E M J u F K p k L P h y " +
        "n l O S",
    FrameReader: "e t s i j p A Z",
    Failure: "e i t s",
    Decoder: "n t e W",
};
