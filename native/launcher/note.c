/*
 * The place that the packer looks for: an ELF note of owner "Whittle" in a
 * program header of its own (docs/pack-format.md). Aligned to eight, so that
 * the linker does not put it into one header with the build id.
 */
#include "entry.h"

__attribute__((used, aligned(8), section(".note.whittle"))) const struct whittle_note
    whittle_note = {8, 8, 1, "Whittle", 0, 1, 0};
