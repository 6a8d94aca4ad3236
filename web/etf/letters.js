// Written by bench/etf/letters.js. Names that compile.js gives to members of classes, from the
// most to the least used: those that gzip makes the least of. More members get what is left.
export const letters = "et_sunyfolparwiNmKMgbxOCcd$BZvkWEqRSHXDzGFThAVLjYIQJUP";

/** Those of a class and of the classes that extend it. */
export const lettersOf = {
    Binary: "t e",
    Keys: "p",
    ErlMap: "e t",
    Shape: "s p t i e Y B _ A b v l",
    Input:
        "s t o e ep d ee K es q u et f i em j V b eM C ei eb g eC O v x a ex ed M w ec eO ey I " +
        "A e_ eB y J m D eo p P eK L T Z c h z E ew Y en W S eN ea Q k F X n el ek G $ r er ev " +
        "N l eg _ H eu U e$ B eZ ef R eW",
    Output:
        "e t y w z b m r h a W g s i o K n F v j d c A x _ Q D p T E J C V l N B L Y Z q P S O " +
        "R f I M u",
    FrameReader: "e t s n j p o q",
    Failure: "e i t s",
    Decoder: "n g t Q",
};
