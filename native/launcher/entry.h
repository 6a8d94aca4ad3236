/*
 * The note of owner "Whittle" that every VM carries (docs/pack-format.md).
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

#endif
