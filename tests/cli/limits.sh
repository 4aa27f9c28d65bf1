#!/bin/bash
# What is too big ends in one message, soon and within the memory there is: files, what a small file expands to, texts
# that grow while they are compiled.
. "$(dirname "$0")/../lib.sh"
if grep -q __asan_init "$NETC"; then skip "a sanitizer reserves all address space: limits mean nothing"; finish; fi
# within KB: a command that runs the words behind it with so much address space.
within() { printf 'ulimit -v %s; exec "$@"' "$1"; }

# -- files
truncate -s 400M big.net
for kb in 300000 600000; do expect 2 "big.net does not fit in memory" bash -c "$(within $kb)" - "$NETC" big.net; done
expect 2 "big.net does not fit in memory" bash -c "$(within 600000)" - "$NETC" run big.net
finish
