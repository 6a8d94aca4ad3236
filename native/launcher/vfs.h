/*
 * What the VM sees of the file system: the kernel's, and below WHITTLE_ROOT
 * the pack. The linker (--wrap) sends the VM's calls of open, stat and their
 * kin here; a path that is not ours goes on to libc untouched.
 */
#ifndef WHITTLE_VFS_H
#define WHITTLE_VFS_H

/* Turns the virtual tree on. Before this, every call goes to libc. */
void vfs_start(void);

/* Makes sure that descriptors 0, 1 and 2 are open, /dev/null or not. */
void vfs_open_standard_descriptors(void);

#endif
