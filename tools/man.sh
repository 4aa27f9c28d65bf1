#!/bin/sh
# The man page: docs/netc.1 with the options of every verb, as its --help lists them.
# usage: man.sh NETC docs/netc.1
netc=$1 page=$2
common() { "$netc" compile --help | sed -n '/^  -D/,/^  -h/p'; } # what every verb that compiles takes
rows() { sed 's/\\/\\\\/g; s/-/\\-/g; 1s/^/.nf\n/; $s/$/\n.fi/'; }
options() {
    for verb in $(sed -n '/^\.SH VERBS/,/^\.SH COMMON/s/^\.B \([a-z]*\)$/\1/p' "$page"); do
        printf '.SS %s\n' "$verb"
        "$netc" "$verb" --help | sed -n '/^usage: /s///p; /^  -/p' | grep -vxF "$(common)" | rows
    done
    printf '.SS every verb that compiles\n'
    common | rows
}
sed '/^\.SH EXIT STATUS/,$d' "$page"
echo '.SH OPTIONS OF THE VERBS'
options
sed -n '/^\.SH EXIT STATUS/,$p' "$page"
