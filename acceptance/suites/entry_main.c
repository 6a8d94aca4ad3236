/* Reads all bytes of its constants, data and zeros, for entry_SUITE. */
#include <stdio.h>

#define EIGHT(x) x, x, x, x, x, x, x, x
#define KB(x) EIGHT(EIGHT(EIGHT(x))), EIGHT(EIGHT(EIGHT(x)))

const unsigned char constants[] = {KB('c'), KB('o'), KB('n'), KB('s'), KB('t'), KB('a'),
                                   KB('n'), KB('t'), KB('s'), KB('!')};
unsigned char data[] = {KB('d'), KB('a'), KB('t'), KB('a'), KB('!')};
unsigned char zeros[50000];

int main(int argc, char **argv)
{
    unsigned long sum = 0, i;
    for (i = 0; i < sizeof constants; i++)
        sum += constants[i];
    for (i = 0; i < sizeof data; i++)
        sum += data[i]++;
    for (i = 0; i < sizeof zeros; i++)
        sum += zeros[i];
    printf("%d %s %lu\n", argc, argc > 1 ? argv[1] : "", sum);
    return 0;
}
