#!/bin/sh
# usage: embed.sh ARRAY FILE...: prints C source for `const EmbeddedFile ARRAY[]`, ended by {0}.
array=$1; shift
echo '#include "base/embedded.h"'
i=0
for f in "$@"; do
    printf 'static const unsigned char text%d[] = {' $i
    od -An -v -tu1 "$f" | sed 's/  */ /g; s/^ //; s/ /,/g; s/$/,/'
    echo '0};'
    i=$((i + 1))
done
echo "const EmbeddedFile $array[] = {"
i=0
for f in "$@"; do
    base=${f##*/}
    printf '    {"%s", (const char *)text%d, sizeof text%d - 1},\n' "$base" $i $i
    i=$((i + 1))
done
echo '    {0},'
echo '};'
