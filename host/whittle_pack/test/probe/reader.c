/*
 * Runs the launcher's reader of packs (native/launcher/pack.c) for tests.
 *
 * usage: reader          prints the contents of its own pack, as the launcher finds it
 *        reader packs    answers each pack of the input with its contents, in the same
 *                        form (input: length in 4 bytes, big endian, then the pack)
 *        reader idle     reads a pack from its input in the same way, drops idle blocks, and
 *                        prints the blocks that it freed and the pauses of the watcher
 *
 * An answer is one of
 *   A                    there is no pack
 *   D PROBLEM            the pack is damaged
 *   R FILE...            its files, in order: u32 length of path, mode, length of
 *                        bytes, (i32) result of the read, 1 if the file is found by
 *                        its path and below each of its directories; path; bytes
 *   S TEXT               the reader exited with that status
 * with numbers in the byte order of the machine. Each pack has its own process, as in the
 * launcher. A build with sanitizers poisons all memory outside of the pack and of the
 * inflated data.
 */
#define _GNU_SOURCE
#include "pack.h"

#include <arpa/inet.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(from, size) ((void)(from), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(from, size) ((void)(from), (void)(size))
#endif

__attribute__((used, aligned(8), section(".note.whittle"))) static const struct {
    uint32_t owner_size, description_size, type;
    char owner[8];
    uint32_t description;
} note = {8, 4, 1, "Whittle", 1};

static size_t page_end(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page;
}

static void die(const char *what)
{
    perror(what);
    exit(2);
}

/* ---- system calls of pack.c ------------------------------------------ */

extern unsigned long __real_getauxval(unsigned long type);
extern void *__real_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
extern int __real_munmap(void *at, size_t size);
extern int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                 void *(*run)(void *arg), void *arg);

/* The program headers of a program that carries the pack. If unset, the own ones count. */
static ElfW(Phdr) headers[2];
static int have_headers;

unsigned long __wrap_getauxval(unsigned long type)
{
    if (!have_headers)
        return __real_getauxval(type);
    switch (type) {
    case AT_PHDR: return (unsigned long)headers;
    case AT_PHNUM: return 2;
    case AT_EXECFN: return 0;
    default: return __real_getauxval(type);
    }
}

void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
    char *bytes = __real_mmap(at, size, prot, flags, fd, offset);
    if (bytes != MAP_FAILED)
        ASAN_POISON_MEMORY_REGION(bytes + size, page_end(size) - size);
    return bytes;
}

/* The number of mappings that pack.c has freed. */
static int freed;

int __wrap_munmap(void *at, size_t size)
{
    freed++;
    ASAN_UNPOISON_MEMORY_REGION(at, page_end(size));
    return __real_munmap(at, size);
}

/* Maps a pack like a segment in the kernel: the pages of a file, and nothing after them. */
static void carry(const unsigned char *pack, size_t size)
{
    size_t room = page_end(size + 1);
    int fd = memfd_create("pack", 0);
    char *start;

    if (fd < 0 || write(fd, pack, size) != (ssize_t)size || ftruncate(fd, (off_t)room) < 0)
        die("memfd");
    start = __real_mmap(NULL, room + page_end(1), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED ||
        __real_mmap(start, room, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
        die("mmap");
    ASAN_POISON_MEMORY_REGION(start + size, room - size);
    headers[0].p_type = PT_PHDR;
    headers[0].p_vaddr = (ElfW(Addr))headers;
    headers[1].p_type = PT_LOAD;
    headers[1].p_flags = PF_R;
    headers[1].p_vaddr = (ElfW(Addr))start;
    headers[1].p_filesz = headers[1].p_memsz = size;
    have_headers = 1;
}

/* ---- contents of a pack ---------------------------------------------------------- */

struct bytes {
    char *at;
    size_t size;
};

static int keep(void *arg, const void *bytes, size_t size)
{
    struct bytes *kept = arg;
    kept->at = malloc(size + 1);
    if (kept->at == NULL)
        die("malloc");
    memcpy(kept->at, bytes, size);
    kept->size = size;
    return 0;
}

static int is_found(const struct pack_entry *entry)
{
    size_t i;
    for (i = 0; i < entry->path_len; i++)
        if (entry->path[i] == '/' && pack_first_below(entry->path, i) == NULL)
            return 0;
    return pack_find(entry->path, entry->path_len) == entry;
}

static void answer(FILE *out)
{
    const struct pack_entry *entry;

    switch (pack_open()) {
    case PACK_ABSENT:
        fputc('A', out);
        return;
    case PACK_DAMAGED:
        fprintf(out, "D%s", pack_problem());
        return;
    case PACK_UNREADABLE: /* the reader opens no directory */
        abort();
    case PACK_NO_MEMORY:
        fputc('M', out);
        return;
    case PACK_READY:
        break;
    }
    fputc('R', out);
    for (entry = pack_first_below("", 0); entry != NULL; entry = pack_next(entry)) {
        struct bytes kept = {NULL, 0};
        int32_t result = pack_read(entry, keep, &kept);
        uint32_t head[5] = {entry->path_len, entry->mode, (uint32_t)kept.size, (uint32_t)result,
                            (uint32_t)is_found(entry)};
        fwrite(head, sizeof head, 1, out);
        fwrite(entry->path, entry->path_len, 1, out);
        fwrite(kept.at == NULL ? "" : kept.at, kept.size, 1, out);
        free(kept.at);
    }
}

/* ---- many packs ------------------------------------------------------------------- */

static void put_answer(FILE *answered)
{
    long size = ftell(answered);
    uint32_t length = htonl((uint32_t)size);
    char *bytes = malloc((size_t)size + 1);

    rewind(answered);
    if (bytes == NULL || fread(bytes, 1, (size_t)size, answered) != (size_t)size)
        die("answer");
    fwrite(&length, sizeof length, 1, stdout);
    fwrite(bytes, (size_t)size, 1, stdout);
    fflush(stdout);
    free(bytes);
}

static void one_pack(const unsigned char *pack, size_t size)
{
    FILE *answered = tmpfile();
    int status;
    pid_t child;

    if (answered == NULL || (child = fork()) < 0)
        die("fork");
    if (child == 0) {
        carry(pack, size);
        answer(answered);
        fflush(answered);
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (status != 0) {
        rewind(answered);
        fprintf(answered, "S%d", status);
    } else {
        fseek(answered, 0, SEEK_END);
    }
    put_answer(answered);
    fclose(answered);
}

/* ---- idle blocks --------------------------------------------------------- */

/* The watcher of pack.c. The test waits for its end, and its pauses take no time. */
static pthread_t watcher;
static int refuses_threads;
static int pauses, busy_pauses;
/* The reads of the test come from one file. */
static const struct pack_entry *shared_entry;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*run)(void *arg), void *arg)
{
    int problem;

    (void)attributes;
    if (refuses_threads)
        return EAGAIN;
    problem = __real_pthread_create(thread, NULL, run, arg);
    watcher = *thread;
    return problem;
}

static int skip(void *arg, const void *bytes, size_t size)
{
    (void)arg;
    (void)bytes;
    (void)size;
    return 0;
}

int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest)
{
    (void)pause;
    (void)rest;
    pauses++;
    if (busy_pauses > 0) {
        busy_pauses--;
        if (pack_read(shared_entry, skip, NULL) != 0 || freed != 0)
            die("a read during the pause");
    }
    return 0;
}

/* Finds a file that shares its block with another one. */
static const struct pack_entry *find_shared(void)
{
    const struct pack_entry *entry, *other;

    for (entry = pack_first_below("", 0); entry != NULL; entry = pack_next(entry))
        for (other = pack_next(entry); other != NULL; other = pack_next(other))
            if (other->block == entry->block && entry->size > 0 && other->size > 0 &&
                other->offset != entry->offset)
                return entry;
    return NULL;
}

static void read_shared(void)
{
    if (pack_read(shared_entry, skip, NULL) != 0)
        die("pack_read");
}

static int idle(void)
{
    if (pack_open() != PACK_READY || (shared_entry = find_shared()) == NULL)
        die("pack_open");
    /* The launcher's own reads, before the VM starts. */
    read_shared();
    printf("before: freed %d, pauses %d\n", freed, pauses);
    pack_drop_idle_block();
    busy_pauses = 2;
    read_shared();
    pthread_join(watcher, NULL);
    printf("idle: freed %d, pauses %d\n", freed, pauses);
    read_shared();
    pthread_join(watcher, NULL);
    printf("again: freed %d, pauses %d\n", freed, pauses);
    refuses_threads = 1;
    read_shared();
    printf("without a thread: freed %d, pauses %d\n", freed, pauses);
    return 0;
}

/* ---- the command ----------------------------------------------------------- */

static unsigned char *read_pack(uint32_t *size)
{
    uint32_t length;
    unsigned char *pack;

    if (fread(&length, sizeof length, 1, stdin) != 1)
        return NULL;
    *size = ntohl(length);
    pack = malloc((size_t)*size + 1);
    if (pack == NULL || fread(pack, 1, *size, stdin) != *size)
        die("input");
    return pack;
}

int main(int argc, char **argv)
{
    unsigned char *pack;
    uint32_t size;

    if (argc < 2) {
        answer(stdout);
        return 0;
    }
    if (strcmp(argv[1], "idle") == 0) {
        pack = read_pack(&size);
        if (pack == NULL)
            die("input");
        carry(pack, size);
        free(pack);
        return idle();
    }
    while ((pack = read_pack(&size)) != NULL) {
        one_pack(pack, size);
        free(pack);
    }
    return 0;
}
