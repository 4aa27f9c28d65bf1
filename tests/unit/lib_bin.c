// model.bin taken apart and put together again: made for another processor, without this or that
// section, with sections of the right checksum and the wrong contents. Loading gives the right
// answer or one clear error.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/netc.h"
#include "runtime/data.h"
#include "tests/unit/unit.h"

static const char model[] = "use nn\n"
                            "use \"half.net\"\n"
                            "dim batch = 4\n"
                            "const width = 3\n"
                            "model m(x: f32[batch, 2]) {\n"
                            "    return y = half(linear(x, width) as fc)\n"
                            "}\n";

static char *resolve(void *user, const char *from, const char *name, size_t *length)
{
    static const char text[] = "fn half(x) {\n    return x / 2\n}\n";
    (void)user, (void)from;
    if (strcmp(name, "half.net")) return NULL;
    *length = sizeof text - 1;
    return strdup(text);
}

static char notes[4096], path[64], other[80];

static void note(void *user, const char *line)
{
    (void)user;
    strncat(notes, line, sizeof notes - strlen(notes) - 1);
}

static netc_context *context(bool resolves, bool no_spawn)
{
    NETC_INIT(netc_context_options, o);
    netc_context *c = NULL;
    o.cache_dir = no_spawn ? "" : NULL;
    o.resolve = resolves ? resolve : NULL;
    o.no_spawn = no_spawn;
    o.log = note;
    CHECK(netc_context_create(&o, &c, NULL) == NETC_OK);
    return c;
}

static const float input[4][2] = {{1, 2}, {3, 4}, {5, 6}, {-1, 1}};

// What the file computes, or the error. false: an error, whose text is in notes.
static bool answer(netc_context *c, const char *file, const netc_compile_options *o, float out[12])
{
    netc_program *p = NULL;
    netc_session *s = NULL;
    netc_error *err = NULL;
    netc_tensor x = {.dtype = NETC_F32, .rank = 2, .dim = {4, 2}, .data = (void *)(uintptr_t)input};
    netc_tensor y = {.dtype = NETC_F32, .rank = 2, .dim = {4, 3}, .data = out};
    notes[0] = 0;
    netc_status status = netc_compile_file(c, file, o, &p, &err);
    if (status == NETC_OK) status = netc_session_create(p, "cpu", NULL, &s, &err);
    if (status == NETC_OK) status = netc_bind(s, "m", "x", &x, &err);
    if (status == NETC_OK) status = netc_run(s, "m", 1, &err);
    if (status == NETC_OK) status = netc_read(s, "m", "y", &y, &err);
    if (status != NETC_OK) snprintf(notes, sizeof notes, "%s", netc_error_text(err));
    CHECK_MSG(status == NETC_OK || (*netc_error_text(err) && status != NETC_INTERNAL), "%s",
              netc_error_text(err));
    netc_error_free(err);
    netc_session_free(s);
    netc_program_release(p);
    return status == NETC_OK;
}

static void write_bin(const RtSection *s, int n)
{
    RtError e = {0};
    CHECK(rt_container_write(other, s, n, &e) == RT_OK);
}

int main(void)
{
    snprintf(path, sizeof path, "/tmp/netc_bin.%d", (int)getpid());
    snprintf(other, sizeof other, "%s.other", path);
    netc_context *c = context(true, false), *bare = context(false, false),
                 *alone = context(false, true);
    netc_error *err = NULL;
    netc_program *p = NULL;
    netc_session *s = NULL;
    NETC_INIT(netc_compile_options, cpu);
    cpu.target = "cpu";
    NETC_INIT(netc_session_options, so);
    so.seed = 77; // weights that no other session draws
    CHECK(netc_compile_text(c, "m.net", model, &cpu, &p, &err) == NETC_OK);
    CHECK(netc_session_create(p, "cpu", &so, &s, &err) == NETC_OK);
    CHECK(netc_program_save(p, path, NULL, s, &err) == NETC_OK);
    CHECK_MSG(!err, "%s", netc_error_text(err));
    float want[12], y[12];
    netc_tensor x = {.dtype = NETC_F32, .rank = 2, .dim = {4, 2}, .data = (void *)(uintptr_t)input};
    netc_tensor ty = {.dtype = NETC_F32, .rank = 2, .dim = {4, 3}, .data = want};
    CHECK(!netc_bind(s, "m", "x", &x, &err) && !netc_run(s, "m", 1, &err) &&
          !netc_read(s, "m", "y", &ty, &err));
    netc_session_free(s);
    netc_program_release(p);

    // As it is: nothing is started, the used file travels along, the weights too.
    CHECK(answer(alone, path, NULL, y) && !memcmp(y, want, sizeof y));
    // Its code ignored, or under another definition: compiled from the source inside.
    NETC_INIT(netc_compile_options, o);
    o.rebuild = true;
    CHECK(answer(bare, path, &o, y) && !memcmp(y, want, sizeof y));
    CHECK(!answer(alone, path, &o, y) && strstr(notes, "compiler"));
    o.rebuild = false;
    o.no_matmul_library = true;
    CHECK(answer(bare, path, &o, y));
    const char *define = "width=5";
    o.defines = &define;
    o.ndefines = 1;
    CHECK(!answer(bare, path, &o, y) && strstr(notes, "fc.weight") && strstr(notes, path));
    // Saved again without a session it keeps its weights and the used file.
    CHECK(!netc_compile_file(bare, path, NULL, &p, &err) &&
          !netc_program_save(p, other, NULL, NULL, &err));
    netc_program_release(p);
    CHECK(answer(alone, other, NULL, y) && !memcmp(y, want, sizeof y));

    Arena *a = arena_new();
    RtSection *section = NULL;
    int n = 0;
    RtError e = {0};
    CHECK(rt_container_read(a, path, &section, &n, &e) == RT_OK && n > 5);
    RtSection *copy = calloc((size_t)n + 1, sizeof *copy);
    // Made on another processor: the text inside is compiled, and that is said.
    memcpy(copy, section, (size_t)n * sizeof *copy);
    char name[128] = "";
    for (int i = 0; i < n; i++)
        if (!strncmp(section[i].name, "image cpu", 9)) {
            snprintf(name, sizeof name, "%s", section[i].name);
            name[strlen(name) - 1] ^= 1;
            copy[i].name = name;
        }
    CHECK(name[0]);
    write_bin(copy, n);
    CHECK(answer(bare, other, NULL, y) && !memcmp(y, want, sizeof y) &&
          strstr(notes, "another processor"));
    CHECK(!answer(alone, other, NULL, y));
    // Without a program for this device the source is compiled, and that is said.
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (strcmp(section[i].name, "program cpu")) copy[kept++] = section[i];
    write_bin(copy, kept);
    CHECK(answer(bare, other, NULL, y) && !memcmp(y, want, sizeof y) &&
          strstr(notes, "compiling its source"));
    // Each section left out; each one's bytes cut short and spoilt, under a checksum that fits.
    for (int i = 0; i < n; i++) {
        memcpy(copy, section, (size_t)i * sizeof *copy);
        memcpy(copy + i, section + i + 1, (size_t)(n - i - 1) * sizeof *copy);
        write_bin(copy, n - 1);
        bool ok = answer(bare, other, NULL, y);
        CHECK_MSG(
            ok == (strcmp(section[i].name, "source") && strcmp(section[i].name, "use half.net")),
            "without %s: %s", section[i].name, notes);
        // A program and its weights may be given up on, but not computed with wrongly. The object
        // is code: trusted, like any executable.
        if (!strncmp(section[i].name, "image", 5) || !strncmp(section[i].name, "weight", 6))
            continue;
        unsigned char *bytes = malloc(section[i].size + 1);
        memcpy(copy, section, (size_t)n * sizeof *copy);
        copy[i].bytes = bytes;
        size_t step = section[i].size / 40 + 1;
        for (size_t at = 0; at < section[i].size; at += step) {
            memcpy(bytes, section[i].bytes, section[i].size);
            copy[i].size = at;
            write_bin(copy, n);
            netc_program *q = NULL;
            netc_error *qe = NULL;
            netc_status status = netc_compile_file(bare, other, NULL, &q, &qe);
            CHECK_MSG(status == NETC_OK || *netc_error_text(qe), "%s cut at %zu", section[i].name,
                      at);
            netc_error_free(qe), netc_program_release(q), q = NULL, qe = NULL;
            bytes[at] ^= 0x5a;
            copy[i].size = section[i].size;
            write_bin(copy, n);
            status = netc_compile_file(bare, other, NULL, &q, &qe);
            CHECK_MSG(status == NETC_OK || *netc_error_text(qe), "%s spoilt at %zu",
                      section[i].name, at);
            netc_error_free(qe), netc_program_release(q);
        }
        free(bytes);
    }
    free(copy);
    arena_free(a);
    netc_context_free(c), netc_context_free(bare), netc_context_free(alone);
    unlink(path);
    unlink(other);
    return unit_done();
}
