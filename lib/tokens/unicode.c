#include "lib/tokens/unicode.h"

#include <string.h>

void unicode_categories(uint8_t *out)
{
    for (int i = 0; i < unicode_range_count; i++) {
        uint32_t from = unicode_range[i] >> 5,
                 to = i + 1 < unicode_range_count ? unicode_range[i + 1] >> 5 : UNICODE_END;
        memset(out + from, (int)(unicode_range[i] & 31), to - from);
    }
}

uint32_t unicode_named(const char *name, size_t n)
{
    static const char two[] = "CnLuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCo";
    uint32_t bits = 0;
    for (int i = 0; i < UC_COUNT; i++)
        if ((n == 1 || n == 2) && !memcmp(name, two + 2 * i, n)) bits |= 1u << i;
    return bits;
}

int utf8_put(uint32_t c, unsigned char out[4])
{
    if (c < 0x80) return out[0] = (unsigned char)c, 1;
    int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, c >>= 6) out[i] = (unsigned char)(0x80 | (c & 0x3f));
    out[0] = (unsigned char)(0xf00 >> n | c);
    return n;
}
