// The CUDA prelude is cut at its blank lines into what a kernel needs (runtime/cuda/cuda_prelude.c).
// There a kernel gets one paragraph for a name: all functions of that name for plain types must
// stand in it, or a call would quietly convert its operands to the types of those that do.
#include <string.h>

#include "base/map.h"
#include "codegen/kernel.h"
#include "tests/unit/unit.h"

static StrMap home; // name -> its paragraph
static int names;

static void declared(const char *name, size_t len, int paragraph)
{
    name = arena_strndup(home.arena, name, len);
    intptr_t before = (intptr_t)strmap_get(&home, name);
    CHECK_MSG(!before || before == paragraph, "%s", name);
    strmap_set(&home, name, (void *)(intptr_t)paragraph);
    names++;
}

// A function, or lines of NC_FLOAT(nc_exp) NC_FLOAT(nc_log). (Templates: chosen by the class that
// they are about, which the kernel names.)
static void look(const char *line, int paragraph)
{
    const char *open = strchr(line, '('), *space = open;
    if (!strncmp(line, "NC_FN ", 6) && open) {
        while (space[-1] != ' ' && space[-1] != '*') space--;
        declared(space, (size_t)(open - space), paragraph);
    }
    if (strncmp(line, "NC_FLOAT", 8) && strncmp(line, "NC_INT2", 7) && strncmp(line, "NC_ANY", 6))
        return;
    for (; open; open = strchr(open + 1, '('))
        declared(open + 1, strcspn(open + 1, ")"), paragraph);
}

int main(void)
{
    Arena *a = arena_new();
    Target t = target_cuda(90, false);
    int paragraph = 1;
    home = strmap_new(a);
    char *text = arena_strdup(a, lower_prelude(a, &t, PRELUDE_GROUPS | PRELUDE_RADIX)), *end;
    for (char *line = text; *line; line = end + 1) {
        end = strchr(line, '\n');
        *end = 0;
        paragraph += end == line;
        look(line, paragraph);
    }
    CHECK_MSG(names > 150, "%d", names);
    arena_free(a);
    return unit_done();
}
