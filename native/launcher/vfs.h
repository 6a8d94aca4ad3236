/*
 * What the VM sees of the file system: the kernel's, and below WHITTLE_ROOT
 * the pack. The linker (--wrap) sends the VM's calls of open, stat and their
 * kin here; a path that is not ours goes on to libc untouched.
 */
#ifndef WHITTLE_VFS_H
#define WHITTLE_VFS_H

/* Turns the virtual tree on. Before this, every call goes to libc. */
void vfs_start(void);

/* The same, in the process that is to be the VM: it keeps a descriptor in reserve. */
void vfs_start_vm(void);

/*
 * An executable file of the pack as a descriptor that stays open across exec, so
 * that the interpreter of a script can read it; -1 when PATH is no such file. Works
 * also before vfs_start, in the processes that run programs for the VM.
 */
int vfs_open_program(const char *path);

/* Makes sure that descriptors 0, 1 and 2 are open, /dev/null or not. */
void vfs_open_standard_descriptors(void);

#endif
