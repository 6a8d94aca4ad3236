/*
 * The place that the packer looks for: an ELF note of owner "Whittle" in a
 * program header of its own (docs/pack-format.md). Aligned to eight, so that
 * the linker does not put it into one header with the build id.
 */
#include <stdint.h>

__attribute__((used, aligned(8), section(".note.whittle"))) static const struct {
    uint32_t owner_size, description_size, type;
    char owner[8];
    uint32_t description;
} whittle_note = {8, 4, 1, "Whittle", 1};
