#!/bin/bash
# A results file as a table for a person: bench/table.sh bench/results/FILE.jsonl
of() { sed -n "s/.*\"$1\":\"\\{0,1\\}\\([^\",}]*\\).*/\\1/p" <<<"$line"; }
echo "| what | netc | unit | beside | its figure | times better |"
echo "|---|---|---|---|---|---|"
while IFS= read -r line; do
    what=$(sed -n 's/.*"what":"\([^"]*\)".*/\1/p' <<<"$line") peer=$(sed -n 's/.*"peer":"\([^"]*\)".*/\1/p' <<<"$line")
    echo "| $what | $(of value) | $(of unit) | $peer$([ -n "$peer" ] && v=$(of peer_version) && [ -n "$v" ] && echo " ($v)") | $(of peer_value) | $(of ratio) |"
done <"${1:?usage: bench/table.sh RESULTS.jsonl}"
