#!/bin/bash
# Kernel cards: what NVRTC makes of the kernels of all files in tests/cards/files, compared with the
# table sm_90.txt. It needs no GPU. Equal kernels are compiled once. The table has a digest of each
# file's kernels and launches: where it and the compiler are the same, the cards are, too. Of eight
# such files one is compiled nevertheless, by SEED (the day of the year), and with CARDS_ALL=1 all are.
#
#   bash tests/cards/run.sh --update     writes the table anew: look at what git diff says of it
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
export CUDA_VISIBLE_DEVICES= # no GPU's size, no schedules measured on one
table=$here/sm_90.txt
version=$("$NETC" doctor 2>&1 | sed -n 's/^yes NVRTC *\([0-9][0-9]*\.[0-9]*\).*/NVRTC \1/p')
version=${version:-no NVRTC}

cards() { # NUMBER FILE OPTION...
    local number=$1 file=$2 text; shift 2
    text=$(program_digest "$file" "$@")
    [ -n "$text" ] || { echo "$file $*: no text" >>"$W/failed"; return; }
    [ -n "$all" ] || [ $(((number + SEED) % 8)) -eq 0 ] || ! awk -v name="$file${*:+ $*}" -v text="# text $text" \
        '/^[^ #]/ { at = $0 == name } at { print; known += $0 == text } END { exit !known }' "$table" >"$W/rows.$number" || return
    "$NETC" inspect "$file" "$@" --cards --target sm_90 --tune-file '' -q >"$W/cards.$number" 2>"$W/said.$number"
    grep -q '^ *regs ' "$W/cards.$number" || { echo "$file $*: $(head -3 "$W/said.$number")" >>"$W/failed"; return; }
    { echo "$file${*:+ $*}"; echo "# text $text"; awk -f "$here/table.awk" "$W/cards.$number"; } >"$W/rows.$number"
}
same= all=1
head -1 "$table" | grep -qF "by $version:" && same=1 all=${CARDS_ALL:-}
[ "${1:-}" != --update ] || all=1
number=1000
cd "$ROOT" || exit 1 # (a text has the file's path, and lines as long as that is)
while read -r file options; do
    case $file in '#'* | '') continue ;; esac
    while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
    number=$((number + 1))
    # shellcheck disable=SC2086
    cards $number "$file" $options &
done <"$here/files"
wait
cd "$W" || exit 1
if [ -s "$W/failed" ]; then
    fail "no cards of $(head -5 "$W/failed")"
    finish
fi
{
    echo "# Kernel cards for sm_90 by $version: of each file's kernels (tests/cards/run.sh --update writes this)"
    echo "# registers, bytes of local, static and dynamic shared memory, threads, lines, order of seconds, name, remarks"
    cat "$W"/rows.*
} >"$W/table"

if [ "${1:-}" = --update ]; then
    [ "$version" != 'no NVRTC' ] || { fail "no NVRTC: the table stays as it is"; finish; }
    awk -v same=1 -f "$here/compare.awk" "$table" "$W/table" 2>/dev/null
    # Seconds stay where they are within their order, or the table would change with every load.
    awk '/^[^ #]/ { file = $0 }
        FNR == NR { if (/^ /) old[file $8] = $7; next }
        /^ / { o = old[file $8]; if (o != "" && o / $7 < 11 && $7 / o < 11) sub(" " $7 " " $8, " " o " " $8) } { print }' \
        "$table" "$W/table" >"$W/kept" 2>/dev/null && [ -s "$W/kept" ] || cp "$W/table" "$W/kept"
    cp "$W/kept" "$table"
    echo "wrote tests/cards/sm_90.txt: $(grep -c '^ ' "$table") kernels of $(grep -c '^[^ #]' "$table") files by $version"
    pass
    finish
fi

# compare TABLE CODE TEXT: against what was made now.
compare() {
    awk -v same=$same -f "$here/compare.awk" "$1" "$W/table" >"$W/differs"; local code=$?
    [ $code -eq "$2" ] && { [ -z "$3" ] || grep -qF -- "$3" "$W/differs"; } || { fail "$1: $(head -20 "$W/differs")"; return 1; }
    pass
}
[ -n "$same" ] || skip "$version: registers, memory and remarks in the table are those of $(sed -n 's/.* by \(.*\):.*/\1/p;q' "$table"); compared: shared memory of launches, threads, lines"
compare "$table" 0 '' || echo "where that is meant: bash tests/cards/run.sh --update"

# What the comparison finds: a row that is gone, a new one, more lines; of the same compiler more
# registers and a remark.
awk '/^ / && !n++ { next } { print }' "$table" >"$W/less"; compare "$W/less" 1 'new: '
awk '/^ / && !n++ { print; $8 = "other"; print "  " $0; next } { print }' "$table" >"$W/more"; compare "$W/more" 1 'gone: '
awk '/^ / && !n++ { $6 -= 1; print "  " $0; next } { print }' "$table" >"$W/lines"; compare "$W/lines" 1 'worse: '
awk '/^ / && !n++ { $6 += 1; print "  " $0; next } { print }' "$table" >"$W/lines"; compare "$W/lines" 1 'better: '
if [ -n "$same" ]; then
    awk '/^ / && !n++ { $1 -= 1; print "  " $0; next } { print }' "$table" >"$W/regs"; compare "$W/regs" 1 'worse: '
fi

# A product of four warps that begins without its fence is serialised: NVRTC says so, and that fails.
if [ "$version" != 'no NVRTC' ]; then
    cat >product.net <<'NET'
model product(x: bf16[2048, 512], w: bf16[512, 2048]) { return y = matmul(x, w) }
NET
    kernel=$("$NETC" --emit cuda --target cuda --arch sm_90 --no-library product.net | sed -n 's/^extern "C".* \([a-z_]*_[0-9a-f]\{8\}\)(.*/\1/p')
    expect 0 "wrote" "$NETC" inspect product.net --no-library --target sm_90 --eject "$kernel"
    edited=$(ls product*.kernels/*.cu)
    grep -q 'nc_products_begin();' "$edited" && pass || fail "no fence in $edited"
    sed -i 's/nc_products_begin();//' "$edited"
    expect 0 "(C75" "$NETC" inspect product.net --no-library --cards --target sm_90 --cache-dir ''
    { echo product.net; awk -f "$here/table.awk" "$W/.out"; } | tee "$W/serial.old" >"$W/serial"
    awk -v same=$same -f "$here/compare.awk" "$W/serial.old" "$W/serial" >"$W/differs" && fail "a serialised product passes" || pass
    grep -q '^serialised: product.net: .* C75' "$W/differs" && pass || fail "serialised products: $(head -3 "$W/differs")"
fi
finish
