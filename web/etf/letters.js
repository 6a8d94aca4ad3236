// Written by bench/etf/letters.js. Names that compile.js gives to members of classes, from the
// most to the least used: those that gzip makes the least of. More members get what is left.
export const letters = "et_sunyfolparwiNmKMgbxOCcd$BZvkWEqRSHXDzGFThAVLjYIQJUP";

/** Those of a class and of the classes that extend it. */
export const lettersOf = {
    Binary: "t e",
    Keys: "G",
    ErlMap: "e t",
    Shape: "s t e i o B a V b f",
    Input:
        "s t o e w u ee g N ef I et f h eb j b p eM V eg i D M O v m a F ed E en ec eO ew el ey " +
        "r P l q eo G _ ea eK C k e_ L c n Y B J es S X eu R z x T H er $ A W d ep ex em Z eN Q " +
        "K eC U y ei",
    Output:
        "e u h Y b p x V s a i D $ w _ N n B z t F r K M W q y C T l Z v f P O R I U m X E k d " +
        "G c o Q",
    FrameReader: "e t s i j p _ Z",
    Failure: "e i t s",
    Decoder: "n t e W",
};
