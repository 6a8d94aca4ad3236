/*
 * References to environment variables in a text: in a vm.args, also in one that VMARGS_PATH or
 * RELEASE_VM_ARGS names, and in the packed sys.config.src.
 */
#ifndef WHITTLE_TEMPLATE_H
#define WHITTLE_TEMPLATE_H

#include <stddef.h>

#define MOST_COMPLETED_BYTES (16 * 1024 * 1024)

/*
 * A function that template_complete calls for a reference to the variable NAME that becomes
 * nothing. The LENGTH bytes at BEFORE are the result so far, and AFTER is the text behind the
 * reference.
 */
typedef void gap_function(void *arg, const char *before, size_t length, const char *name,
                          const char *after);

/*
 * Returns TEXT with each ${NAME} and ${NAME:-DEFAULT} replaced by the variable's value. A
 * variable that is empty or not set becomes DEFAULT, or nothing. For each reference that becomes
 * nothing it calls GAP with ARG, unless GAP is NULL. The caller frees the result. Ends the program
 * when the result has more than MOST_COMPLETED_BYTES.
 */
char *template_complete(const char *text, gap_function *gap, void *arg);

#endif
