#!/bin/bash
# `netc check` must fail when any one store of a generated kernel stores zeros (tests/mutants), as C and as CUDA on
# the host shim. Here: of a few files, every fourth store as C, every sixteenth as CUDA; ZEROED=all: of every
# sample and test with kernels, which takes hours; ZEROED='FILE...': of those. ZEROED_LANGUAGES='c cuda'.
#
# Where a store's right values are all zeros nothing can be seen: one that traps on other values passes, too. The
# others that may pass are counted in tests/mutants/equal, with the reason: FILE LANGUAGE zeroed COUNT: why.
. "$(dirname "$0")/../lib.sh"
mutants=$ROOT/tests/mutants
export MUTANT_DIR=$W MUTANT_IN MUTANT_AT MUTANT_FIND MUTANT_PUT MUTANT_FLAGS OMP_NUM_THREADS=1
checked() { # FILE LANGUAGE
    rm -rf "$W/hit"
    if [ "$2" = c ]; then
        CC=$mutants/cc.sh MUTANT_FLAGS=-O0 timeout "${LIMIT:-1200}" "$NETC" check "$1" --device cpu --cache-dir ''
    else
        SHIM_CXX=$mutants/cc.sh LD_LIBRARY_PATH=$BUILD/shim timeout "${LIMIT:-1200}" "$NETC" check "$1" --device cuda:0 --cache-dir ''
    fi >"$W/out" 2>&1
    local code=$?
    [ $code -ne 124 ] || fail "over the time limit: $1 ($2)"
    return $code
}

places() { # FIND: where the texts that were kept have it: KERNEL AT
    FIND=$1 awk '
        FNR == 1 { kernel = "" }
        /^[^ ]/ && match($0, /k_[0-9a-f]+/) && RLENGTH == 18 { kernel = substr($0, RSTART, 18) }
        kernel != "" && $0 ~ ENVIRON["FIND"] { print kernel, ++n[FILENAME, kernel] }' "$W"/text.* | sort -u
}

each_store() { # FILE LANGUAGE: every store in turn
    local file=$1 language=$2 name=${1#"$ROOT"/} at=0 every=4 zeros=0 survived=0 allowed where find put seen mistake wanted
    rm -rf "$W"/text* "$W/seen"; MUTANT_FIND=''
    [ "$language" = c ] || every=16
    checked "$file" "$language" || { fail "$name ($language): $(tail -2 "$W/out")"; return; }
    ls "$W"/text.* >/dev/null 2>&1 || return
    while IFS=$'\t' read -r mistake wanted find put seen; do
        [ "$wanted" = both ] || [ "$wanted" = "$language" ] || continue
        while read -r MUTANT_IN MUTANT_AT; do
            at=$((at + 1))
            [ -n "${ZEROED:-}" ] || [ $((at % every)) = 1 ] || continue
            where="$name ($language): store $MUTANT_AT of $MUTANT_IN"
            MUTANT_FIND=$find MUTANT_PUT=$put
            checked "$file" "$language" || continue
            [ -d "$W/hit" ] || { fail "$where was not hit"; continue; }
            MUTANT_PUT=$seen
            if checked "$file" "$language"; then zeros=$((zeros + 1)); continue; fi
            survived=$((survived + 1))
            echo "$where stores zeros and passes: $(sed 's/^ *//' "$W/hit/before")"
        done < <(places "$find")
    done < <(grep '^store_zero' "$mutants/mistakes")
    MUTANT_IN=''
    allowed=$(sed -n "s|^$name $language zeroed \([0-9]*\): .*|\1|p" "$mutants/equal")
    [ $survived -le "${allowed:-0}" ] && pass || fail "$name ($language): $survived of $at zeroed stores pass"
    [ -z "${ZEROED:-}" ] || echo "$name $language: $at stores, $zeros of zeros, $survived pass"
}

case ${ZEROED:-} in
all) files=("$ROOT"/samples/*/*.net "$ROOT"/tests/{mutants,shim/net}/*.net "$ROOT"/tests/net/{check,fuse,lang}/*.net) ;;
'') files=("$ROOT"/tests/mutants/init.net "$ROOT"/tests/net/fuse/variance.net "$ROOT"/tests/shim/net/scan.net) ;;
*) for f in $ZEROED; do files+=("$ROOT/$f"); done ;;
esac
languages=${ZEROED_LANGUAGES:-c cuda}
command -v g++ >/dev/null || languages=c
for f in "${files[@]}"; do
    grep -q '# error: ' "$f" && continue
    for language in $languages; do each_store "$f" "$language"; done
done
finish
