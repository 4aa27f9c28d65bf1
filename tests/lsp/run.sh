#!/bin/bash
# netc lsp, through a client of the protocol. About 15 s of a processor.
. "$(dirname "$0")/../lib.sh"
command -v python3 >/dev/null || { skip "no python3: the language server is not tried"; finish; }
export LSP_LIMIT=${LIMIT:-1200} PYTHONDONTWRITEBYTECODE=1
for part in life names answers nonsense syntax; do
    out=$(timeout "${LIMIT:-1200}" python3 "$ROOT/tests/lsp/$part.py" "$NETC" "$ROOT" "$W" 2>&1)
    line=$(tail -1 <<<"$out")
    if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
        passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
        grep -E '^(failed|skip)' <<<"$out"
        skipped=$((skipped + $(grep -c '^skip' <<<"$out")))
    else
        fail "$part.py ended with: $(tail -5 <<<"$out")"
    fi
done
finish
