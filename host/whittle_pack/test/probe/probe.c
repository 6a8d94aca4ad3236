/*
 * Replaces the VM in tests. It finds its pack through its own program headers, like the
 * launcher, and prints facts about it.
 *
 * usage: probe           prints the pack's length, and its address modulo the page size
 *        probe dump      prints the pack's bytes
 *        probe WORD...   prints each word and one line of stdin; the exit code is 7
 */
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

__attribute__((used, aligned(8), section(".note.whittle"))) static const struct {
    uint32_t owner_size, description_size, type;
    char owner[8];
    uint32_t description;
} note = {8, 4, 1, "Whittle", 1};

/* The program fills the bss. This would overwrite a pack that lies over it. */
static char bss[1 << 20];

int main(int argc, char **argv)
{
    const ElfW(Phdr) *header = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    unsigned long count = getauxval(AT_PHNUM), i;
    uintptr_t base = 0;
    const ElfW(Phdr) *last = NULL;
    const char *start;

    memset(bss, 'x', sizeof bss);
    for (i = 0; i < count; i++)
        if (header[i].p_type == PT_PHDR)
            base = (uintptr_t)header - header[i].p_vaddr;
    for (i = 0; i < count; i++)
        if (header[i].p_type == PT_LOAD)
            last = &header[i];
    start = (const char *)(base + last->p_vaddr);
    if (last->p_flags != PF_R || memcmp(start, "Whittle\1", 8) != 0) {
        puts("no pack");
        return 3;
    }
    if (argc == 2 && strcmp(argv[1], "dump") == 0)
        return fwrite(start, 1, last->p_filesz, stdout) != last->p_filesz;
    if (argc > 1) {
        char line[80];
        for (i = 1; i < (unsigned long)argc; i++)
            puts(argv[i]);
        if (fgets(line, sizeof line, stdin) != NULL)
            fputs(line, stdout);
        return 7;
    }
    printf("pack of %lu bytes at %lu mod 4096\n", (unsigned long)last->p_filesz,
           (unsigned long)((uintptr_t)start % 4096));
    return 0;
}
