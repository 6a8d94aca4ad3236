// Written by bench/etf/letters.js. Names that compile.js gives to members of classes, from the
// most to the least used: those that gzip makes the least of. More members get what is left.
export const letters = "et_sunyfolparwiNmKMgbxOCcd$BZvkWEqRSHXDzGFThAVLjYIQJUP";

/** Those of a class and of the classes that extend it. */
export const lettersOf = {
    Binary: "t e",
    Keys: "H",
    ErlMap: "e t",
    Shape: "i t e b n J s C o g",
    Input:
        "s t _ e u p y ee a r V l P o i w eb ep j ei b eC e_ v c es $ en eN et f R ea q F el ey " +
        "N D k eo em I E O L M n Y U g ef z J H X eO S m A x C Q T G W er ew eK eu Z K eM eg ex " +
        "d B h",
    Output:
        "e b N g U p c h s f J P V m u y i F E t $ r o l k d B L Y x D W _ j C K R Z X O M v I " +
        "a T n",
    FrameReader: "e t s a w b u Z",
    Failure: "e i t s",
    Decoder: "t r e",
};
