#!/bin/bash
# Results as a Markdown table with what is asked of each row and whether it is met.
#
#   bench/report.sh bench/results/FILE.jsonl [FILE.jsonl...]
#
# A later line of the same measurement replaces an earlier one; of several peers the best counts.
# bench/bars.tsv holds what is asked.
set -u
[ $# -gt 0 ] || { echo "usage: bench/report.sh RESULTS.jsonl ..." >&2; exit 1; }
for f; do [ -r "$f" ] || { echo "bench/report.sh: cannot read $f" >&2; exit 1; }; done
here=$(cd "$(dirname "$0")" && pwd)
cat -- "$@" | awk -v bars="$here/bars.tsv" -f "$here/report.awk"
