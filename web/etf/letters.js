// Written by bench/etf/letters.js. Names that compile.js gives to members of classes, from the
// most to the least used: those that gzip makes the least of. More members get what is left.
export const letters = "et_sunyfolparwiNmKMgbxOCcd$BZvkWEqRSHXDzGFThAVLjYIQJUP";

/** Those of a class and of the classes that extend it. */
export const lettersOf = {
    Binary: "t s",
    Keys: "M",
    ErlMap: "n t",
    Shape: "s e m I t a B _ p Y w y r n",
    Input:
        "s t f e es q ee g $ er m et r i em j V en L Y a n o I ek ev Z y eM eg el B ec eO eK eb " +
        "D e_ ea W ew ed M R p u ei E c x _ d A eo ep k S h O eN ey N U K z T v b P l w eC X H " +
        "C ex F Q eu eZ J G ef eB e$",
    Output:
        "n o y t w r A N B $ V I a e K q i u c v l H T f _ b Y p G U h M Q W X J R Z g k E m S " +
        "d F s P j x",
    FrameReader: "e p a t j n K S",
    Failure: "e p t s",
    Decoder: "s e t M",
};
