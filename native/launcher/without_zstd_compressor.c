/*
 * Replaces zstd's compressor (0.3 MB) in every VM of an OTP that has the module zstd (28 and
 * newer). The linker reads this file before the zstd library, so it leaves the compressor's
 * objects out. zstd:compress/1 and similar functions then raise {zstd_error, <<"Unsupported
 * parameter">>}, the error for a parameter that the library does not know.
 */
#include <stddef.h>

/* ZSTD_error_parameter_unsupported, zstd_errors.h; stable since zstd 1.3.1 */
#define UNSUPPORTED ((size_t)-40)

/* zstd_nif.c takes NULL for a context that is closed, and would say badarg. */
void *ZSTD_createCCtx_advanced(void) { static char context; return &context; }
size_t ZSTD_freeCCtx(void *context) { (void)context; return 0; }
size_t ZSTD_CCtx_reset(void) { return UNSUPPORTED; }
size_t ZSTD_CCtx_loadDictionary(void) { return UNSUPPORTED; }
size_t ZSTD_CCtx_refCDict(void) { return UNSUPPORTED; }
size_t ZSTD_CCtx_setParameter(void) { return UNSUPPORTED; }
size_t ZSTD_CCtx_getParameter(void) { return UNSUPPORTED; }
size_t ZSTD_CCtx_setPledgedSrcSize(void) { return UNSUPPORTED; }
size_t ZSTD_CStreamOutSize(void) { return 1; }
size_t ZSTD_compressStream2(void) { return UNSUPPORTED; }
void *ZSTD_createCDict_advanced(void) { return NULL; }
size_t ZSTD_freeCDict(void *dictionary) { (void)dictionary; return 0; }
unsigned ZSTD_getDictID_fromCDict(void) { return 0; }

/* ZSTD_compressionParameters of zstd.h: six numbers and a strategy. */
struct parameters { unsigned values[7]; };
struct parameters ZSTD_getCParams(void) { return (struct parameters){{0}}; }
