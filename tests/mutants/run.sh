#!/bin/bash
# Single mistakes, which `netc check` and the host shim's reports must catch: in the text of generated kernels, and in
# the compiler's own sources. Every kind of kernel (tests/shim/net) gets every kind of mistake (mistakes) in two of
# the lines that can have it, as C and as CUDA on the host shim; every mistake in a source (sources) makes a netc of
# its own, whose check of some of these files must fail.
#
#   tests/mutants/run.sh BUILD [WORD...]   only mutants whose name (NET LANGUAGE MISTAKE, or source FILE NAME) holds
#                                          all words
#
# SHARE=N, PART=K: every N-th mutant, from the K-th on. PLACES=2: lines for each mistake. JOBS: at a time. LIMIT:
# seconds after which one hangs.
# STOP: seconds after which none is begun. OUT (BUILD/mutants): a line each in results; what is there is not run
# again, so a stopped run goes on. What survives and is never seen to compute anything else (SEEN in mistakes) is "same";
# equal lists others that are, and why. Ends with the survivors and "N passed, N failed, N skipped": caught or hung,
# survived or never made (a source line is absent, or what is built of it is broken), the same.
set -u
cd "$(dirname "$0")/../.."
here=tests/mutants BUILD=$1; shift
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
OUT=${OUT:-$BUILD/mutants} JOBS=${JOBS:-$(nproc)} LIMIT=${LIMIT:-300} END=$(($(date +%s) + ${STOP:-1000000}))
mkdir -p "$OUT"; : >>"$OUT/results"
export BUILD OUT LIMIT END here OMP_NUM_THREADS=1

check() { # LANGUAGE NETC FILE OPTION...: with CC or SHIM_CXX that makes mistakes. cuda@N: on a device of N multiprocessors
    local language=$1 netc=$2; shift 2
    if [ "$language" = c ]; then
        CC=$PWD/$here/cc.sh MUTANT_FLAGS="-O0 -ftrivial-auto-var-init=pattern" timeout -k 5 "$LIMIT" "$netc" check "$@" --device cpu --cache-dir ''
    else
        [ "$language" = cuda ] || local -x SHIM_UNITS=${language#cuda@}
        SHIM_CXX=$PWD/$here/cc.sh LD_LIBRARY_PATH=$BUILD/shim timeout -k 5 "$LIMIT" "$netc" check "$@" \
            --device cuda:0 --cache-dir ''
    fi
}

state_of() { # EXIT CODE of a check
    case $1 in 0) echo survived ;; 124 | 137) echo hung ;; *) echo caught ;; esac
}

# NET LANGUAGE: the kernels as they are, fused and without the library, out of two model.bin, which hold each as it is
# compiled and as people read it: lines KERNEL TAB TEXT in $OUT/NET.LANGUAGE.
text() {
    local file=$OUT/$1.$2 dir target=cuda library
    [ "$2" = cuda ] || target=cpu
    [ -s "$file" ] && return
    dir=$(mktemp -d)
    for library in '' --no-library; do
        CC=$PWD/$here/cc.sh MUTANT_DIR=$dir MUTANT_FLAGS=-O0 LD_LIBRARY_PATH=$BUILD/shim "$BUILD/netc" \
            "tests/shim/net/$1.net" -o "$dir/bin$library" --target $target --arch sm_90 --cache-dir '' $library
    done >"$dir/log" 2>&1
    cat "$dir/bin" "$dir/bin--no-library" | tr '\0' '\f' | sed 's/\f/\n\f\n/g' | LC_ALL=C awk -v OFS='\t' '
        /\f/ { kernel = ""; next }
        /^[^ ]/ && !/;$/ && match($0, /k_[0-9a-f]+(_[a-z0-9_]*)?\(/) {
            k = substr($0, RSTART, 18)
            if (k != kernel) kernel = seen[k]++ ? "" : k
        }
        kernel != "" { print kernel, $0 }' | sort -s -k1,1 >"$file"
    rm -rf "$dir"
}

right() { # "NET LANGUAGE right": the check passes without any mistake
    local net language
    read -r net language _ <<<"$1"
    MUTANT_DIR=/nowhere MUTANT_FIND=' no line ' MUTANT_AT=1 MUTANT_PUT='' check "$language" "$BUILD/netc" \
        "tests/shim/net/$net.net" >/dev/null 2>&1 && echo "right $1:" >>"$OUT/results" || echo "broken $1: fails without a mistake" >>"$OUT/results"
}

put_into() { # DIR NET LANGUAGE KERNEL AT FIND PUT
    rm -rf "$1/hit"
    MUTANT_DIR=$1 MUTANT_IN=$4 MUTANT_AT=$5 MUTANT_FIND=$6 MUTANT_PUT=$7 \
        check "$3" "$BUILD/netc" "tests/shim/net/$2.net" >"$1/log" 2>&1
}

# NAME PLACE KERNEL AT FIND PUT SEEN: line AT of those of a kernel that FIND matches. NAME: NET LANGUAGE MISTAKE.
# "same": its line is executed and never computes anything else than the right one does.
kernel_mutant() {
    local dir state at net language
    read -r net language _ <<<"$1"
    dir=$(mktemp -d)
    put_into "$dir" "$net" "$language" "${@:3:4}"
    state=$(state_of $?)
    if [ ! -d "$dir/hit" ]; then state=absent
    elif cmp -s "$dir/hit/before" "$dir/hit/after"; then state=absent; fi
    at=$(sed 's/^ *//' "$dir/hit/before" 2>/dev/null | cut -c1-150)
    if [ $state = survived ] && [ -n "$7" ] && put_into "$dir" "$net" "$language" "${@:3:3}" "$7" &&
        ! MUTANT_SEEN=reached put_into "$dir" "$net" "$language" "${@:3:3}" "$7"; then state=same; fi
    echo "$state $1 $2: $3 $at" >>"$OUT/results"
    rm -rf "$dir"
}

objects() { # of the library's sources that there are
    local o c
    find "$BUILD"/{base,ir,frontend,passes,codegen,runtime,lib} -name '*.o' | while read -r o; do
        c=${o#"$BUILD/"}
        if [ -f "${c%.o}.c" ] || [ -f "${o%.o}.c" ]; then echo "$o"; fi
    done
}

# "source FILE NAME" CHECKS FIND PUT: the one line of FILE that FIND matches; the other sources are those of BUILD.
# CHECKS: what may catch it, LANGUAGE FILE OPTION...; LANGUAGE ...
source_mutant() {
    local dir state=survived file language check lines by=
    read -r _ file _ <<<"$1"
    dir=$(mktemp -d)
    lines=$(grep -cE -- "$3" "$file")
    sed -E "s"$'\x01'"$3"$'\x01'"$4"$'\x01' "$file" >"$dir/mutant.c"
    if [ "$lines" != 1 ] || cmp -s "$file" "$dir/mutant.c"; then
        state=absent
    elif ! { cc -std=gnu17 -O1 -w -fwrapv -fPIC -fvisibility=hidden -D_GNU_SOURCE -I. -I"$BUILD" -Iinclude \
            -iquote "$(dirname "$file")" -c -o "$dir/mutant.o" "$dir/mutant.c" &&
            ld -r -o "$dir/lib.o" "$dir/mutant.o" $(objects | grep -vxF "$BUILD/${file%.c}.o") && objcopy --localize-hidden "$dir/lib.o" &&
            cc -o "$dir/netc" "$BUILD"/{cli,lsp}/*.o "$dir/lib.o" "$BUILD/lib_base.a" -ldl -lm -lpthread -l:libz.so.1
        } >"$dir/log" 2>&1; then
        state=broken
    fi
    while [ $state = survived ] && read -r language check; do
        # shellcheck disable=SC2086
        MUTANT_DIR=$dir MUTANT_FIND=' no line ' MUTANT_AT=1 MUTANT_PUT='' \
            check "$language" "$dir/netc" $check >"$dir/log" 2>&1
        state=$(state_of $?)
        [ $state = survived ] || by=" ($language ${check##*/})"
    done < <(tr ';' '\n' <<<"$2")
    echo "$state $1: $(grep -E -m1 -- "$3" "$file" | sed 's/^ *//' | cut -c1-150)$by" >>"$OUT/results"
    rm -rf "$dir"
}

mutant() { # KIND and its arguments
    [ "$(date +%s)" -lt "$END" ] && "$@"
}
export -f check state_of text right mutant put_into kernel_mutant objects source_mutant

for f in tests/shim/net/*.net; do
    for language in c cuda; do echo "$(basename "$f" .net) $language"; done
done | xargs -P "$JOBS" -L1 bash -c 'text "$@"' _

kernel_mutants() { # lines: kernel_mutant and its arguments, parted by tabs
    local f net language name wanted find put seen
    for f in "$OUT"/*.c "$OUT"/*.cuda; do
        [ -s "$f" ] || continue
        net=$(basename "${f%.*}") language=${f##*.}
        printf 'right\t%s %s right\t\t\t\t\t\n' "$net" "$language"
        while IFS=$'\t' read -r name wanted find put seen; do
            case $name in '#'* | '') continue ;; esac
            [ "$wanted" = both ] || [ "$wanted" = "$language" ] || continue
            FIND=$find PUT=$put SEEN=$seen awk -F'\t' -v OFS='\t' -v name="$net $language $name" -v places="${PLACES:-2}" \
                -f "$here/places.awk" "$f"
        done <"$here/mistakes"
    done
}

checks_of() { # FIRST: in every shape that tests/shim/run.sh tries; then all others
    local f
    for f in $1; do
        case $f in
            */*) echo "c $f" ;;
            *@*) grep -E "/${f%@*}\.net( |$)" "$OUT/variants" | sed "s/^/cuda@${f#*@} /" ;;
            *) grep -E "/$f\.net( |$)" "$OUT/variants" | sed 'h; s/^/c /p; g; s/^/cuda /' ;;
        esac
    done
    grep -v ' ' "$OUT/variants" | grep /shim/net/ | sed 'h; s/^/c /p; g; s/^/cuda /'
}

source_mutants() { # lines: source_mutant and its arguments, parted by tabs
    local name file nets find put
    bash tests/shim/variants | sed "s|$PWD/||" >"$OUT/variants"
    while IFS=$'\t' read -r name file nets find put; do
        case $name in '#'* | '') continue ;; esac
        printf 'source_mutant\tsource %s %s\t%s\t%s\t%s\n' "$file" "$name" \
            "$(checks_of "$nets" | awk '!seen[$0]++' | tr '\n' ';' | sed 's/;$//')" "$find" "$put"
    done <"$here/sources"
}

# In an order that is the same each time, and mixes them: a part of them says something about all.
{ kernel_mutants; source_mutants; } | sort -u | sort -R --random-source=<(yes) >"$OUT/all"
for word in "$@"; do grep -E "^[^	]*	[^	]*$word" "$OUT/all" >"$OUT/some"; mv "$OUT/some" "$OUT/all"; done
# Eight fields each, a line each; those with a result are left out.
awk -F'\t' -v share="${SHARE:-1}" -v part="${PART:-0}" '
    FILENAME != ARGV[2] { sub(/^[a-z]+ /, ""); sub(/: .*|:$/, ""); done[$0] = 1; next }
    (FNR - part) % share == 0 && !(($1 == "kernel_mutant" ? $2 " " $3 : $2) in done) {
        for (i = 1; i <= 8; i++) print $i
    }' "$OUT/results" "$OUT/all" >"$OUT/queue"
xargs -d '\n' -r -n8 -P "$JOBS" bash -c 'mutant "$@"' _ <"$OUT/queue"

# The survivors; those that the pattern of a line of equal matches as a whole are none.
sed -nE 's/^([a-z(].*):: .*/\1/p' $here/equal >"$OUT/equal"
sed -n 's/^survived //p' "$OUT/results" | sort >"$OUT/survived"
grep -vxE -f "$OUT/equal" "$OUT/survived" >"$OUT/failed"
sed 's/^/survived /' "$OUT/failed"
grep -E '^(hung|broken|absent source)' "$OUT/results"
caught=$(grep -cE '^(caught|hung)' "$OUT/results") survived=$(wc -l <"$OUT/failed")
same=$(grep -c '^same' "$OUT/results")
lost=$(grep -cE '^(broken|absent) source' "$OUT/results") # mistakes that were never made
echo "$caught passed, $((survived + lost)) failed, $(($(wc -l <"$OUT/survived") - survived + same)) skipped"
[ "$lost" = 0 ] && [ $((survived * 20)) -le $((caught + survived)) ]
