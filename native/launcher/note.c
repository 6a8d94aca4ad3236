/*
 * The ELF note of owner "Whittle" (docs/pack-format.md), which the packer looks for. It has a
 * program header of its own: because of the alignment to eight bytes the linker does not put
 * it into one header with the build id.
 */
#include "entry.h"

__attribute__((used, aligned(8), section(".note.whittle"))) const struct whittle_note
    whittle_note = {8, 8, 1, "Whittle", 0, 1, 0};
