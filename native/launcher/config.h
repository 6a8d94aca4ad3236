/* The release's sys.config.src: a template that the launcher completes from the environment. */
#ifndef WHITTLE_CONFIG_H
#define WHITTLE_CONFIG_H

/*
 * Returns the configuration in TEMPLATE, with values in place of the references to variables
 * (template.h). The caller frees the result. Ends the program when a reference becomes
 * nothing in a place where Erlang certainly needs a term: the VM would report a syntax error, and
 * not name the variable.
 */
char *config_complete(const char *template);

#endif
