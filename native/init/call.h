/* Makes system calls without a C library.
 *
 * init needs about a dozen of them. A static C library would make it several times larger. Each
 * function returns the kernel's result: a negative number is -errno. */

#ifndef CALL_H
#define CALL_H

#include <asm/unistd.h>

#if defined(__arm__)

/* r7 has the number. It is the frame pointer of Thumb code, so this file is compiled with
 * -fomit-frame-pointer. */
static long call(long number, long a, long b, long c, long d, long e) {
    register long r7 __asm__("r7") = number;
    register long r0 __asm__("r0") = a;
    register long r1 __asm__("r1") = b;
    register long r2 __asm__("r2") = c;
    register long r3 __asm__("r3") = d;
    register long r4 __asm__("r4") = e;
    __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2), "r"(r3), "r"(r4) : "memory");
    return r0;
}

#define START                                                                                  \
    __asm__(".text\n.globl _start\n.type _start, %function\n_start:\n"                         \
            "mov r0, sp\nbl begin\n")

#elif defined(__aarch64__)

static long call(long number, long a, long b, long c, long d, long e) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}

#define START __asm__(".text\n.globl _start\n_start:\nmov x0, sp\nbl begin\n")

#elif defined(__x86_64__)

static long call(long number, long a, long b, long c, long d, long e) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}

#define START __asm__(".text\n.globl _start\n_start:\nmov %rsp, %rdi\nand $-16, %rsp\ncall begin\n")

#else
#error "call.h does not know the system calls of this processor: add them"
#endif

#define CALL0(n) call(n, 0, 0, 0, 0, 0)
#define CALL1(n, a) call(n, (long)(a), 0, 0, 0, 0)
#define CALL2(n, a, b) call(n, (long)(a), (long)(b), 0, 0, 0)
#define CALL3(n, a, b, c) call(n, (long)(a), (long)(b), (long)(c), 0, 0)
#define CALL4(n, a, b, c, d) call(n, (long)(a), (long)(b), (long)(c), (long)(d), 0)
#define CALL5(n, a, b, c, d, e) call(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e))

#endif
