#!/bin/sh
# Enforces who may include whom (the map in docs/design.md): reads the #include lines of every folder.
cd "$(dirname "$0")/.." || exit 1
bad=0 n=0
check() { # folder allowed-prefixes...
    folder=$1; shift
    for f in "$folder"/*.[chly] "$folder"/*/*.[ch]; do
        [ -e "$f" ] || continue
        n=$((n + 1))
        for inc in $(sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p' "$f"); do
            ok=
            for prefix in "$@"; do case $inc in $prefix*) ok=1 ;; esac; done
            [ -n "$ok" ] || { echo "$f includes $inc; $folder/ may include only: $*"; bad=$((bad + 1)); }
        done
    done
}
check base base/
check ir base/ ir/
check frontend base/ ir/ frontend/
check passes base/ ir/ passes/
check codegen base/ ir/ codegen/
check runtime base/ codegen/program.h runtime/
check cli include/netc.h base/ cli/ lsp/serve.h
check lsp include/netc.h base/ lsp/
check python include/netc.h python/
check lib base/ ir/ frontend/ passes/ codegen/ runtime/ lib/ include/netc.h
# What the text of kernels declares is no name of a model's value: codegen/text/names.c has all these words.
for name in $(cat codegen/cuda/*.c codegen/c/*.c codegen/text/*.c codegen/tile/*.c | grep -o '"[^"]*"' |
    grep -oE '(\b(int|float|double|bool|auto|char|unsigned|size_t|long|u?int[0-9]*_t|[A-Z][A-Za-z0-9]*(<[^>]*>)?)|%s)[ *&]+(const |__restrict__ )?[A-Za-z_][A-Za-z0-9_]* *[]=;:,({[]' |
    sed -E 's/ *.$//; s/.*[^A-Za-z0-9_]//' | sort -u); do
    n=$((n + 1))
    case $name in nc_* | *_t | [a-z]0) continue ;; esac # functions
    sed -n '/^static const char taken/,/;$/p' codegen/text/names.c | tr -d '"' | grep -qw -- "$name" ||
        { echo "a kernel's text declares $name, which a model's value may be called: codegen/text/names.c"; bad=$((bad + 1)); }
done
# Inside a folder that has rooms, a room may use those before it: by what it includes, and by the functions it calls.
# Headers beside the rooms are everybody's. rooms OBJECTS SOURCES TOP ROOM...: a line a call that goes the other way.
rooms() {
    objects=$1 sources=$2 top=$3; shift 3
    (cd "$sources" && find "$top" -mindepth 2 -name '*.c') | sed 's/c$/o/' | (cd "$objects" && xargs nm -A -g) | awk -v order="$*" -v top="$top" '
        BEGIN { n = split(order, room, " "); for (i = 1; i <= n; i++) rank[room[i]] = i }
        { split($1, place, ":"); split(place[1], part, "/"); name = $NF }
        $(NF - 1) ~ /^[TDRBC]$/ { home[name] = part[2]; file[name] = place[1] }
        $(NF - 1) == "U" { user[++calls] = part[2]; by[calls] = place[1]; what[calls] = name }
        END { for (i = 1; i <= calls; i++) {
                  if (!(user[i] in rank)) { print by[i] " is in no room of " top; continue }
                  if (what[i] in home && rank[home[what[i]]] > rank[user[i]])
                      print by[i] " calls " what[i] " of " file[what[i]] ", a room above it" } }'
}
described() { # FOLDER: its README.md says what each of its files is
    for f in "$1"/*.c; do
        n=$((n + 1))
        grep -q "\`${f##*/}\`" "$1/README.md" || { echo "$1/README.md does not say what ${f##*/} is"; bad=$((bad + 1)); }
    done
}
walls() { # TOP ROOM...
    top=$1 before=; shift
    order=$*
    for room in "$@"; do
        before="$before $top/$room/"
        n=$((n + 1))
        for f in "$top/$room"/*.[ch]; do
            found=$(sed -n "s#^ *\# *include \"\($top/[a-z_]*/\).*#\1#p" "$f" | sort -u)
            for inc in $found; do
                case "$before " in *" $inc "*) ;; *) echo "$f includes a file of $inc, a room above it"; bad=$((bad + 1)) ;; esac
            done
        done
        described "$top/$room"
    done
    for d in "$top"/*/; do
        case " $order prelude " in *" $(basename "$d") "*) ;; *) echo "$d is not among the rooms of $top"; bad=$((bad + 1)) ;; esac
    done
    n=$((n + 1))
    found=$(rooms "${BUILD:-build}" . "$top" $order)
    [ -z "$found" ] || { echo "$found"; bad=$((bad + 1)); }
}
walls codegen ir lower tile schedule text cuda c launch matmul program
walls runtime host data cpu cuda device exec
walls lib api tokens train generate tune check inspect
# ... and what would break that is seen: a call from the lowest room to the highest.
planted=$(mktemp -d)
mkdir -p "$planted/codegen/ir" "$planted/codegen/program"
echo 'int above(void); int below(void) { return above(); }' > "$planted/codegen/ir/a.c"
echo 'int above(void) { return 1; }' > "$planted/codegen/program/b.c"
for f in ir/a program/b; do ${CC:-cc} -c -o "$planted/codegen/$f.o" "$planted/codegen/$f.c"; done
n=$((n + 1))
rooms "$planted" "$planted" codegen ir program | grep -q 'a.o calls above of codegen/program/b.o' ||
    { echo "a planted call from codegen/ir to codegen/program is not seen"; bad=$((bad + 1)); }
rm -rf "$planted"
for room in passes/*/; do described "${room%/}"; done
# The library's texts are the same in every locale: base/plain.h has what depends on it elsewhere.
for f in base/*.[chly] ir/*.[chly] frontend/*.[chly] passes/*.[chly] codegen/*.h codegen/*/*.[ch] passes/*/*.[ch] runtime/*.h runtime/*/*.[ch] lib/*.h lib/*/*.[ch]; do
    case $f in base/plain.c|'*'*|*/'*'*) continue ;; esac
    n=$((n + 1))
    found=$(tr '\n' ' ' < "$f" | sed 's/;/;\n/g' | grep -v 'plain_format(' |
        grep -oE '\b(strto[dfl]d?|atof|sscanf|v?snprintf|v?asprintf|fnmatch|strn?casecmp|isalpha|isalnum|isdigit|isspace|toupper|tolower)\(.*' |
        grep -E '^(strto(d|f|ld)|atof|vsnprintf|vasprintf|fnmatch|strn?casecmp|is[a-z]*|to[a-z]*)\(|%[-+ #0-9.*]*[aefgAEFG]' | head -1)
    [ -z "$found" ] || { echo "$f depends on the locale: $(echo "$found" | cut -c1-60)"; bad=$((bad + 1)); }
done
for f in $(git ls-files '*.c' '*.h' '*.y' '*.l' 2>/dev/null); do
    [ -e "$f" ] || continue
    lines=$(wc -l < "$f")
    [ "$lines" -le 800 ] || { echo "$f has $lines lines; 800 is the limit"; bad=$((bad + 1)); }
done
echo "$((n - bad)) passed, $bad failed, 0 skipped"
[ $bad -eq 0 ]
