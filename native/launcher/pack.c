#define _GNU_SOURCE
#include "pack.h"
#include "input.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Functions of zlib and zstd in ERTS, under their original names. The declarations are here
   because ERTS's headers include all of zlib and zstd. */
extern unsigned long crc32(unsigned long crc, const unsigned char *bytes, unsigned int size);
extern size_t ZSTD_decompress(void *to, size_t capacity, const void *from, size_t size);

#define HEADER_SIZE 32u
#define BLOCK_ROW_SIZE 16u
#define ENTRY_HEAD_SIZE 16u
#define START_BLOCK 0u

/* A program loads modules in bursts, and the modules of one burst often share a block. So a
   block stays in memory until nothing has read the pack for this time. */
#define IDLE_SECONDS 1
#define WATCHER_STACK (16u << 10)

static const unsigned char magic[8] = {'W', 'h', 'i', 't', 't', 'l', 'e', 1};

struct block {
    const unsigned char *stored;
    uint32_t stored_size;
    uint32_t raw_size;
    unsigned char *raw; /* the decompressed bytes, or NULL */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const unsigned char *pack;
static uint32_t pack_size;
static struct block *blocks;
static uint32_t block_count;
static struct pack_entry *entries;
static uint32_t entry_count;
/* The one block whose decompressed bytes stay in memory for the next read. */
static struct block *last_inflated;
/* The number of reads, by which the watcher sees that the pack is idle. */
static unsigned reads;
static int has_watcher, drops_idle_block;
static const char *problem = "";

static uint16_t get16(const unsigned char *at) { return (uint16_t)(at[0] | at[1] << 8); }

static uint32_t get32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Returns whether the file ends before SEGMENT does: SIGBUS would end a program that touches
   the missing pages. Returns 0 when it cannot find the file. */
static int is_cut_off(const ElfW(Phdr) *segment)
{
    const char *path = (const char *)getauxval(AT_EXECFN);
    struct stat status;
    return path != NULL && stat(path, &status) == 0 && S_ISREG(status.st_mode) &&
           (uint64_t)status.st_size < segment->p_offset + segment->p_filesz;
}

/* Returns the last segment if it is read-only: the pack. The last segment of a plain VM is
   writable. */
static const ElfW(Phdr) *find_segment(const unsigned char **start)
{
    const ElfW(Phdr) *header = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    const ElfW(Phdr) *last = NULL;
    unsigned long count = getauxval(AT_PHNUM);
    uintptr_t base = 0;
    unsigned long i;

    if (header == NULL)
        return NULL;
    for (i = 0; i < count; i++) {
        if (header[i].p_type == PT_PHDR)
            base = (uintptr_t)header - header[i].p_vaddr;
        if (header[i].p_type == PT_LOAD)
            last = &header[i];
    }
    if (last == NULL || last->p_flags != PF_R || last->p_filesz < HEADER_SIZE)
        return NULL;
    *start = (const unsigned char *)(base + last->p_vaddr);
    return last;
}

static enum pack_state damaged(const char *what)
{
    problem = what;
    return PACK_DAMAGED;
}

static unsigned char *map_bytes(size_t size)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return bytes == MAP_FAILED ? NULL : bytes;
}

/*
 * Gives mapped pages of the pack back to the kernel. They are clean pages of the file: the
 * kernel reads them again at the next access, and until then they do not count as memory of
 * this process.
 */
static void release_pages(const unsigned char *from, size_t size)
{
    uintptr_t page = (uintptr_t)getauxval(AT_PAGESZ);
    uintptr_t first = ((uintptr_t)from + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)from + size) & ~(page - 1);
    if (end > first)
        madvise((void *)first, end - first, MADV_DONTNEED);
}

/* Decompresses a frame, or copies uncompressed bytes. Returns 0 or -errno. */
static int inflate_to(unsigned char *to, uint32_t raw_size, const unsigned char *from,
                      uint32_t stored_size)
{
    if (raw_size == stored_size) {
        memcpy(to, from, raw_size);
        return 0;
    }
    return ZSTD_decompress(to, raw_size, from, stored_size) == raw_size ? 0 : -EIO;
}

static int compare(const char *path, size_t len, const struct pack_entry *entry)
{
    size_t common = len < entry->path_len ? len : entry->path_len;
    int order = memcmp(path, entry->path, common);
    if (order != 0)
        return order;
    return len < entry->path_len ? -1 : len > entry->path_len;
}

static int read_index(const unsigned char *index, uint32_t size)
{
    const unsigned char *at = index, *end = index + size;
    uint32_t i;

    for (i = 0; i < entry_count; i++) {
        struct pack_entry *entry = &entries[i];
        if ((size_t)(end - at) < ENTRY_HEAD_SIZE)
            return -1;
        entry->path_len = get16(at);
        entry->mode = get16(at + 2);
        entry->block = get32(at + 4);
        entry->offset = get32(at + 8);
        entry->size = get32(at + 12);
        at += ENTRY_HEAD_SIZE;
        if ((size_t)(end - at) < entry->path_len || entry->block >= block_count ||
            entry->offset > blocks[entry->block].raw_size ||
            entry->size > blocks[entry->block].raw_size - entry->offset)
            return -1;
        entry->path = (const char *)at;
        at += entry->path_len;
        /* lower_bound searches in halves, so the paths must be in order. */
        if (i > 0 && compare(entry->path, entry->path_len, entry - 1) <= 0)
            return -1;
    }
    return at == end ? 0 : -1;
}

static enum pack_state open_tree(const char *directory);

/* When the program's file was changed, or zero without /proc */
static struct timespec program_changed;

enum pack_state pack_open(void)
{
    const ElfW(Phdr) *segment = find_segment(&pack);
    const char *directory = getenv("WHITTLE_TREE");
    uint32_t index_stored, index_raw, i;
    const unsigned char *index_bytes;
    unsigned char *index;
    size_t tables;
    struct stat program;

    if (stat("/proc/self/exe", &program) == 0)
        program_changed = program.st_mtim;
    if (segment == NULL)
        return directory != NULL ? open_tree(directory) : PACK_ABSENT;
    if (is_cut_off(segment))
        return damaged("its end is missing");
    if (memcmp(pack, magic, sizeof magic) != 0)
        return damaged("the first bytes of the pack are wrong");
    pack_size = get32(pack + 12);
    if (pack_size < HEADER_SIZE || pack_size > segment->p_filesz)
        return damaged("its length is wrong");
    if (crc32(crc32(0, NULL, 0), pack + 12, pack_size - 12) != get32(pack + 8))
        return damaged("its checksum is wrong");

    block_count = get32(pack + 16);
    entry_count = get32(pack + 20);
    index_stored = get32(pack + 24);
    index_raw = get32(pack + 28);
    if (block_count > (pack_size - HEADER_SIZE) / BLOCK_ROW_SIZE ||
        entry_count > index_raw / ENTRY_HEAD_SIZE)
        return damaged("its tables have a wrong size");
    tables = HEADER_SIZE + (size_t)block_count * BLOCK_ROW_SIZE;
    if (index_stored > pack_size - tables)
        return damaged("its index has a wrong size");

    index_bytes = pack + tables;
    index = map_bytes(index_raw ? index_raw : 1);
    blocks = calloc(block_count ? block_count : 1, sizeof *blocks);
    entries = calloc(entry_count ? entry_count : 1, sizeof *entries);
    if (index == NULL || blocks == NULL || entries == NULL)
        return PACK_NO_MEMORY;
    if (inflate_to(index, index_raw, index_bytes, index_stored) < 0)
        return damaged("its index does not decompress");

    for (i = 0; i < block_count; i++) {
        const unsigned char *row = pack + HEADER_SIZE + (size_t)i * BLOCK_ROW_SIZE;
        uint32_t offset = get32(row);
        blocks[i].stored_size = get32(row + 4);
        blocks[i].raw_size = get32(row + 8);
        if (offset > pack_size || blocks[i].stored_size > pack_size - offset)
            return damaged("one of its blocks ends beyond its end");
        blocks[i].stored = pack + offset;
    }
    if (read_index(index, index_raw) < 0)
        return damaged("its index is malformed");
    if (block_count > 0) {
        const struct block *first = &blocks[START_BLOCK];
        const unsigned char *past_start = first->stored + first->stored_size;
        release_pages(past_start, pack_size - (size_t)(past_start - pack));
    }
    return PACK_READY;
}

/* ---- the same tree in a directory ------------------------------------------- */

/* The directory of the files, or NULL. Entries of a directory have no block. */
static const char *tree;

/* whittle_pack writes it: the number of files, then a line with the size and the path of each,
 * in the order of the paths. A file that its user may edit has `-' for its size. */
#define LIST "etc/files"
#define MOST_LIST_BYTES (64 << 20)

static enum pack_state tree_damaged(const char *path, const char *why)
{
    static char text[PATH_MAX + 128];

    snprintf(text, sizeof text, "tree/%s: %s", path, why);
    return damaged(text);
}

/* The same for a file that could not be reached for the reason CODE, which is 0 if it is not one of
   errno. Another copy of the directory would not help against a lack of rights or memory. */
static enum pack_state tree_unreached(const char *path, const char *why, int code)
{
    enum pack_state state = tree_damaged(path, why);

    return code == EACCES || code == ENOMEM || code == EMFILE || code == ENFILE ? PACK_UNREADABLE
                                                                              : state;
}

static int path_in_tree(char to[PATH_MAX], const char *path)
{
    if (snprintf(to, PATH_MAX, "%s/%s", tree, path) < PATH_MAX)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

/* The text of the list, in memory that stays, or NULL with the reason in *WHY. Then errno is 0, or
   says the same. */
static char *read_list(const char **why)
{
    char path[PATH_MAX];

    errno = 0;
    if (path_in_tree(path, LIST) == 0)
        return input_read(path, MOST_LIST_BYTES, NULL, NULL, why);
    *why = strerror(errno);
    return NULL;
}

/* One line of the list; the file has to be there with all its bytes. */
static enum pack_state add_file(char *line)
{
    struct pack_entry *entry = &entries[entry_count];
    char full[PATH_MAX], why[96], *path = strchr(line, ' ');
    struct stat status;

    if (path == NULL || path == line)
        return tree_damaged(LIST, "it is malformed");
    *path++ = '\0';
    entry->path = path;
    entry->path_len = (uint16_t)strlen(path);
    if (entry_count > 0 && compare(path, entry->path_len, entry - 1) <= 0)
        return tree_damaged(LIST, "it is malformed");
    if (path_in_tree(full, path) < 0 || stat(full, &status) < 0)
        return tree_unreached(path, strerror(errno), errno);
    if (!S_ISREG(status.st_mode) || status.st_size > UINT32_MAX)
        return tree_damaged(path, "it is not a regular file of less than 4 GB");
    entry->mode = (uint16_t)(status.st_mode & 0777);
    entry->size = (uint32_t)status.st_size;
    if (strcmp(line, "-") != 0 && strtoull(line, NULL, 10) != entry->size) {
        snprintf(why, sizeof why, "it has %lu bytes, and the build wrote %.20s",
                 (unsigned long)entry->size, line);
        return tree_damaged(path, why);
    }
    entry_count++;
    return PACK_READY;
}

static enum pack_state open_tree(const char *directory)
{
    enum pack_state state = PACK_READY;
    char *text, *line, *next;
    unsigned long count;
    const char *why;

    tree = directory;
    text = read_list(&why);
    if (text == NULL)
        return tree_unreached(LIST, why, errno);
    count = strtoul(text, &line, 10);
    if (*line != '\n' || count == 0 || count > strlen(text))
        return tree_damaged(LIST, "it is malformed");
    entries = calloc(count, sizeof *entries);
    if (entries == NULL)
        return PACK_NO_MEMORY;
    for (line++; state == PACK_READY && entry_count < count; line = next + 1) {
        next = strchr(line, '\n');
        if (next == NULL)
            return tree_damaged(LIST, "its end is missing");
        *next = '\0';
        state = add_file(line);
    }
    if (state == PACK_READY && *line != '\0')
        return tree_damaged(LIST, "it is malformed");
    return state;
}

/* Opens the file of an entry. The user may have replaced it since the start, by a longer or a
   shorter file, so *STATUS is that of the opened file. Returns the descriptor or -errno. */
static int open_in_tree(const struct pack_entry *entry, struct stat *status)
{
    char path[PATH_MAX];
    int fd, problem = 0;

    if (path_in_tree(path, entry->path) < 0)
        return -errno;
    /* A FIFO would wait for its writer. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    if (fstat(fd, status) < 0)
        problem = -errno;
    else if (!S_ISREG(status->st_mode))
        problem = S_ISDIR(status->st_mode) ? -EISDIR : -EINVAL;
    else if (status->st_size > UINT32_MAX || status->st_size > SSIZE_MAX)
        problem = -EFBIG;
    if (problem == 0)
        return fd;
    close(fd);
    return problem;
}

/* Reads up to SIZE bytes; there are fewer if the file has become shorter. Returns their number or
   -errno. */
static ssize_t read_bytes(int fd, unsigned char *to, size_t size)
{
    size_t length = 0;
    ssize_t got = 1;

    while (length < size && got != 0) {
        got = read(fd, to + length, size - length);
        if (got < 0 && errno != EINTR)
            return -errno;
        if (got > 0)
            length += (size_t)got;
    }
    return (ssize_t)length;
}

/* It copies the bytes: SIGBUS would end a program that maps a file while somebody shortens it. */
static int read_from_tree(const struct pack_entry *entry,
                          int (*use)(void *arg, const void *bytes, size_t size), void *arg)
{
    struct stat status;
    unsigned char *bytes;
    size_t size;
    ssize_t length;
    int result, fd = open_in_tree(entry, &status);

    if (fd < 0)
        return fd;
    size = (size_t)status.st_size;
    bytes = map_bytes(size > 0 ? size : 1);
    length = bytes == NULL ? -ENOMEM : read_bytes(fd, bytes, size);
    close(fd);
    result = length < 0 ? (int)length : use(arg, bytes, (size_t)length);
    if (bytes != NULL)
        munmap(bytes, size > 0 ? size : 1);
    return result;
}

/* ---- looking up and reading ------------------------------------------------- */

const char *pack_problem(void) { return problem; }

int pack_refresh(struct pack_entry *entry, struct timespec *changed)
{
    struct stat status;
    char path[PATH_MAX];

    *changed = program_changed;
    if (tree == NULL || entry->path == NULL)
        return 0;
    if (path_in_tree(path, entry->path) < 0 || stat(path, &status) < 0)
        return -errno;
    if (!S_ISREG(status.st_mode) || status.st_size > UINT32_MAX)
        return -ENOENT;
    entry->mode = (uint16_t)(status.st_mode & 0777);
    entry->size = (uint32_t)status.st_size;
    *changed = status.st_mtim;
    return 0;
}

int pack_is_tree(void) { return tree != NULL; }

/* Returns the number of entries whose path is before PATH in the order. */
static uint32_t lower_bound(const char *path, size_t len)
{
    uint32_t low = 0, high = entry_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare(path, len, &entries[middle]) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct pack_entry *pack_find(const char *path, size_t len)
{
    uint32_t at = lower_bound(path, len);
    if (at < entry_count && compare(path, len, &entries[at]) == 0)
        return &entries[at];
    return NULL;
}

const struct pack_entry *pack_first_below(const char *path, size_t len)
{
    char prefix[4096];
    uint32_t at;

    if (len == 0)
        return entry_count > 0 ? &entries[0] : NULL;
    if (len + 1 > sizeof prefix)
        return NULL;
    memcpy(prefix, path, len);
    prefix[len] = '/';
    at = lower_bound(prefix, len + 1);
    if (at < entry_count && entries[at].path_len > len + 1 &&
        memcmp(entries[at].path, prefix, len + 1) == 0)
        return &entries[at];
    return NULL;
}

const struct pack_entry *pack_next(const struct pack_entry *entry)
{
    return entry + 1 < entries + entry_count ? entry + 1 : NULL;
}

static void drop_inflated(struct block *block)
{
    munmap(block->raw, block->raw_size);
    block->raw = NULL;
}

static void drop_last(void)
{
    if (last_inflated != NULL && last_inflated->raw != NULL)
        drop_inflated(last_inflated);
}

static int inflate_block(struct block *block)
{
    unsigned char *raw = map_bytes(block->raw_size);
    int result;

    if (raw == NULL)
        return -ENOMEM;
    result = inflate_to(raw, block->raw_size, block->stored, block->stored_size);
    release_pages(block->stored, block->stored_size);
    if (result < 0) {
        munmap(raw, block->raw_size);
        return result;
    }
    drop_last();
    last_inflated = block;
    block->raw = raw;
    return 0;
}

/* Drops the last block when nothing has read the pack for IDLE_SECONDS, and ends. */
static void *watch(void *unused)
{
    const struct timespec pause = {IDLE_SECONDS, 0};
    unsigned seen;
    int is_idle;

    (void)unused;
    do {
        pthread_mutex_lock(&lock);
        seen = reads;
        pthread_mutex_unlock(&lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&lock);
        is_idle = seen == reads;
        if (is_idle) {
            drop_last();
            has_watcher = 0;
        }
        pthread_mutex_unlock(&lock);
    } while (!is_idle);
    return NULL;
}

/* Starts the watcher, which must not handle the signals of the VM. Returns 0 or an error
   number. The caller holds the lock. */
static int start_watcher(void)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_t thread;
    int problem = pthread_attr_init(&attributes);

    if (problem != 0)
        return problem;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, WATCHER_STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    problem = pthread_create(&thread, &attributes, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    has_watcher = problem == 0;
    return problem;
}

void pack_drop_idle_block(void) { drops_idle_block = 1; }

int pack_read(const struct pack_entry *entry,
              int (*use)(void *arg, const void *bytes, size_t size), void *arg)
{
    struct block *block;
    int result = 0;

    if (tree != NULL)
        return read_from_tree(entry, use, arg);
    if (entry->size == 0)
        return use(arg, "", 0);
    block = &blocks[entry->block];
    pthread_mutex_lock(&lock);
    reads++;
    if (block->raw == NULL)
        result = inflate_block(block);
    if (result == 0) {
        result = use(arg, block->raw + entry->offset, entry->size);
        /* A caller that has read a whole block does not soon read it again. This matters most
           for the start block: in memory it would double the size of the loaded code. */
        if (entry->size == block->raw_size)
            drop_inflated(block);
        else if (drops_idle_block && !has_watcher && start_watcher() != 0)
            drop_inflated(block);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static int copy_text(void *arg, const void *bytes, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL)
        return -ENOMEM;
    memcpy(text, bytes, size);
    text[size] = '\0';
    *(char **)arg = text;
    return 0;
}

char *pack_text(const char *path)
{
    const struct pack_entry *entry = pack_find(path, strlen(path));
    char *text = NULL;
    if (entry == NULL || pack_read(entry, copy_text, &text) < 0)
        return NULL;
    return text;
}
