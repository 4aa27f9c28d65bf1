#!/bin/bash
# A host whose locale has a decimal comma gets the same numbers, texts, files and messages as one without.
. "$(dirname "$0")/../lib.sh"
command -v localedef >/dev/null || { skip "no localedef: no locale with a decimal comma can be made"; finish; }
cat > comma.src <<'END'
LC_CTYPE
upper <U0041>;<U0042>;<U0043>
lower <U0061>;<U0062>;<U0063>
END LC_CTYPE
LC_NUMERIC
decimal_point "<U002C>"
thousands_sep "<U002E>"
grouping 3;3
END LC_NUMERIC
END
mkdir places; localedef -c -i comma.src -f ANSI_X3.4-1968 "$PWD/places/comma" >/dev/null 2>&1
cat > host.c <<'END'
#include <locale.h>
#include <netc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static netc_error *err;

static void need(int ok)
{
    if (ok) return;
    printf("failed: %s\n", netc_error_text(err));
    exit(1);
}

int main(int argc, char **argv)
{
    netc_context *c = NULL;
    netc_program *p = NULL;
    netc_session *s = NULL;
    char text[4000] = "", *out;
    FILE *f = fopen(argv[1], "r");
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    if (!setlocale(LC_ALL, argv[2])) return 77;
    snprintf(text + strlen(text), 100, "# %.1f\n", 0.5); // what the host itself does
    printf("%s", strstr(text, strcmp(argv[2], "C") ? "# 0,5" : "# 0.5") ? "" : "failed: no such locale\n");
    text[strlen(text) - 6] = 0;
    NETC_INIT(netc_context_options, co);
    co.cache_dir = "";
    need(!netc_context_create(&co, &c, &err));
    NETC_INIT(netc_compile_options, o);
    const char *defines[] = {"scale=0.125"};
    o.defines = defines, o.ndefines = 1;
    need(!netc_compile_text(c, "m.net", text, &o, &p, &err));
    static const char *const stages[] = {"ast", "ir", "grad", "fused", "plan", "cuda", "c", "dot"};
    for (int i = 0; i < 8; i++) {
        need(!netc_program_emit(p, stages[i], &out, &err));
        printf("-- %s\n%s", stages[i], out);
        netc_free(out);
    }
    NETC_INIT(netc_inspect_options, io);
    io.target = "cuda", io.json = true;
    need(!netc_inspect(p, &io, &out, &err));
    printf("-- inspect\n%s", out);
    netc_free(out);
    need(!netc_format(c, "m.net", text, &out, &err));
    printf("-- fmt\n%s", out);
    netc_free(out);
    need(!netc_session_create(p, "cpu", NULL, &s, &err));
    need(!netc_run(s, "m", 1, &err) && !netc_sync(s, &err));
    double y[4];
    netc_tensor t = {.dtype = NETC_F64, .rank = 1, .dim = {4}, .data = y};
    need(!netc_read(s, "m", "y", &t, &err));
    printf("-- values\n");
    for (int i = 0; i < 4; i++) printf("%d\n", (int)(y[i] * 1e6));
    need(!netc_state_save(s, argv[3], &err) && !netc_state_load(s, argv[3], NULL, &err));
    double rate;
    need(!netc_get(s, "rate", &rate, &err));
    printf("rate %d\n", (int)(rate * 1e6));
    need(!netc_check(p, "cpu", 0, &out, &err));
    printf("-- check\n%s", out);
    netc_free(out);
    netc_session_free(s);
    netc_program_release(p);
    p = NULL;
    o.memory_limit = -1;
    netc_compile_text(c, "m.net", "model m(x: f32[3]) { return y = x + (if 0.5 then 1 else 2) }\n", NULL, &p, &err);
    printf("-- error\n%s\n%s\n", netc_error_text(err), netc_error_json(err));
    netc_error_free(err);
    netc_context_free(c);
    printf("-- own\n%.1f\n", 1.5); // the host's locale is unchanged
    return 0;
}
END
cat > m.net <<'END'
use nn
const scale = 0.75
setting rate = 0.0625
const table = [0.5, 1.25e-3, 1e-8, 3.0]
model m() {
    x = tensor(table, f64) * scale + 2.5e-1
    w = cast(iota([4], 0), f32) * 0.3333
    return y = x * 1.5, z = gelu_tanh(w) * rate
}
END
sanitize=
nm "$BUILD/netc" 2>/dev/null | grep -q __asan_init && sanitize=-fsanitize=address,undefined
expect 0 "" ${CC:-cc} -std=gnu17 $sanitize host.c -o host "-I$ROOT/include" "$BUILD/libnetc.a" -ldl -lm -lpthread -lz
for place in C comma; do
    LOCPATH=$PWD/places ./host m.net $place state.$place > out.$place 2>&1; code=$?
    [ $code = 0 ] && ! grep -q '^failed' out.$place && pass || fail "in locale $place exit $code: $(grep -m3 -B1 -A3 failed out.$place; tail -3 out.$place)"
done
[ "$(tail -1 out.comma)" = "1,5" ] && pass || fail "the host's own locale changed: $(tail -1 out.comma)"
diff <(sed '$d' out.C) <(sed '$d' out.comma) > difference && pass || fail "texts differ: $(head -8 difference)"
[ "$(wc -l < out.C)" -gt 100 ] && pass || fail "compared little: $(cat out.C)"
cmp -s state.C state.comma && pass || fail "the saved states differ"
finish
