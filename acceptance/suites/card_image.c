/* Is an image for a slot that no kernel is needed for: it says a letter and the slot on the UART of
 * qemu's ARM board, and switches the board off. U-Boot takes it for a zImage. */

__asm__(".section .head, \"ax\"\n"
        ".arm\n"
        ".globl _start\n"
        "_start:\n"
        ".rept 8\n mov r0, r0\n .endr\n"
        "b begin\n"
        ".word 0x016f2818, 0, _end - _start\n" /* the mark of a zImage, its start and its size */
        "begin:\n"
        "mov r0, r2\n" /* the device tree */
        "bl run\n");

static volatile unsigned char *const uart = (unsigned char *)0x09000000;

static void say(const char *text) {
    while (*text)
        *uart = (unsigned char)*text++;
}

/* The words of the boot loader are in the device tree, whose size is its second word. */
static char slot(const unsigned char *tree) {
    static const char name[] = "WHITTLE_SLOT=";
    unsigned size = (unsigned)(tree[4] << 24 | tree[5] << 16 | tree[6] << 8 | tree[7]), at, i;
    for (at = 0; at + sizeof name < size; at++) {
        for (i = 0; name[i] && tree[at + i] == (unsigned char)name[i]; i++)
            ;
        if (!name[i])
            return (char)tree[at + i];
    }
    return '?';
}

__attribute__((used, noreturn)) void run(const unsigned char *tree) {
    char text[] = "\r\nimage " LETTER " in slot ?\r\n";
    text[sizeof text - 4] = slot(tree);
    say(text);
    /* SYSTEM_OFF of PSCI */
    __asm__ volatile(".arch_extension virt\nmov r0, %0\nhvc #0" : : "r"(0x84000008) : "r0");
    for (;;)
        ;
}
