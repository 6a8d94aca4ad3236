/*
 * The pack: the read-only file tree that rides in the executable.
 *
 * docs/pack-format.md describes the bytes, docs/architecture.md what the tree
 * holds. Nothing here needs a file system: the kernel has mapped the pack with
 * the program, and we find it by walking our own program headers.
 */
#ifndef WHITTLE_PACK_H
#define WHITTLE_PACK_H

#include <stddef.h>
#include <stdint.h>

/* Every path of the pack is shown to the VM below this directory. */
#define WHITTLE_ROOT "/.whittle"

enum pack_state {
    PACK_ABSENT,  /* no pack in this executable: it is a plain VM */
    PACK_DAMAGED, /* a pack, but its bytes are not what was written (pack_problem) */
    PACK_READY
};

struct pack_entry {
    const char *path; /* not terminated; points into the inflated index */
    uint16_t path_len;
    uint16_t mode;
    uint32_t block;
    uint32_t offset;
    uint32_t size;
};

/*
 * Finds, checks and indexes the pack. To be called once, before any thread. Where
 * there is none the files below the directory that WHITTLE_TREE names are taken for
 * it: `whittle build --format dir` lays them out there.
 */
enum pack_state pack_open(void);

/* What is wrong with a damaged pack; a static string. */
const char *pack_problem(void);

/* Whether the files lie in the directory that WHITTLE_TREE names. */
int pack_is_tree(void);

/*
 * The file at PATH, which is relative to the root and in normal form (no
 * leading slash, no "." or ".."), or NULL.
 */
const struct pack_entry *pack_find(const char *path, size_t len);

/*
 * The first entry that lies below the directory PATH ("" is the root), or NULL
 * when there is no such directory. Entries of one directory tree are adjacent:
 * walk on with pack_next.
 */
const struct pack_entry *pack_first_below(const char *path, size_t len);

/* The entry after ENTRY in path order, or NULL after the last. */
const struct pack_entry *pack_next(const struct pack_entry *entry);

/*
 * Calls USE with the bytes of ENTRY while they are guaranteed to stay; returns
 * what USE returned, or -EIO when the block does not inflate, -ENOMEM when
 * there is no memory for it. Safe from any thread.
 */
int pack_read(const struct pack_entry *entry,
              int (*use)(void *arg, const void *bytes, size_t size), void *arg);

/*
 * The bytes of the file at PATH as a terminated string in memory of its own,
 * which the caller frees; NULL when there is no such file.
 */
char *pack_text(const char *path);

#endif
