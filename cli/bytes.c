// Sizes in bytes on the command line: 800000, 5e9, 6GB, 512MiB.
#include <string.h>

#include "base/plain.h"
#include "cli/cli.h"

// The value of a unit; 0: unknown. kB, MB, GB and TB are powers of 1000; KiB and so on are powers
// of 1024.
static double unit_bytes(const char *unit)
{
    static const char letters[] = "kMGT";
    if (!*unit || !strcmp(unit, "B")) return 1;
    const char *at = strchr(letters, *unit == 'K' ? 'k' : *unit);
    if (!at || (unit[1] && strcmp(unit + 1, "B") && strcmp(unit + 1, "iB"))) return 0;
    double step = unit[1] == 'i' ? 1024 : 1000, n = 1;
    for (const char *l = letters; l <= at; l++) n *= step;
    return n;
}

bool read_bytes(const char *text, int64_t *out)
{
    char *end;
    double n = plain_double(text, &end), unit = unit_bytes(end), bytes = n * unit;
    if (end == text || unit == 0 || !(bytes >= 0 && bytes < 0x1p62)) return false;
    if (bytes > 0 && bytes < 1) return false;
    *out = (int64_t)bytes;
    return true;
}
