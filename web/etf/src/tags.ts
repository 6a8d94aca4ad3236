/**
 * The tag bytes of the external term format, with the names of erts/emulator/beam/external.h. The
 * tags of the distribution header (ATOM_CACHE_REF and fragments) are not here, because a single
 * term cannot contain them.
 * @internal
 */
export const enum Tag {
    Version = 131,
    Compressed = 80,
    NewFloat = 70,
    Record = 67,
    BitBinary = 77,
    NewPid = 88,
    NewPort = 89,
    NewerReference = 90,
    SmallInteger = 97,
    Integer = 98,
    Float = 99,
    Atom = 100,
    Reference = 101,
    Port = 102,
    Pid = 103,
    SmallTuple = 104,
    LargeTuple = 105,
    Nil = 106,
    String = 107,
    List = 108,
    Binary = 109,
    SmallBig = 110,
    LargeBig = 111,
    NewFun = 112,
    Export = 113,
    NewReference = 114,
    SmallAtom = 115,
    Map = 116,
    Fun = 117,
    AtomUtf8 = 118,
    SmallAtomUtf8 = 119,
    V4Port = 120,
    Local = 121,
}
