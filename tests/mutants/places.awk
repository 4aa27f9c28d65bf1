# The lines of a net's kernels (KERNEL TAB LINE) where a mistake (FIND, PUT, SEEN) is made: [places] of them, spread over all that can
# have it. Lines "kernel_mutant NAME PLACE KERNEL AT FIND PUT SEEN", parted by tabs.
#
# Not where the mistake computes the same whatever the data, by the text alone:
# - a body of one row: the row of those that have one is 0, what the others compute is not stored (choice_swapped);
# - rows of which a block has twice as many as there are: with half the index two teams compute each, and store the same value,
#   as they may (half_the_threads);
# - a body that computes the same in every block, of which it has one (block_shifted).
{
    line[NR] = substr($0, length($1) + 2)
    of_kernel[NR] = $1
    if (line[NR] ~ ENVIRON["FIND"]) { found[++nfound] = NR; at[NR] = ++count[$1] }
}

function one_row(i) { return line[i] ~ /mine \? row : 0;/ }

function number(text, before) { # the one behind what [before] matches
    return match(text, before) ? substr(text, RSTART + RLENGTH) + 0 : 0
}

function half_suffices(i) {
    return line[i] ~ /const int row = \(int\)\(block\) \* [0-9]+ \+ threadIdx/ && line[i + 1] ~ /mine = row < [0-9]+;/ &&
        2 * number(line[i + 1], "mine = row < ") <= number(line[i], "\\(block\\) \\* ")
}

# Whether the body that line i calls computes nothing from its block. A name that nothing reads does not count.
function ignores_block(i,    name, first, last, k, dead, again, text, def) {
    if (!match(line[i], /k_[0-9a-f]+_[0-9]+\(/)) return 0
    name = "void " substr(line[i], RSTART, RLENGTH)
    for (first = 1; first < NR && !(of_kernel[first] == of_kernel[i] && index(line[first], name)); first++);
    for (last = first; last < NR && line[last] != "}"; last++);
    for (again = 1; again;) {
        again = 0
        for (k = first + 1; k < last; k++) {
            if (!match(line[k], /^ *const (int|bool|long) [a-z0-9_]+ = /) || dead[k]) continue
            def = substr(line[k], RSTART, RLENGTH)
            sub(/^ *const [a-z]+ /, "", def); sub(/ = $/, "", def)
            text = read_in(first + 1, last, dead, k)
            if (text !~ ("[^a-z0-9_]" def "[^a-z0-9_]")) again = dead[k] = 1
        }
    }
    return read_in(first + 1, last, dead, 0) !~ /[^a-z0-9_]block[^a-z0-9_]/
}

function read_in(first, last, dead, but,    k, text) { # the lines that count, but one
    for (k = first; k < last; k++) if (!dead[k] && k != but) text = text "\n" line[k]
    return text
}

function the_same(i) {
    if (name ~ / choice_swapped$/) return one_row(i)
    if (name ~ / half_the_threads$/) return half_suffices(i)
    if (name ~ / block_shifted$/) return ignores_block(i)
    return 0
}

END {
    for (k = 1; k <= nfound; k++) if (!the_same(found[k])) place[n++] = found[k]
    for (i = 0; i < places && i < n; i++) {
        k = place[int(i * n / places)]
        if (!done[k]++)
            print "kernel_mutant", name, i + 1, of_kernel[k], at[k], ENVIRON["FIND"], ENVIRON["PUT"], ENVIRON["SEEN"]
    }
}
