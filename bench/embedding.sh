#!/bin/bash
# Sums by index (the gradient of an embedding) on a GPU: letters of a text, uniform, Zipf's and constant indices, few
# places and many; a line each, with another build's beside it where one is given. TEXT=FILE: the letters' text.
#
#   TEXT=tinyshakespeare.txt bash bench/embedding.sh [OLD_NETC]
cd "$(dirname "$0")/.." || exit 1
W=$(mktemp -d); trap 'rm -rf "$W"' EXIT
TEXT=${TEXT:-docs/kernels.md} python3 - "$W" <<'PY' || exit 1
import os, sys
import numpy as np
r, where = np.random.default_rng(1), sys.argv[1]
text = np.frombuffer(open(os.environ['TEXT'], 'rb').read(), np.uint8)
for n, width in ((16384, 384), (32768, 768)):
    np.save(f'{where}/dy{n}.npy', r.standard_normal((n, width), dtype=np.float32))
    np.save(f'{where}/letters{n}.npy', np.minimum(np.resize(text, n), 127).astype(np.int32))
    np.save(f'{where}/one{n}.npy', np.full(n, 101, np.int32))
    for rows in (128, 1000, 50257):
        p = 1 / (np.arange(rows) + 2.7)
        np.save(f'{where}/uniform{n}_{rows}.npy', r.integers(0, rows, n, dtype=np.int32))
        np.save(f'{where}/zipf{n}_{rows}.npy', r.permutation(rows)[r.choice(rows, n, p=p / p.sum())].astype(np.int32))
PY
while read -r rows count width ids; do
    for netc in ${1:+"$1"} build/netc; do
        echo "== rows $rows, updates $count x $width, $ids: $netc"
        timeout 60 "$netc" profile bench/kernels/embedding.net -e table -D rows="$rows" -D count="$count" -D width="$width" \
            --data ids="$W/$ids.npy" --data dy="$W/dy$count.npy" --tune-file '' | grep -E ' us|scatter_add|copy'
    done
done <<'LINES'
128 16384 384 letters16384
128 16384 384 uniform16384_128
128 16384 384 zipf16384_128
128 16384 384 one16384
1000 16384 384 uniform16384_1000
1000 16384 384 zipf16384_1000
50257 32768 768 letters32768
50257 32768 768 uniform32768_50257
50257 32768 768 zipf32768_50257
50257 32768 768 one32768
LINES
