#!/bin/bash
# What README.md and docs/ show is what netc does: the quoted source, the quoted kernel, the commands.
. "$(dirname "$0")/../lib.sh"
README=$ROOT/README.md

# indented_after TEXT FILE: the indented block behind the first line that holds TEXT, without its indent.
indented_after() {
    awk -v text="$1" '!on && index($0, text) { on = 1; next }
        on == 1 && /^    / { on = 2 }
        on == 2 && /^(    |$)/ { sub(/^    /, ""); print; next }
        on == 2 { exit }' "$2"
}
# quoted QUOTE TEXT: the lines of QUOTE stand in TEXT in this order, layout and remarks behind two blanks
# and a // aside; `…` stands for anything.
quoted() {
    awk 'function plain(s) { sub(/  +\/\/.*$/, "", s); gsub(/[ \t]+/, " ", s); sub(/^ /, "", s); sub(/ $/, "", s); return s }
        function fits(s, want,   n, i, at, part) {
            n = split(want, part, "…")
            for (i = 1; i <= n; i++) {
                at = index(s, part[i])
                if (part[i] == "") continue
                if (!at || (i == 1 && at != 1)) return 0
                s = substr(s, at + length(part[i]))
            }
            return part[n] == "" || s == ""
        }
        NR == FNR { w = plain($0); if (w != "" && w != "…") want[++n] = w; next }
        done < n && fits(plain($0), want[done + 1]) { done++ }
        END { if (!n || done < n) { print "not there: " want[done + 1]; exit 1 } }' "$1" "$2"
}
same_code() { # FILE FILE WHAT: alike but for comment lines and blank lines
    diff <(grep -v '^#' "$1" | grep -v '^$') <(grep -v '^#' "$2" | grep -v '^$') >diff && pass || fail "$3: $(head -5 diff)"
}

# -- what is quoted
indented_after 'complete except for its head comment' "$README" > model
same_code model "$ROOT/samples/mnist/mlp.net" "the sample in README.md"
indented_after 'Here is `linear`' "$README" > linear
sed -n '/^fn linear/,/^}/p' "$ROOT/frontend/std/nn.net" > std_linear
same_code linear std_linear "linear in README.md"
indented_after 'prints all kernels' "$README" > kernel
(cd "$ROOT" && "$NETC" --emit cuda samples/mnist/mlp.net) > cuda
[ "$(wc -l < kernel)" -gt 20 ] && quoted kernel cuda > why && pass || fail "the kernel in README.md: $(cat why)"
echo "const float never = 1.0f;" >> kernel
quoted kernel cuda > why && fail "a line that is not there is found" || pass
# the tile programs of docs/kernels.md
echo 'model t(x: bf16[1000, 520], w: bf16[1000, 520], b: bf16[1000]) { return tanh(matmul(x, transpose(w)) + b) }' > tanh.net
echo 'model p(x: bf16[4096, 1024], w: bf16[1024, 2048]) { return y = matmul(x, w) }' > product.net
tile_program() { # MODEL ARCH TEXT: what --emit tile says of it stands behind TEXT
    "$NETC" --emit tile "$1" --no-library --arch "$2" > tile
    indented_after "$3" "$ROOT/docs/kernels.md" | grep -v '^$' > quote
    [ "$(wc -l < quote)" -gt 20 ] && diff quote tile > diff && pass || fail "the tile program of $1 in docs/kernels.md: $(head -4 diff)"
}
tile_program tanh.net sm_80 'shows the program with its synchronisation'
tile_program product.net sm_90 "and becomes, with its roles' synchronisation"
stages=$(grep -o 'netc --emit [a-z]*|[a-z|]*' "$README" | head -1 | cut -d' ' -f3 | tr '|' ' ')
[ "$(echo $stages | wc -w)" -ge 8 ] && pass || fail "README.md lists the stages '$stages'"
for stage in $stages; do
    [ $stage = ptx ] && ! "$NETC" doctor | grep -q '^yes NVRTC' && continue
    expect 0 "" "$NETC" --emit $stage "$ROOT/samples/mnist/mlp.net"
done

# -- what is listed: every knob, every pass, every file of the folders whose files are listed
sed -n '/^const Knob knobs/,/^};/s/^    {"\([a-z_]*\)".*/\1/p' "$ROOT/codegen/schedule/knobs.c" > knobs
sed -n '/^const Pass pass_table/,/^};/s/^    {"\([a-z_]*\)".*/\1/p' "$ROOT/passes/runner.c" > passes
[ "$(wc -l < knobs)" -gt 15 ] && [ "$(wc -l < passes)" -gt 5 ] && pass || fail "the tables of knobs and passes are not found"
while read -r k; do grep -q "^|.*\`$k\`" "$ROOT/docs/tuning.md" && pass || fail "docs/tuning.md: no knob $k"; done < knobs
while read -r p; do grep -q "^| \`$p\`" "$ROOT/docs/fusion.md" && pass || fail "docs/fusion.md: no pass $p"; done < passes
# The standard library, but for what only it calls.
sed -n 's/^fn \([a-z_0-9]*\)(.*/\1/p' "$ROOT"/frontend/std/*.net | grep -v '^fan_\|^correction\|^per_axis\|^image_axes\|^paddings\|^conv_weights\|^learned_convolution\|^pool_windows\|^confused\|^over_classes\|^image_sizes\|^by_image\|^grouped\|^places_left\|^resized\|^finer\|^small_angle\|^in_f64\|^polynomial\|^gamma_parts\|^erfinv_f64\|^sinh_cosh\|^bools\|^turned_round\|^kept_type\|^along_last\|^one_along_last\|^cholesky_columns\|^cholesky_factor\|^roll_one\|^means_of_parts\|^as_rows\|^row_lengths\|^unit_length\|^times_rows\|^times_columns\|^singular_start\|^extent\|^shared_areas\|^share_of\|^places\b\|^triangle_\|^is_system\|^no_system\|^eliminated\|^system_solution\|^sign_and_logarithm\|^below_diagonal\|^block_\|^padded\|^filled\|^part\b\|^merged\|^cholesky_block\|^joined_last\|^rows_at\|^moved_first\|^unless_nan' > std
[ "$(wc -l < std)" -gt 40 ] && pass || fail "the functions of the standard library are not found"
while read -r s; do cat "$ROOT"/docs/{language,library}.md | grep -qw -- "$s" && pass || fail "docs/library.md: no function $s"; done < std

# -- links between pages: the file is there, and so is the heading behind '#'
anchors() { # FILE: what its headings are called in links
    awk '/^```/ { code = !code } !code && /^#+ /' "$1" | sed 's/^#* //' | tr 'A-Z' 'a-z' | sed "s/[^a-z0-9 _-]//g; s/ /-/g"
}
broken() { # FILE: its relative links that lead nowhere
    local file=$1 dir target to
    dir=$(dirname "$file")
    awk '/^```/ { code = !code; next } !code && !/^    /' "$file" | sed 's/`[^`]*`//g' > prose
    { grep -o '](\([^)]*\))' prose | sed 's/^](//; s/)$//'; sed -n 's/^\[[^]]*\]: //p' prose; } |
        grep -v '^https\{0,1\}:' | while read -r target; do
        to=${target%%#*}
        if [ -n "$to" ]; then to=$dir/$to; else to=$file; fi
        [ -e "$to" ] || { echo "$target"; continue; }
        case $target in *'#'*) anchors "$to" | grep -qx -- "${target#*#}" || echo "$target" ;; esac
    done
}
for page in "$README" "$ROOT"/docs/*.md; do
    lost=$(broken "$page")
    [ -z "$lost" ] && pass || fail "${page#"$ROOT"/}: links that lead nowhere: $lost"
done
printf '# A b\n[x](#a-b) [y](#no-heading) [z](no-file.md)\n' > links.md
[ "$(broken links.md | tr '\n' ' ')" = "#no-heading no-file.md " ] && pass || fail "links that lead nowhere are not found: $(broken links.md)"

# -- docs/status.md names tests and files that exist
grep -oE '\b(unit/[a-z_0-9]+|(tests|bench|samples|passes|codegen|ir|lib|runtime|tools|python)/[A-Za-z0-9_/*.-]*[A-Za-z0-9_*])' "$ROOT/docs/status.md" |
    sed 's|^unit/.*|tests/&.c|' | sort -u > named
[ "$(wc -l < named)" -gt 100 ] && pass || fail "docs/status.md names only $(wc -l < named) files"
while read -r f; do compgen -G "$ROOT/$f" > /dev/null || compgen -G "$ROOT/$f.*" > /dev/null || echo "$f"; done < named > gone
[ ! -s gone ] && pass || fail "docs/status.md names what is not there: $(tr '\n' ' ' < gone)"

# -- the commands, beside the files they speak of
PATH=$(dirname "$NETC"):$PATH
digits 600
for f in train t10k; do
    for k in images-idx3 labels-idx1; do gzip -c "$D/$f-$k-ubyte" > "$f-$k-ubyte.gz"; done
done
mkdir -p samples/mnist; cp "$ROOT/samples/mnist/mlp.net" samples/mnist; cp "$ROOT/samples/mnist/mlp.net" .
indented_after 'on the four files of MNIST' "$README" > train
expect 0 "eval_accuracy" bash -e train
[ -s mlp.safetensors ] && pass || fail "no mlp.safetensors"
expect 0 "" netc mlp.net -o mlp.bin
cp mlp.bin before.bin; cp mlp.bin after.bin
cpu=$(netc inspect mlp.net --target cpu --json | grep -o '"name":"[a-z0-9_]*_[0-9a-f]\{8\}"' | head -1 | cut -d'"' -f4)
cuda=$(grep -o 'loss_mean_v_max_exp_sum_[0-9a-f]\{8\}' cuda | head -1)
on_gpu=0; netc doctor | grep -q '^yes cuda' && on_gpu=1
# Every line of a code block that begins with "netc", but for placeholders of files.
awk '/^```/ { code = !code; next } /^    netc / || (code && /^netc /)' "$ROOT"/docs/{performance,profiling,tuning}.md |
    sed -E 's/^ +//; s/  +.*//; s/--budget [0-9]+/--budget 1/' | grep -v ' OLD NEW' > commands
[ "$(wc -l < commands)" -ge 15 ] && pass || fail "only $(wc -l < commands) commands are found in docs/"
while read -r line; do
    case $line in *--compare*) cp before.jsonl after.jsonl ;; esac # exits 3 where times differ
    # What is edited by hand is a CUDA kernel; without a GPU nothing can run it.
    case $line in *--kernel*) [ $on_gpu = 1 ] || continue ;; esac
    case $line in
        *--target\ cuda*KERNEL* | *--eject* | *--kernel*) line=${line/KERNEL/$cuda} ;;
        *) [ $on_gpu = 1 ] && line=${line/KERNEL/$cuda} || line=${line/KERNEL/$cpu} ;;
    esac
    expect 0 "" bash -c "$line"
done < commands
finish
