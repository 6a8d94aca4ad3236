/*
 * Compile this file without LTO: the linker resolves --wrap before link-time optimization
 * shows it the references.
 */
#define _GNU_SOURCE
#include "vfs.h"
#include "memory_file.h"
#include "pack.h"
#include "process.h"
#include "signals.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utime.h>

#define REAL(name) REAL_OF(name)
#define WRAP(name) WRAP_OF(name)
#define REAL_OF(name) __real_##name
#define WRAP_OF(name) __wrap_##name

/* On processors where musl's time_t once had 32 bits, its headers rename these calls. */
#ifdef _REDIR_TIME64
#define STAT __stat_time64
#define LSTAT __lstat_time64
#define UTIME __utime64
#else
#define STAT stat
#define LSTAT lstat
#define UTIME utime
#endif

extern int REAL(open)(const char *path, int flags, ...);
extern int REAL(STAT)(const char *path, struct stat *to);
extern int REAL(LSTAT)(const char *path, struct stat *to);
extern int REAL(access)(const char *path, int mode);
extern ssize_t REAL(readlink)(const char *path, char *to, size_t size);
extern DIR *REAL(opendir)(const char *path);
extern struct dirent *REAL(readdir)(DIR *dir);
extern int REAL(closedir)(DIR *dir);
extern int REAL(close)(int fd);
extern ssize_t REAL(write)(int fd, const void *bytes, size_t size);
extern ssize_t REAL(writev)(int fd, const struct iovec *parts, int count);
int WRAP(close)(int fd); /* declared here because it is used before its definition */
extern int REAL(mkdir)(const char *path, mode_t mode);
extern int REAL(rmdir)(const char *path);
extern int REAL(unlink)(const char *path);
extern int REAL(chmod)(const char *path, mode_t mode);
extern int REAL(chown)(const char *path, uid_t owner, gid_t group);
extern int REAL(UTIME)(const char *path, const struct utimbuf *times);
extern int REAL(truncate)(const char *path, off_t size);
extern int REAL(rename)(const char *from, const char *to);
extern int REAL(link)(const char *from, const char *to);
extern int REAL(symlink)(const char *to, const char *path);

static int started;

void vfs_start(void) { started = 1; }

/* ---- paths ------------------------------------------------------------- */

/*
 * Writes PATH in normal form, relative to the pack's root, into TO. Returns
 * its length, or -1 when PATH is not below WHITTLE_ROOT.
 */
static int to_pack_path(const char *path, char to[PATH_MAX])
{
    const size_t root = sizeof WHITTLE_ROOT - 1;
    size_t length = 0;

    if (!started || path == NULL || strncmp(path, WHITTLE_ROOT, root) != 0 ||
        (path[root] != '/' && path[root] != '\0'))
        return -1;
    path += root;
    while (*path != '\0') {
        size_t part = strcspn(path, "/");
        if (part == 0 || (part == 1 && path[0] == '.')) {
            /* nothing to add */
        } else if (part == 2 && path[0] == '.' && path[1] == '.') {
            while (length > 0 && to[length - 1] != '/')
                length--;
            if (length > 0)
                length--;
        } else {
            if (length + part + 2 > PATH_MAX)
                return -1;
            if (length > 0)
                to[length++] = '/';
            memcpy(to + length, path, part);
            length += part;
        }
        path += part;
        path += *path == '/';
    }
    to[length] = '\0';
    return (int)length;
}

/*
 * Returns the pack's fallback/PATH, which replaces PATH when the kernel has no such file
 * (docs/architecture.md). Returns NULL when the pack has no such file either.
 */
static const struct pack_entry *find_fallback(const char *path)
{
    char fallback[PATH_MAX];
    size_t length = strlen(path);
    const size_t head = sizeof "fallback" - 1;

    if (!started || path[0] != '/' || head + length >= sizeof fallback)
        return NULL;
    memcpy(fallback, "fallback", head);
    memcpy(fallback + head, path, length);
    return pack_find(fallback, head + length);
}

/* ---- /dev/null ---------------------------------------------------------- */

/*
 * Descriptors that replace /dev/null on a machine without it. Each is an empty sealed memfd:
 * a read returns end of file, and write and writev below report all bytes as written. The
 * set has one bit for each descriptor. Its elements are words, because not every processor
 * has atomic bytes. Descriptors of NULL_FDS and above are never in the set.
 */
#define NULL_FDS 1024
static unsigned null_fds[NULL_FDS / 32];

static int is_null_fd(int fd)
{
    return fd >= 0 && fd < NULL_FDS && (null_fds[fd / 32] & 1u << fd % 32) != 0;
}

static void mark_null_fd(int fd, int is_null)
{
    unsigned bit = 1u << fd % 32;
    if (fd < 0 || fd >= NULL_FDS)
        return;
    if (is_null)
        __atomic_or_fetch(&null_fds[fd / 32], bit, __ATOMIC_RELAXED);
    else
        __atomic_and_fetch(&null_fds[fd / 32], ~bit, __ATOMIC_RELAXED);
}

static int open_null(int cloexec)
{
    int fd = null_file(cloexec ? MFD_CLOEXEC : 0);

    if (fd >= 0)
        mark_null_fd(fd, 1);
    return fd;
}

void vfs_open_standard_descriptors(void)
{
    int fd;
    for (fd = 0; fd <= 2; fd++) {
        int opened;
        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        opened = REAL(open)("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
        if (opened < 0)
            opened = open_null(0);
        if (opened >= 0 && opened != fd) {
            /* open returns the lowest free number, so this cannot happen. Handle it anyway. */
            dup2(opened, fd);
            mark_null_fd(fd, is_null_fd(opened));
            WRAP(close)(opened);
        }
    }
}

/* ---- opening ----------------------------------------------------------- */

static int copy_to_memfd(void *arg, const void *bytes, size_t size)
{
    int fd = *(int *)arg;
    const char *at = bytes;
    while (size > 0) {
        ssize_t written = REAL(write)(fd, at, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 && errno == EFBIG ? -EFBIG : -EIO;
        at += written;
        size -= (size_t)written;
    }
    return 0;
}

/*
 * One memfd in reserve. A program that has used up its descriptors may call a module that the
 * VM has not loaded yet: often the one that handles this case. The VM then reads that module
 * from the pack through the reserve. One reader at a time borrows it, and returns it with
 * close. `lent' is the number of the borrowed descriptor, by which close recognizes it. The
 * reserve gets no seals, because return_spare empties it.
 */
static int spare = -1, lent = -1;

void vfs_start_vm(void)
{
    int fd = memory_file("whittle", MFD_CLOEXEC, MFD_EXEC);

    /* If the kernel runs no memory file at all, the VM can still read modules through one. */
    if (fd < 0 && errno == EACCES)
        fd = memory_file("whittle", MFD_CLOEXEC, MFD_NOEXEC_SEAL);
    if (fd >= 0) {
        spare = fcntl(fd, F_DUPFD_CLOEXEC, PROCESS_LOWEST_FD);
        REAL(close)(fd);
    }
    pack_drop_idle_block();
    vfs_start();
}

static int borrow_spare(void)
{
    int problem = errno, fd = __atomic_exchange_n(&spare, -1, __ATOMIC_ACQ_REL);

    if (fd >= 0)
        __atomic_store_n(&lent, fd, __ATOMIC_RELEASE);
    errno = problem;
    return fd;
}

/* Takes FD back if it is the borrowed reserve: empties it and leaves it open. Returns whether
   it was the reserve. */
static int return_spare(int fd)
{
    int back = fd;

    /* Clear `lent' first: if ftruncate fails, FD is closed and its number may be reused. */
    if (fd < 0 || !__atomic_compare_exchange_n(&lent, &back, -1, 0, __ATOMIC_ACQ_REL,
                                               __ATOMIC_RELAXED))
        return 0;
    if (ftruncate(fd, 0) != 0)
        return 0;
    lseek(fd, 0, SEEK_SET);
    __atomic_store_n(&spare, fd, __ATOMIC_RELEASE);
    return 1;
}

/*
 * Opens a file of the pack: copies its bytes into a sealed memfd, which the VM can read, seek,
 * map and poll. KIND is that of memory_file.
 */
static int open_entry(const struct pack_entry *entry, int flags, unsigned kind)
{
    int fd, result, is_own = 1;

    if ((flags & O_ACCMODE) != O_RDONLY || (flags & (O_TRUNC | O_APPEND)) != 0) {
        errno = EROFS;
        return -1;
    }
    if (flags & O_DIRECTORY) {
        errno = ENOTDIR;
        return -1;
    }
    fd = memory_file("whittle", (flags & O_CLOEXEC ? MFD_CLOEXEC : 0) | MFD_ALLOW_SEALING, kind);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        is_own = 0;
        fd = borrow_spare();
    }
    if (fd < 0)
        return -1;
    result = pack_read(entry, copy_to_memfd, &fd);
    if (result < 0) {
        WRAP(close)(fd);
        errno = -result;
        return -1;
    }
    lseek(fd, 0, SEEK_SET);
    if (is_own)
        seal(fd);
    return fd;
}

int vfs_open_program(const char *path)
{
    const size_t root = sizeof WHITTLE_ROOT - 1;
    char inner[PATH_MAX];
    const struct pack_entry *entry;
    int length;

    errno = ENOENT;
    if (strncmp(path, WHITTLE_ROOT "/", root + 1) != 0)
        return -1;
    if (!started)
        switch (pack_open()) {
        case PACK_READY:
            break;
        case PACK_ABSENT:
            errno = ENOENT;
            return -1;
        case PACK_NO_MEMORY:
            errno = ENOMEM;
            return -1;
        case PACK_DAMAGED:
            errno = EIO;
            return -1;
        }
    vfs_start();
    length = to_pack_path(path, inner);
    entry = length >= 0 ? pack_find(inner, (size_t)length) : NULL;
    if (entry != NULL && (entry->mode & 0111) != 0)
        return open_entry(entry, O_RDONLY, MFD_EXEC);
    errno = ENOENT;
    return -1;
}

int WRAP(open)(const char *path, int flags, ...)
{
    char inner[PATH_MAX];
    int length = to_pack_path(path, inner);
    const struct pack_entry *entry;
    mode_t mode = 0;
    int fd;

    if (length >= 0) {
        entry = pack_find(inner, (size_t)length);
        if (entry != NULL)
            return open_entry(entry, flags, MFD_NOEXEC_SEAL);
        if (flags & O_CREAT)
            errno = EROFS;
        else
            errno = pack_first_below(inner, (size_t)length) ? EISDIR : ENOENT;
        return -1;
    }
    if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {
        va_list rest;
        va_start(rest, flags);
        mode = (mode_t)va_arg(rest, int);
        va_end(rest);
    }
    fd = REAL(open)(path, flags, mode);
    if (fd >= 0) {
        /* A NIF's library may have closed a marked descriptor without clearing the mark. */
        if (is_null_fd(fd))
            mark_null_fd(fd, 0);
        return fd;
    }
    if (errno != ENOENT && errno != ENOTDIR)
        return fd;
    if (strcmp(path, "/dev/null") == 0)
        return open_null(flags & O_CLOEXEC);
    if ((flags & (O_ACCMODE | O_CREAT)) == O_RDONLY) {
        int problem = errno;
        entry = find_fallback(path);
        if (entry != NULL)
            return open_entry(entry, flags, MFD_NOEXEC_SEAL);
        errno = problem;
    }
    return -1;
}

int WRAP(close)(int fd)
{
    int kept = fd;

    if (return_spare(fd))
        return 0;
    /* Code that closes every descriptor closes the reserve too. */
    __atomic_compare_exchange_n(&spare, &kept, -1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    if (is_null_fd(fd))
        mark_null_fd(fd, 0);
    return REAL(close)(fd);
}

/*
 * Returns whether to report a failed write as done. OTP's process for standard output ends at
 * the first error, and every process that prints would then wait for it forever.
 */
static int is_lost(int fd, ssize_t written)
{
    if (written >= 0 || !started || (fd != STDOUT_FILENO && fd != STDERR_FILENO) ||
        errno == EAGAIN || errno == EINTR)
        return 0;
    if (fd == STDOUT_FILENO)
        signals_output_lost(errno);
    return 1;
}

ssize_t WRAP(write)(int fd, const void *bytes, size_t size)
{
    ssize_t written = is_null_fd(fd) ? (ssize_t)size : REAL(write)(fd, bytes, size);
    return is_lost(fd, written) ? (ssize_t)size : written;
}

static ssize_t total(const struct iovec *parts, int count)
{
    ssize_t size = 0;
    while (count-- > 0)
        size += (ssize_t)parts++->iov_len;
    return size;
}

ssize_t WRAP(writev)(int fd, const struct iovec *parts, int count)
{
    ssize_t written = is_null_fd(fd) ? total(parts, count) : REAL(writev)(fd, parts, count);
    return is_lost(fd, written) ? total(parts, count) : written;
}

/* ---- status ------------------------------------------------------------ */

/* Fills *TO for FILE, or for a directory if FILE is NULL. Returns 0, or -1 with errno. */
static int fill_stat(struct stat *to, const struct pack_entry *file)
{
    static const struct pack_entry none;
    struct pack_entry now = file != NULL ? *file : none;
    int problem;

    memset(to, 0, sizeof *to);
    problem = pack_refresh(&now, &to->st_mtim);
    if (problem < 0) {
        errno = -problem;
        return -1;
    }
    to->st_atim = to->st_mtim;
    to->st_ctim = to->st_mtim;
    if (file != NULL) {
        to->st_mode = S_IFREG | (now.mode & 0555);
        to->st_size = (off_t)now.size;
        to->st_ino = (ino_t)((uintptr_t)file / sizeof *file) + 2;
    } else {
        to->st_mode = S_IFDIR | 0555;
        to->st_ino = 1;
    }
    to->st_nlink = 1;
    to->st_blksize = 4096;
    to->st_blocks = (to->st_size + 511) / 512;
    return 0;
}

static int stat_virtual(const char *path, const char *inner, size_t length, struct stat *to)
{
    static const struct pack_entry program = {.mode = 0555};
    const struct pack_entry *entry = pack_find(inner, length);
    if (entry == NULL && process_is_own_program(path))
        entry = &program; /* the VM checks a program's file before it runs it */
    if (entry == NULL && pack_first_below(inner, length) == NULL) {
        errno = ENOENT;
        return -1;
    }
    return fill_stat(to, entry);
}

/* After a failed call: fills *TO and returns 1 when the pack has a fallback for PATH. */
static int stat_fallback(const char *path, struct stat *to)
{
    const struct pack_entry *entry = errno == ENOENT ? find_fallback(path) : NULL;
    return entry != NULL && fill_stat(to, entry) == 0;
}

static int stat_with(int (*real)(const char *, struct stat *), const char *path, struct stat *to)
{
    char inner[PATH_MAX];
    int length = to_pack_path(path, inner);
    int result;

    if (length >= 0)
        return stat_virtual(path, inner, (size_t)length, to);
    result = real(path, to);
    return result < 0 && stat_fallback(path, to) ? 0 : result;
}

int WRAP(STAT)(const char *path, struct stat *to) { return stat_with(REAL(STAT), path, to); }

int WRAP(LSTAT)(const char *path, struct stat *to) { return stat_with(REAL(LSTAT), path, to); }

int WRAP(access)(const char *path, int mode)
{
    char inner[PATH_MAX];
    int length = to_pack_path(path, inner);
    struct stat status;

    if (length < 0) {
        int result = REAL(access)(path, mode);
        if (result == 0 || !stat_fallback(path, &status))
            return result;
    } else if (stat_virtual(path, inner, (size_t)length, &status) < 0) {
        return -1;
    }
    if (mode & W_OK) {
        errno = EROFS;
        return -1;
    }
    if ((mode & X_OK) != 0 && (status.st_mode & 0111) == 0) {
        errno = EACCES;
        return -1;
    }
    return 0;
}

ssize_t WRAP(readlink)(const char *path, char *to, size_t size)
{
    char inner[PATH_MAX];
    int length = to_pack_path(path, inner);
    struct stat status;

    if (length < 0)
        return REAL(readlink)(path, to, size);
    if (stat_virtual(path, inner, (size_t)length, &status) == 0)
        errno = EINVAL; /* there are no links in the pack */
    return -1;
}

/* ---- listing ----------------------------------------------------------- */

struct virtual_dir {
    struct virtual_dir *next_open;
    const struct pack_entry *at;
    size_t prefix; /* length of the directory's path with its slash */
    char path[PATH_MAX];
    struct dirent entry;
};

/* DIR is opaque, so this list tells virtual directories from the kernel's by address. */
static struct virtual_dir *open_dirs;
static pthread_mutex_t open_dirs_lock = PTHREAD_MUTEX_INITIALIZER;

static struct virtual_dir *as_virtual(DIR *dir)
{
    struct virtual_dir *at;
    pthread_mutex_lock(&open_dirs_lock);
    for (at = open_dirs; at != NULL && (void *)at != (void *)dir; at = at->next_open)
        ;
    pthread_mutex_unlock(&open_dirs_lock);
    return at;
}

DIR *WRAP(opendir)(const char *path)
{
    char inner[PATH_MAX];
    int length = to_pack_path(path, inner);
    const struct pack_entry *first;
    struct virtual_dir *dir;

    if (length < 0)
        return REAL(opendir)(path);
    first = pack_first_below(inner, (size_t)length);
    if (first == NULL) {
        errno = pack_find(inner, (size_t)length) ? ENOTDIR : ENOENT;
        return NULL;
    }
    dir = calloc(1, sizeof *dir);
    if (dir == NULL)
        return NULL;
    memcpy(dir->path, inner, (size_t)length);
    dir->prefix = (size_t)length;
    if (length > 0)
        dir->path[dir->prefix++] = '/';
    dir->at = first;
    pthread_mutex_lock(&open_dirs_lock);
    dir->next_open = open_dirs;
    open_dirs = dir;
    pthread_mutex_unlock(&open_dirs_lock);
    return (DIR *)dir;
}

static int is_below(const struct virtual_dir *dir, const struct pack_entry *entry)
{
    return entry != NULL && entry->path_len > dir->prefix &&
           memcmp(entry->path, dir->path, dir->prefix) == 0;
}

static size_t name_length(const struct pack_entry *entry, size_t prefix)
{
    const char *name = entry->path + prefix;
    const char *slash = memchr(name, '/', entry->path_len - prefix);
    return slash ? (size_t)(slash - name) : entry->path_len - prefix;
}

struct dirent *WRAP(readdir)(DIR *real)
{
    struct virtual_dir *dir = as_virtual(real);
    const struct pack_entry *entry;
    size_t length;

    if (dir == NULL)
        return REAL(readdir)(real);
    entry = dir->at;
    if (!is_below(dir, entry))
        return NULL;
    length = name_length(entry, dir->prefix);
    if (length >= sizeof dir->entry.d_name)
        length = sizeof dir->entry.d_name - 1;
    memcpy(dir->entry.d_name, entry->path + dir->prefix, length);
    dir->entry.d_name[length] = '\0';
    dir->entry.d_ino = 1;
    dir->entry.d_type = dir->prefix + length < entry->path_len ? DT_DIR : DT_REG;
    /* The files of a subdirectory are adjacent entries. Skip to the next name. */
    do {
        dir->at = pack_next(dir->at);
    } while (is_below(dir, dir->at) && name_length(dir->at, dir->prefix) == length &&
             memcmp(dir->at->path + dir->prefix, dir->entry.d_name, length) == 0);
    return &dir->entry;
}

int WRAP(closedir)(DIR *real)
{
    struct virtual_dir *dir = as_virtual(real);
    struct virtual_dir **link;

    if (dir == NULL)
        return REAL(closedir)(real);
    pthread_mutex_lock(&open_dirs_lock);
    for (link = &open_dirs; *link != dir; link = &(*link)->next_open)
        ;
    *link = dir->next_open;
    pthread_mutex_unlock(&open_dirs_lock);
    free(dir);
    return 0;
}

/* ---- changing: the pack is read-only ------------------------------------ */

static int is_virtual(const char *path)
{
    char inner[PATH_MAX];
    if (to_pack_path(path, inner) < 0)
        return 0;
    errno = EROFS;
    return 1;
}

int WRAP(mkdir)(const char *path, mode_t mode)
{
    return is_virtual(path) ? -1 : REAL(mkdir)(path, mode);
}

int WRAP(rmdir)(const char *path) { return is_virtual(path) ? -1 : REAL(rmdir)(path); }

int WRAP(unlink)(const char *path) { return is_virtual(path) ? -1 : REAL(unlink)(path); }

int WRAP(chmod)(const char *path, mode_t mode)
{
    return is_virtual(path) ? -1 : REAL(chmod)(path, mode);
}

int WRAP(chown)(const char *path, uid_t owner, gid_t group)
{
    return is_virtual(path) ? -1 : REAL(chown)(path, owner, group);
}

int WRAP(UTIME)(const char *path, const struct utimbuf *times)
{
    return is_virtual(path) ? -1 : REAL(UTIME)(path, times);
}

int WRAP(truncate)(const char *path, off_t size)
{
    return is_virtual(path) ? -1 : REAL(truncate)(path, size);
}

int WRAP(rename)(const char *from, const char *to)
{
    return is_virtual(from) || is_virtual(to) ? -1 : REAL(rename)(from, to);
}

int WRAP(link)(const char *from, const char *to)
{
    return is_virtual(from) || is_virtual(to) ? -1 : REAL(link)(from, to);
}

int WRAP(symlink)(const char *to, const char *path)
{
    return is_virtual(path) ? -1 : REAL(symlink)(to, path);
}
