# compare.awk [-v same=1] OLD NEW: what differs between two tables, better or worse. Without same
# (another version of the compiler made NEW, or none) only what does not depend on it counts: the
# shared memory of the launch, threads, lines. Ends with 1 where something differs or where wgmma
# was serialised (C7510 to C7520).
BEGIN { split("registers,local,static,dynamic,threads,lines,,,remarks", what, ",") }
/^#/ { next }
/^[^ ]/ { file = $0; next }
{
    remarks = ""
    for (i = 9; i <= NF; i++) remarks = remarks " " $i
    key = file ": " $8
    new = FILENAME == ARGV[2]
    if (!(key in known)) { known[key] = 1; order[++n] = key }
    there[new, key] = 1
    for (i = 1; i <= 6; i++) value[new, key, i] = $i
    value[new, key, 9] = remarks
    if (new && remarks ~ /C75(1[0-9]|20)/) { print "serialised: " key " " remarks; bad = 1 }
}
END {
    for (k = 1; k <= n; k++) {
        key = order[k]
        if (!there[1, key]) { print "gone:   " key; bad = 1; continue }
        if (!there[0, key]) { print "new:    " key; bad = 1; continue }
        text = ""; better = worse = 0
        for (i = 1; i <= 9; i++) {
            if (what[i] == "" || (!same && (i <= 3 || i == 9))) continue
            a = value[0, key, i]; b = value[1, key, i]
            if (a == b) continue
            text = text (text == "" ? "" : ", ") what[i] " " (a == "" ? "none" : a) " -> " (b == "" ? "none" : b)
            if (i == 9 ? length(b) > length(a) : b + 0 > a + 0) worse++; else better++
        }
        if (text == "") continue
        print (worse ? better ? "other:  " : "worse:  " : "better: ") key ": " text
        bad = 1
    }
    exit bad
}
