/*
 * Replaces ncurses' terminfo in a VM for one program that draws nothing on a terminal
 * (--vm program without the feature `terminal'). prim_tty_nif.c calls these functions and reads
 * these tables. Each answer is that of a terminal without a description, or of an unknown
 * capability (terminfo(3ncurses), termcap(3ncurses)).
 */
#include <errno.h>
#include <stddef.h>

void *cur_term;
const char *const boolnames[] = {NULL};
const char *const boolcodes[] = {NULL};
const char *const boolfnames[] = {NULL};
const char *const numnames[] = {NULL};
const char *const numcodes[] = {NULL};
const char *const numfnames[] = {NULL};
const char *const strnames[] = {NULL};
const char *const strcodes[] = {NULL};
const char *const strfnames[] = {NULL};

int setupterm(const char *name, int descriptor, int *why)
{
    (void)name;
    (void)descriptor;
    *why = -1;          /* there is no database */
    errno = ENOENT;
    return -1;
}

int del_curterm(void *terminal) { (void)terminal; return -1; }
int tgetnum(const char *capability) { (void)capability; return -1; }
int tgetflag(const char *capability) { (void)capability; return 0; }
char *tigetstr(const char *capability) { (void)capability; return NULL; }
char *tparm(const char *text) { (void)text; return NULL; }
int tputs(const char *text) { (void)text; return -1; }
