/*
 * The note of owner "Whittle" that every VM carries (docs/pack-format.md), and the names of
 * the programs as which the file runs itself.
 */
#ifndef WHITTLE_ENTRY_H
#define WHITTLE_ENTRY_H

#include <stdint.h>

struct whittle_note {
    uint32_t owner_size, description_size, type;
    char owner[8];
    uint32_t unused; /* notes of eight bytes' alignment have it before what they say */
    uint32_t version;
    uint32_t sum; /* of the VM's bytes, written by the packer; 0 where none was written */
};

extern const struct whittle_note whittle_note;

/* Calls X with each name; process.c has the programs. */
#define WHITTLE_CHILDREN(X)                                                                   \
    X("erl_child_setup") X("inet_gethost") X("heart") X("memsup") X("cpu_sup") X("erl")       \
    X("erlexec") X("beam.smp")

#endif
