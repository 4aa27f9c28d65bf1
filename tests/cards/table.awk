# From what netc inspect --cards prints of one file to its rows of the table: registers, local,
# static and dynamic shared bytes, threads, lines, the order of the seconds, the kernel (of equal
# names the first, .2, .3), the codes of the compiler's remarks.
function done() { if (row != "") print "  " row codes; row = codes = "" }
$1 ~ /^([0-9]+|-)$/ && NF == 9 {
    done()
    name = $9
    if (match(name, /_[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f](_joined)?(_[0-9]+)?$/))
        name = substr(name, 1, RSTART - 1) (name ~ /_joined/ ? "_joined" : "")
    if (seen[name]++) name = name "." seen[name]
    seconds = $8 == "-" ? "-" : $8 < 0.32 ? "0.1" : $8 < 3.2 ? "1" : "10"
    row = $1 " " $2 " " $3 " " $4 " " $5 " " $7 " " seconds " " name
    next
}
row != "" && match($0, /C[0-9][0-9][0-9][0-9]|#[0-9]+-D/) {
    code = substr($0, RSTART, RLENGTH)
    if (index(codes " ", " " code " ") == 0) codes = codes " " code
}
END { done() }
