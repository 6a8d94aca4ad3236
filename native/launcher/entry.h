/*
 * The ELF note of owner "Whittle" in every VM (docs/pack-format.md), and the names of OTP's
 * programs that are linked into it.
 */
#ifndef WHITTLE_ENTRY_H
#define WHITTLE_ENTRY_H

#include <stdint.h>

struct whittle_note {
    uint32_t owner_size, description_size, type;
    char owner[8];
    uint32_t unused; /* fills the owner up to the alignment of eight bytes */
    uint32_t version;
    uint32_t sum; /* the checksum of the VM's bytes; the packer writes it; 0: none */
};

extern const struct whittle_note whittle_note;

/* Calls X with each name. The table of programs is in process.c. */
#define WHITTLE_CHILDREN(X)                                                                   \
    X("erl_child_setup") X("inet_gethost") X("heart") X("memsup") X("cpu_sup") X("erl")       \
    X("erlexec") X("beam.smp")

#endif
