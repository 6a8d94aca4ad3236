// The letters with which letters.js starts. Earlier and longer searches found them.
export const letters = "et_sunyfolparwiNmKMgbxOCcd$BZvkWEqRSHXDzGFThAVLjYIQJUP";

/** The letters of a class and of the classes that extend it. */
export const lettersOf = {
    Binary: "t s",
    Keys: "M",
    ErlMap: "n t",
    Shape: "s e m I t a B _ p Y w y r n",
    Input:
        "s t f e es q ee g $ er m et r i em j V en H Y a n o I ek u Z y T eg el B ec eO eK eb D " +
        "e_ ea W ew ed M R p ev ei E c x _ eM A eo ep k S h O eN ey N U K z b v d P l w eC X L " +
        "C ex F Q eu eZ J G ef eB e$",
    Output:
        "e o y t w r N i s $ V I a F K E n u m A v Q k f _ d c p Z U h M H W X J q T g G R S Y " +
        "b B P l j",
    FrameReader: "e p a t j n o S",
    Failure: "e p t s",
    Decoder: "n e t M",
};
