/*
 * The first code that runs. It ends the program with one line when the file is cut off, or
 * when the VM's bytes differ from those that the packer saw.
 *
 * The linker puts this section into the file's first pages, and this code runs before the C
 * library's start. So a file that lost any later page can still report it. Until the check of
 * the size is done, this code may touch only this section, the program headers and the stack:
 * no constants, no other function, nothing of the C library.
 */
#include "entry.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define SECTION ".text.unlikely.whittle_entry"
#define HERE                                                                                  \
    __attribute__((section(SECTION), noinline, no_stack_protector,                            \
                   optimize("no-tree-loop-distribute-patterns")))

/* Both messages, the names of OTP's linked-in programs and an empty text, in this order. A
   zero byte ends each. */
#define NAME(text) ".asciz \"" text "\"\n"
#define MESSAGES                                                                              \
    ".asciz \": this file is damaged, so copy it again: its end is missing\\n\"\n"                \
    ".asciz \": this file is damaged, so copy it again: the VM's checksum is wrong\\n\"\n"    \
    WHITTLE_CHILDREN(NAME) ".byte 0\n"

#define BEGIN                                                                                 \
    ".pushsection " SECTION ",\"ax\"\n"                                                       \
    ".globl whittle_entry\n"
#define END ".popsection\n"

/* Calls whittle_check_file(stack, messages), then jumps to the C library's start with the
   stack as the kernel left it. No C library needs other values than zero in its registers. */
#if defined(__x86_64__)
__asm__(BEGIN ".type whittle_entry,@function\n"
              "whittle_entry:\n"
              "  mov %rsp, %rdi\n"
              "  mov %rsp, %rbx\n"
              "  lea 1f(%rip), %rsi\n"
              "  and $-16, %rsp\n"
              "  call whittle_check_file\n"
              "  mov %rbx, %rsp\n"
              "  xor %edx, %edx\n"
              "  jmp _start\n"
              "1:\n" MESSAGES END);
#elif defined(__aarch64__)
__asm__(BEGIN ".type whittle_entry,%function\n"
              ".balign 4\n"
              "whittle_entry:\n"
              "  mov x0, sp\n"
              "  adr x1, 1f\n"
              "  bl whittle_check_file\n"
              "  mov x0, #0\n"
              "  b _start\n"
              "1:\n" MESSAGES ".balign 4\n" END);
#elif defined(__arm__)
__asm__(BEGIN ".syntax unified\n"
              ".arm\n"
              ".balign 4\n"
              ".type whittle_entry,%function\n"
              "whittle_entry:\n"
              "  mov r0, sp\n"
              "  adr r1, 1f\n"
              "  bl whittle_check_file\n"
              "  mov r0, #0\n"
              "  bl _start\n"
              "1:\n" MESSAGES ".balign 4\n" END);
#elif defined(__mips__)
__asm__(BEGIN ".set push\n"
              ".set noreorder\n"
              ".balign 4\n"
              ".type whittle_entry,@function\n"
              "whittle_entry:\n"
              "  move $4, $29\n"
              "  bal 1f\n"
              "  nop\n" MESSAGES ".balign 4\n"
              "1:\n"
              "  move $5, $31\n"
              "  move $16, $29\n"
              "  addiu $29, $29, -24\n"
              "  jal whittle_check_file\n"
              "  nop\n"
              "  move $29, $16\n"
              "  move $2, $0\n"
              "  j __start\n"
              "  nop\n"
              ".set pop\n" END);
#elif defined(__riscv)
__asm__(BEGIN ".type whittle_entry,@function\n"
              ".option push\n"
              ".option norelax\n" /* nothing has set the register yet that relaxed code uses */
              "whittle_entry:\n"
              "  mv a0, sp\n"
              "  lla a1, 1f\n"
              "  call whittle_check_file\n"
              "  li a0, 0\n"
              "  tail _start\n"
              "1:\n" MESSAGES ".balign 4\n"
              ".option pop\n" END);
#else
#error "write the first instructions for this processor"
#endif

/* ---- the kernel ------------------------------------------------------------- */

/* The registers and the instruction for a system call, on two processors whose code is
   otherwise the same. */
#if defined(__aarch64__)
#define REGISTER "x"
#define NUMBER_REGISTER "x8"
#define TRAP "svc 0"
#elif defined(__riscv)
#define REGISTER "a"
#define NUMBER_REGISTER "a7"
#define TRAP "ecall"
#endif

/* Makes a system call. It does not set errno: a small negative result is an error. */
static inline __attribute__((always_inline)) long call_kernel(long number, long a, long b, long c,
                                                              long d, long e)
{
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__) || defined(__riscv)
    register long at_number __asm__(NUMBER_REGISTER) = number;
    register long first __asm__(REGISTER "0") = a;
    register long second __asm__(REGISTER "1") = b;
    register long third __asm__(REGISTER "2") = c;
    register long fourth __asm__(REGISTER "3") = d;
    register long fifth __asm__(REGISTER "4") = e;
    __asm__ volatile(TRAP
                     : "+r"(first)
                     : "r"(at_number), "r"(second), "r"(third), "r"(fourth), "r"(fifth)
                     : "memory");
    return first;
#elif defined(__arm__)
    /* r7 is the frame pointer of Thumb code, so another register keeps its value. */
    register long r0 __asm__("r0") = a;
    register long r1 __asm__("r1") = b;
    register long r2 __asm__("r2") = c;
    register long r3 __asm__("r3") = d;
    register long r4 __asm__("r4") = e;
    long kept;
    __asm__ volatile("mov %[kept], r7\n\tmov r7, %[number]\n\tsvc 0\n\tmov r7, %[kept]"
                     : "+r"(r0), [kept] "=&r"(kept)
                     : [number] "r"(number), "r"(r1), "r"(r2), "r"(r3), "r"(r4)
                     : "memory");
    return r0;
#elif defined(__mips__)
    /* The fifth argument is on the stack. */
    register long v0 __asm__("$2") = number;
    register long a0 __asm__("$4") = a;
    register long a1 __asm__("$5") = b;
    register long a2 __asm__("$6") = c;
    register long a3 __asm__("$7") = d;
    __asm__ volatile(".set push\n\t.set noreorder\n\t"
                     "addiu $29, $29, -32\n\tsw %[fifth], 16($29)\n\t"
                     "syscall\n\taddiu $29, $29, 32\n\t.set pop"
                     : "+r"(v0), "+r"(a3)
                     : "r"(a0), "r"(a1), "r"(a2), [fifth] "r"(e)
                     : "$1", "$3", "$8", "$9", "$10", "$11", "$12", "$13", "$14", "$15", "$24",
                       "$25", "hi", "lo", "memory");
    return a3 != 0 ? -v0 : v0;
#endif
}

/* musl 1.2.3 knows the number; an older C library's headers may not. */
#ifndef SYS_statx
#error "the C library's headers are too old: they have no statx"
#endif

/* The result of statx, which is the same on all processors. This code reads `mode' and
   `size'. */
struct status {
    uint32_t mask, block_size;
    uint64_t attributes;
    uint32_t links, user, group;
    uint16_t mode, unused;
    uint64_t inode, size;
    unsigned char rest[256 - 48];
};

#define STATX_TYPE_AND_SIZE (0x1 | 0x200)

/* ---- the end ---------------------------------------------------------------- */

HERE static void refuse_file(const char *name, const char *message)
{
    const char *at, *end;

    for (at = name; at != NULL && *at != '\0'; at++)
        if (*at == '/')
            name = at + 1;
    call_kernel(SYS_write, 2, (long)name, at - name, 0, 0);
    for (end = message; *end != '\0'; end++)
        ;
    call_kernel(SYS_write, 2, (long)message, end - message, 0, 0);
    call_kernel(SYS_exit_group, 1, 0, 0, 0, 0);
}

/* ---- the checksum ------------------------------------------------------------ */

/*
 * One step of the checksum. whittle_elf_sum has the same algorithm. For a given word a step
 * maps states one to one, and so does the final mixing for each lane. So the checksum detects
 * every change within one word.
 */
#define MIX(lane, word)                                                                       \
    do {                                                                                      \
        (lane) = ((lane) ^ (word)) * 0x5bd1e95u;                                              \
        (lane) = (lane) << 15 | (lane) >> 17;                                                 \
    } while (0)

struct sum {
    uint32_t lane[4];
};

HERE static void add_bytes(struct sum *sum, uintptr_t from, uintptr_t end)
{
    uint32_t a = sum->lane[0], b = sum->lane[1], c = sum->lane[2], d = sum->lane[3];

    for (; end - from >= 16; from += 16) {
        const uint32_t *word = (const uint32_t *)from;
        MIX(a, word[0]);
        MIX(b, word[1]);
        MIX(c, word[2]);
        MIX(d, word[3]);
    }
    for (; from < end; from++)
        MIX(a, *(const unsigned char *)from);
    sum->lane[0] = a;
    sum->lane[1] = b;
    sum->lane[2] = c;
    sum->lane[3] = d;
}

/* Returns the checksum of all segments before END, without the note's field for it. */
HERE static uint32_t vm_sum(const ElfW(Phdr) *at, const ElfW(Phdr) *end, uintptr_t base)
{
    const uintptr_t hole = (uintptr_t)&whittle_note.sum;
    struct sum sum;
    uint32_t all;

    sum.lane[0] = 1;
    sum.lane[1] = 2;
    sum.lane[2] = 3;
    sum.lane[3] = 4;
    for (; at < end; at++) {
        uintptr_t from = base + at->p_vaddr, past = from + at->p_filesz;
        if (at->p_type != PT_LOAD)
            continue;
        if (from <= hole && hole < past) {
            add_bytes(&sum, from, hole);
            from = hole + sizeof whittle_note.sum;
        }
        add_bytes(&sum, from, past);
        /* These are clean pages of the file. The kernel reads them again when the program
           touches them, and until then they do not count as its memory. */
        if ((at->p_flags & PF_W) == 0) {
            from = base + at->p_vaddr;
            from &= ~(uintptr_t)(at->p_align - 1);
            call_kernel(SYS_madvise, (long)from, (long)(past - from), MADV_DONTNEED, 0, 0);
        }
    }
    all = sum.lane[0];
    MIX(all, sum.lane[1]);
    MIX(all, sum.lane[2]);
    MIX(all, sum.lane[3]);
    return all != 0 ? all : 1;
}

/* Returns the address after the zero that ends TEXT. */
HERE static const char *behind(const char *text)
{
    while (*text != '\0')
        text++;
    return text + 1;
}

/* Returns whether NAME is /.whittle/bin/ and one of CHILDREN. The VM started such a process
   from this file, and has checked the file before. */
HERE static int is_child(const char *name, const char *children)
{
    const char *at;

    if (name == NULL ||
        !(name[0] == '/' && name[1] == '.' && name[2] == 'w' && name[3] == 'h' &&
          name[4] == 'i' && name[5] == 't' && name[6] == 't' && name[7] == 'l' &&
          name[8] == 'e' && name[9] == '/' && name[10] == 'b' && name[11] == 'i' &&
          name[12] == 'n' && name[13] == '/'))
        return 0;
    for (; *children != '\0'; children = behind(children)) {
        for (at = name + 14; *at != '\0' && *at == *children; at++)
            children++;
        if (*at == *children)
            return 1;
    }
    return 0;
}

/* ---- the check --------------------------------------------------------------- */

__attribute__((used)) HERE void whittle_check_file(const uintptr_t *stack, const char *messages)
{
    const char *name, *wrong_sum;
    const uintptr_t *at = stack + 1 + stack[0] + 1;
    const ElfW(Phdr) *header = NULL, *last = NULL;
    uintptr_t count = 0, path = 0, base = 0, i;
    uint64_t needed = 0;
    struct status status;

    while (*at != 0)
        at++;
    for (at++; at[0] != AT_NULL; at += 2) {
        if (at[0] == AT_PHDR)
            header = (const ElfW(Phdr) *)at[1];
        if (at[0] == AT_PHNUM)
            count = at[1];
        if (at[0] == AT_EXECFN)
            path = at[1];
    }
    /* Before Linux 5.18 a caller can start a program without even argv[0]. */
    name = (const char *)(stack[0] > 0 ? stack[1] : path);
    for (i = 0; header != NULL && i < count; i++) {
        if (header[i].p_type == PT_PHDR)
            base = (uintptr_t)header - header[i].p_vaddr;
        if (header[i].p_type != PT_LOAD)
            continue;
        last = &header[i];
        if (needed < (uint64_t)last->p_offset + last->p_filesz)
            needed = (uint64_t)last->p_offset + last->p_filesz;
    }
    if (path != 0 &&
        call_kernel(SYS_statx, AT_FDCWD, (long)path, 0, STATX_TYPE_AND_SIZE, (long)&status) == 0 &&
        (status.mode & 0170000) == 0100000 && status.size < needed)
        refuse_file(name, messages);
    wrong_sum = behind(messages);
    /* There is no checksum in a VM without a pack, nor after strip removed the pack. */
    if (last == NULL || last->p_flags != PF_R || last->p_filesz < 32 || whittle_note.sum == 0 ||
        is_child(name, behind(wrong_sum)))
        return;
    if (vm_sum(header, last, base) != whittle_note.sum)
        refuse_file(name, wrong_sum);
}
