# JSON lines of results to a Markdown table: one row a measurement, its best peer, whether the bars of
# bars.tsv are met. Called by report.sh: awk -v bars=FILE -f report.awk RESULTS.jsonl
function text(key,    at) { # a string of this line
    if (!match($0, "\"" key "\": ?\"([^\"\\\\]|\\\\.)*\"")) return ""
    at = substr($0, RSTART, RLENGTH)
    sub("^\"" key "\": ?\"", "", at)
    return substr(at, 1, length(at) - 1)
}
function number(key,    at) { # a number, or "" where there is none
    if (!match($0, "\"" key "\": ?-?[0-9.][0-9.e+-]*")) return ""
    at = substr($0, RSTART, RLENGTH)
    sub("^\"" key "\": ?", "", at)
    return at
}
function holds(bar, what,    part, v) { # "ratio >= 1.2": 1, 0, or -1 where nothing was measured
    split(bar, part, " ")
    v = part[1] == "ratio" ? ratio[what] : part[1] == "copy" ? copy[what] : value[what]
    if (v == "") return -1
    return part[2] == ">=" ? v + 0 >= part[3] + 0 : v + 0 <= part[3] + 0
}
function bar(s) { gsub(">=", "≥", s); gsub("<=", "≤", s); return s }
BEGIN {
    while ((getline line < bars) > 0) {
        if (line ~ /^#/ || line ~ /^$/) continue
        if (split(line, part, "\t") != 3) { print "report: bars.tsv: " line > "/dev/stderr"; exit bad = 2 }
        nbars++
        pattern[nbars] = part[1]; must[nbars] = part[2]; aim[nbars] = part[3]
    }
}
/^[ \t]*$/ { next }
{
    what = text("what")
    if (what == "" || number("value") == "") { print "report: line " NR " is no result" > "/dev/stderr"; bad = 1; next }
    if (!(what in value)) order[++rows] = what
    value[what] = number("value"); unit[what] = text("unit")
    if (number("low") != "") spread[what] = number("low") " to " number("high")
    if (!hardware) { hardware = text("hardware"); driver = text("driver"); date = text("date") }
    peer = text("peer"); r = number("ratio")
    if (peer == "" || r == "") next
    if (peer ~ /^copy/) { copy[what] = r; next }
    if (!((what, peer) in times)) peers[what, ++npeers[what]] = peer
    times[what, peer] = r; of[what, peer] = number("peer_value"); version[what, peer] = text("peer_version")
}
function pick(what,    k, p) { # the peer that netc is least ahead of
    for (k = 1; k <= npeers[what]; k++) {
        p = peers[what, k]
        if ((what in ratio) && times[what, p] + 0 >= ratio[what] + 0) continue
        ratio[what] = times[what, p]; figure[what] = of[what, p]
        best[what] = p (version[what, p] == "" ? "" : " (" version[what, p] ")")
    }
}
END {
    if (bad == 2) exit 1
    if (!rows) { print "report: no results" > "/dev/stderr"; exit 1 }
    print hardware ", driver " driver ", " substr(date, 1, 10) "\n"
    print "| work | netc | unit | best peer | its figure | times better | of the copy | must | aim | met |"
    print "|---|---|---|---|---|---|---|---|---|---|"
    for (i = 1; i <= rows; i++) {
        what = order[i]; b = 0
        pick(what)
        for (k = 1; k <= nbars && !b; k++) if (what ~ pattern[k]) b = k
        met = ""
        if (b) {
            m = holds(must[b], what); a = holds(aim[b], what)
            met = m < 0 ? "not measured" : !m ? "**no**" : a == 1 ? "aim" : "yes"
            count[met]++
        }
        printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", what, value[what], unit[what], best[what], figure[what],
            ratio[what], copy[what] == "" ? "" : sprintf("%.1f %%", 100 * copy[what]), b ? bar(must[b]) : "", b ? bar(aim[b]) : "", met
    }
    printf "\n%d rows have bars: %d reach the aim, %d more the must, %d do not, %d were not measured.\n", count["aim"] + count["yes"] + \
        count["**no**"] + count["not measured"], count["aim"], count["yes"], count["**no**"], count["not measured"]
    exit bad
}
