/*
 * The file system as the VM sees it: the pack below WHITTLE_ROOT, the kernel's files elsewhere.
 * The linker (--wrap) sends the VM's calls of open, stat and similar functions here. A path
 * that is not below WHITTLE_ROOT goes on to libc.
 */
#ifndef WHITTLE_VFS_H
#define WHITTLE_VFS_H

/* Turns the virtual tree on. Before this, every call goes to libc. */
void vfs_start(void);

/* The same for the process that becomes the VM. It also keeps one descriptor in reserve. */
void vfs_start_vm(void);

/*
 * Opens an executable file of the pack. The descriptor stays open across exec, so that the
 * interpreter of a script can read it. Returns -1 and sets errno, to ENOENT when PATH is not an
 * executable file of the pack. Also works before vfs_start, in the processes that run programs
 * for the VM.
 */
int vfs_open_program(const char *path);

/* Opens those of the descriptors 0, 1 and 2 that are closed, even on a machine without
   /dev/null. */
void vfs_open_standard_descriptors(void);

#endif
