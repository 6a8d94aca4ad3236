# Prints the median, the least and the largest value of each column of figures that follow a name:
# lines `NAME FIGURE...'. The first line has the heads of the columns. Variable `format': the format
# of the figures, by default "%.0f".
NR == 1 { for (i = 2; i <= NF; i++) head[i] = $i; columns = NF; next }
{
    if (!($1 in runs)) names[++count] = $1
    n = ++runs[$1]
    for (i = 2; i <= columns; i++) {
        # Insertion keeps the values in order.
        for (j = n; j > 1 && value[$1, i, j - 1] > $i + 0; j--)
            value[$1, i, j] = value[$1, i, j - 1]
        value[$1, i, j] = $i + 0
    }
}
END {
    if (format == "") format = "%.0f"
    format = format " (" format " - " format ")"
    printf "%-22s", "median (least - most)"
    for (i = 2; i <= columns; i++) printf " %26s", head[i]
    print ""
    for (k = 1; k <= count; k++) {
        name = names[k]; n = runs[name]
        printf "%-22s", name
        for (i = 2; i <= columns; i++) {
            median = (value[name, i, int((n + 1) / 2)] + value[name, i, int(n / 2) + 1]) / 2
            printf " %26s", sprintf(format, median, value[name, i, 1], value[name, i, n])
        }
        print ""
    }
}
