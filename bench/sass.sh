#!/bin/bash
# The machine code of a model's kernels on tensor cores, counted, of one build or of two side by side: for changes of their
# text where there is no GPU to measure on.
#
#   bash bench/sass.sh NETC[,OTHER_NETC] MODEL.net [OPTION...]
#
# A row a kernel and build: registers and spilled bytes, then counts of the loop with most products (all of the kernel
# where there is none): products (HMMA; HGMMA of groups of warps), matrices from shared memory (LDSM), asynchronous copies
# (LDGSTS), loads and stores of global and of shared memory, barriers, all instructions; and all instructions of the kernel. PTXAS and
# CUOBJDUMP: which to call (pip install nvidia-cuda-cuobjdump). ARCH: 90, 80, ...
netcs=$1; shift
W=$(mktemp -d); trap 'rm -rf "$W"' EXIT
ptxas=${PTXAS:-$(command -v ptxas || echo /usr/local/cuda/bin/ptxas)}
cuobjdump=${CUOBJDUMP:-$(command -v cuobjdump || echo /usr/local/cuda/bin/cuobjdump)}
n=0
for netc in ${netcs//,/ }; do
    n=$((n + 1))
    "$netc" --emit ptx --target cuda --arch "sm_${ARCH:-90}" "$@" >"$W/all.ptx" || exit
    awk -v d="$W" '/^\.version/ { n++ } n { print >(d "/" n ".part") }' "$W/all.ptx"
    for part in "$W"/*.part; do
        grep -qE 'mma(_async)?\.sync' "$part" || { rm "$part"; continue; }
        mv "$part" "$part.ptx"
        grep -q 'wgmma' "$part.ptx" && sed -i 's/^\.target sm_90$/.target sm_90a/' "$part.ptx"
        arch=$(sed -n 's/^\.target \(sm_[0-9a-z]*\).*/\1/p' "$part.ptx")
        said=$("$ptxas" -v -arch="$arch" -o "$W/cubin" "$part.ptx" 2>&1) || { echo "$said" | head -3; continue; }
        "$cuobjdump" -sass "$W/cubin" | awk -v build="$n" -v said="$said" '
            /Function :/ { name = $3 }
            match($0, /\/\*[0-9a-f]+\*\/ +[@A-Z]/) {
                at = hex(substr($1, 3, length($1) - 4)); line = $0
                sub(/^ *\/\*[0-9a-f]+\*\/ +(@!?U?P[0-9T]+ +)?/, "", line); split(line, w, /[ .;]/)
                count++; where[count] = at; op[count] = w[1]
                if (w[1] == "BRA" && match(line, /0x[0-9a-f]+/)) to[count] = hex(substr(line, RSTART + 2, RLENGTH - 2))
            }
            function hex(s, v, i) { for (i = v = 0; i < length(s);) v = v * 16 + index("0123456789abcdef", substr(s, ++i, 1)) - 1; return v }
            function kind(o) { return o == "HMMA" || o == "HGMMA" || o == "LDSM" || o == "LDGSTS" || o == "LDG" || o == "STG" || o == "LDS" || o == "STS" || o == "BAR" }
            END {
                first = 1; last = count; most = 0
                for (i = 1; i <= count; i++) if ((i in to) && to[i] < where[i]) {
                    h = 0; b = i; for (j = i; j >= 1 && where[j] >= to[i]; j--) { h += op[j] == "HMMA" || op[j] == "HGMMA"; b = j }
                    if (h > most || (h == most && h && i - b < last - first)) { most = h; first = b; last = i }
                }
                for (i = first; i <= last; i++) if (kind(op[i])) c[op[i]]++
                match(said, /[0-9]+ registers/); regs = substr(said, RSTART, RLENGTH) + 0
                match(said, /[0-9]+ bytes spill stores/); spills = substr(said, RSTART, RLENGTH) + 0
                printf "%s %d regs %d spilled %d %s: HMMA %d LDSM %d LDGSTS %d LDG %d STG %d LDS %d STS %d BAR %d in %d; all %d\n", name, build, regs, spills,
                    most ? "loop" : "all", c["HMMA"] + c["HGMMA"], c["LDSM"], c["LDGSTS"], c["LDG"], c["STG"], c["LDS"], c["STS"], c["BAR"], last - first + 1, count
            }' >>"$W/rows"
    done
    rm -f "$W"/*.part*
done
sort "$W/rows"
