// What of a prelude a kernel gets.
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/cuda.h"
#include "tests/unit/unit.h"

static const char prelude[] = "typedef int number;\n"
                              "\n"
                              "#define NC_FN static\n"
                              "\n"
                              "NC_FN number nc_one_i(void) { return 1; }\n"
                              "NC_FN float nc_one_f(void) { return 1; }\n"
                              "\n"
                              "NC_FN number nc_other(void) { return 2; } // not nc_two\n"
                              "\n"
                              "#define NC_MAKE(s) NC_FN number nc_made_##s(void) { return 3; }\n"
                              "NC_MAKE(a)\n"
                              "\n"
                              "#define NC_BOTH(f) f##_i, f##_f\n"
                              "\n"
                              "NC_FN number nc_two(void) { return NC_BOTH(nc_one); }\n"
                              "\n"
                              "struct NcBox {\n"
                              "    number of; // in one paragraph with nothing else\n"
                              "};\n";

int main(void)
{
    static const struct {
        const char *text;
        bool one, other, made, both, two, box;
    } want[] = {
        {"number x;", false, false, false, false, false, false},
        {"nc_two(); // nc_other()", true, false, false, true, true, false},
        {"nc_one_f();", true, false, false, false, false, false},
        {"nc_other(); NcBox b;", false, true, false, false, false, true},
        {"nc_made();", false, false, true, false, false, false},
        {"nc_made_a();", false, false, true, false, false, false},
        {"nc_unknown(nc_oth); x_nc_two; Nc;", false, false, false, false, false, false},
    };
    Arena *a = arena_new();
    const CudaPrelude *c = cuda_prelude_new(a, prelude);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char *text = cuda_prelude_with(c, "name", want[i].text);
        CHECK(!strncmp(text, "typedef int number;\n", 20)); // always
        CHECK_MSG(!strstr(text, "return 1") == !want[i].one, "%s: %s", want[i].text, text);
        CHECK_MSG(!strstr(text, "return 2") == !want[i].other, "%s: %s", want[i].text, text);
        CHECK_MSG(!strstr(text, "return 3") == !want[i].made, "%s: %s", want[i].text, text);
        CHECK_MSG(!strstr(text, "define NC_BOTH") == !want[i].both, "%s", want[i].text);
        CHECK_MSG(!strstr(text, "return NC_BOTH") == !want[i].two, "%s", want[i].text);
        CHECK_MSG(!strstr(text, "struct") == !want[i].box, "%s: %s", want[i].text, text);
        const char *line = strstr(text, "\n#line 1 \"name.cu\"\n");
        CHECK(line && !strcmp(line + 19, want[i].text));
        free(text);
    }
    char *none = cuda_prelude_with(cuda_prelude_new(a, ""), "k", "nc_two();");
    CHECK(!strcmp(none, "\n#line 1 \"k.cu\"\nnc_two();"));
    free(none);
    arena_free(a);
    return unit_done();
}
