/*
 * The pack: the read-only file tree in the executable.
 *
 * docs/pack-format.md describes its bytes, docs/architecture.md its files. This code needs no
 * file system: the kernel maps the pack with the program, and pack_open finds it in the
 * program headers of the process.
 */
#ifndef WHITTLE_PACK_H
#define WHITTLE_PACK_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* The VM sees the files of the pack below this directory. */
#define WHITTLE_ROOT "/.whittle"

enum pack_state {
    PACK_ABSENT,     /* this executable is a plain VM without a pack */
    PACK_DAMAGED,    /* the bytes of the pack are wrong (pack_problem) */
    PACK_UNREADABLE, /* a file of the tree cannot be read (pack_problem) */
    PACK_NO_MEMORY,
    PACK_READY
};

struct pack_entry {
    const char *path; /* has no zero at its end; points into the decompressed index */
    uint16_t path_len;
    uint16_t mode;
    uint32_t block;
    uint32_t offset;
    uint32_t size;
};

/*
 * Finds, checks and indexes the pack. Call it once, before the first thread. Without a pack it
 * uses the files below the directory that the variable WHITTLE_TREE names: the output of
 * `whittle build --format dir`.
 */
enum pack_state pack_open(void);

/* Returns the fault of a damaged or unreadable pack as a static string. */
const char *pack_problem(void);

/* Whether the files lie in the directory that WHITTLE_TREE names. */
int pack_is_tree(void);

/*
 * Returns the file at PATH, or NULL. PATH is relative to the root and in normal form (no
 * leading slash, no "." or "..").
 */
const struct pack_entry *pack_find(const char *path, size_t len);

/*
 * Returns the first entry below the directory PATH ("" is the root), or NULL when there is no
 * such directory. The entries below a directory are adjacent: pack_next returns the others.
 */
const struct pack_entry *pack_first_below(const char *path, size_t len);

/* Returns the entry after ENTRY in the order of the paths, or NULL after the last. */
const struct pack_entry *pack_next(const struct pack_entry *entry);

/*
 * Updates size and mode in a copy of an entry, and fills *CHANGED. In the output of `--format dir`
 * somebody may replace a file while the program runs. Returns -errno when the file is no longer
 * there. All files of a pack, and entries without a path, have the time of the program's file: an
 * HTTP server makes its ETag of size and time, and a new version must not look like the old one.
 */
int pack_refresh(struct pack_entry *entry, struct timespec *changed);

/*
 * Calls USE with the bytes of ENTRY, which are valid only during the call. Returns the result
 * of USE, or -errno: -EIO when the block does not decompress, -ENOMEM, or the error of a file in
 * the output of `--format dir`. Any thread may call it.
 */
int pack_read(const struct pack_entry *entry,
              int (*use)(void *arg, const void *bytes, size_t size), void *arg);

/*
 * From now on, drops the decompressed block that pack_read keeps when nothing has read the pack
 * for a second. A thread does this; it exists only until then. Call it before the second thread
 * of the process starts.
 */
void pack_drop_idle_block(void);

/*
 * Returns the bytes of the file at PATH as a string that the caller frees, or NULL when there
 * is no such file.
 */
char *pack_text(const char *path);

#endif
