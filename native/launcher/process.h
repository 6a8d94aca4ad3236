/*
 * Runs the programs that the VM starts: OTP's programs, which are in this same executable, and
 * the programs of the pack.
 */
#ifndef WHITTLE_PROCESS_H
#define WHITTLE_PROCESS_H

/* The lowest number for descriptors of the launcher. The VM overwrites descriptor 3 with a
   socket and does not check whether it is free. */
#define PROCESS_LOWEST_FD 20

/*
 * Keeps a descriptor of this executable, so that the process can run it again after somebody
 * removes the file. It is the parent's descriptor, or a new one of AT_EXECFN.
 */
void process_keep_self(void);

/* Ends the program when WHITTLE_EMULATOR is set and cannot name an emulator. */
void process_check_emulator(void);

/* Ends the program when the kernel refuses a system call that each start needs. */
void process_check_system_calls(void);

/* Returns whether PATH, below WHITTLE_ROOT, is the name of a linked-in program of OTP. */
int process_is_own_program(const char *path);

/* Runs the linked-in program that argv[0] names, and returns its exit code. */
int process_run_own_program(int argc, char **argv);

#endif
