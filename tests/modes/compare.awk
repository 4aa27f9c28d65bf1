# awk -v tolerance=T -f compare.awk WANT.jsonl HAVE.jsonl: every number of every line agrees, relative to its size.
# Prints the worst difference, or what disagrees; fails when the logs differ in their keys or are empty.
BEGIN { FS = "[{},]" }
{
    for (i = 2; i < NF; i++) {
        split($i, kv, ":")
        if (kv[1] == "\"seconds\"") continue
        key = FNR SUBSEP kv[1]
        if (NR == FNR) { want[key] = kv[2]; nwant++; continue }
        nhave++
        w = want[key]; d = kv[2] - w; if (d < 0) d = -d; if (w < 0) w = -w
        if (!(key in want) || !(kv[2] ~ /^[-+0-9.e]+$/) || d > tolerance * w) {
            if (!bad++) first = "line " FNR ": " kv[1] " is " kv[2] ", wanted " want[key]
        } else if (w > 0 && d / w > worst) worst = d / w
    }
}
END {
    if (nwant != nhave) { print nhave " numbers, wanted " nwant; exit 1 }
    if (!nwant) { print "no numbers"; exit 1 }
    if (bad) { print bad " numbers disagree; the first: " first; exit 1 }
    print "worst difference " worst + 0
}
