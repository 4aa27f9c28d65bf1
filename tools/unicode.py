"""Writes lib/tokens/unicode_table.c: the general category of every code point, as ranges.

    pip install unicodedata2==16.0.0 && python tools/unicode.py > lib/tokens/unicode_table.c
"""
import unicodedata2 as unicodedata

# In the order of the enum in lib/tokens/unicode.h.
NAMES = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co".split()
ranges = []
for c in range(0x110000):
    name = unicodedata.category(chr(c))
    if not ranges or ranges[-1][1] != name:
        ranges.append((c, name))
words = [f"0x{c << 5 | NAMES.index(name):x}" for c, name in ranges]
print(f"// Made by tools/unicode.py from Unicode {unicodedata.unidata_version}.")
print('#include "lib/tokens/unicode.h"\n')
print("// clang-format off")
print("// Start of each range, shifted left by 5, plus its category.")
print(f"const int unicode_range_count = {len(words)};")
print("const uint32_t unicode_range[] = {")
for i in range(0, len(words), 11):
    print("    " + ", ".join(words[i:i + 11]) + ",")
print("};")
