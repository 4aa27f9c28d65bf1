# The lines of a net's kernels (KERNEL TAB LINE) where a mistake (FIND, PUT, SEEN) is made: [places] of them, spread over all that can
# have it. Lines "kernel_mutant NAME PLACE KERNEL AT FIND PUT SEEN", parted by tabs.
#
# Not where the mistake computes the same whatever the data, by the text alone:
# - a body of one row: the row of those that have one is 0, what the others compute is not stored (choice_swapped);
# - rows of which a block has twice as many as there are: with half the index two teams compute each, and store the same value,
#   as they may (half_the_threads);
# - a body that computes the same in every block, of which it has one (block_shifted);
# - a difference of which only the square is read (operands_swapped);
# - lanes that are all added up, or compared, and of which nothing else is read: only their order differs (lane_off).
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

function indent(i) { match(line[i], /^ */); return RLENGTH }

function block_end(i,    k) { # of the block that line i is in: the line that closes it
    for (k = i + 1; k < NR && !(line[k] ~ /^ *}/ && indent(k) < indent(i)); k++);
    return k
}

function is_squared(i,    none, def, text) {
    if (!match(line[i], /v[0-9]+ = /)) return 0
    def = substr(line[i], RSTART, RLENGTH - 3)
    text = read_in(i + 1, block_end(i), none, 0)
    gsub("= " def " \\* " def ";", "", text)
    gsub("nc_fma\\(" def ", " def ",", "", text)
    return text !~ ("[^a-z0-9_]" def "[^a-z0-9_]")
}

function in_any_order(i,    first, last, k, text, none, def) {
    for (first = i; first > 0 && !(line[first] ~ /for \(int lane = 0;/ && indent(first) < indent(i)); first--)
        if (line[first] ~ /^[^ ]/) return 0
    last = block_end(first + 1)
    text = read_in(first + 1, last, none, 0) "\n"
    if (gsub(/\[lane\]/, "[]", text) != 1 || text ~ /nc_store|[^a-z0-9_][bp][0-9]+\[/) return 0
    for (k = first + 1; k < last; k++)
        if (match(line[k], /const int [a-z0-9_]+ = [a-z0-9_]+ \+ lane;/)) {
            split(line[k], def, " ")
            if (gsub("[^a-z0-9_]" def[3] "[^a-z0-9_]", "&", text) != 1) return 0
            gsub(/ \+ lane;/, ";", text)
        }
    return text !~ /[^a-z0-9_.]lane[^a-z0-9_]/
}

function the_same(i) {
    if (name ~ / choice_swapped$/) return one_row(i)
    if (name ~ / half_the_threads$/) return half_suffices(i)
    if (name ~ / block_shifted$/) return ignores_block(i)
    if (name ~ / operands_swapped$/) return is_squared(i)
    if (name ~ / lane_off$/) return in_any_order(i)
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
