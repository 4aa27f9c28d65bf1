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

typedef struct Bin {
    netc_context *whole, *bare, *alone; // finds used files; does not; and starts no program either
    float want[12];                     // what the model computes
    RtSection *section, *copy;          // of the file; room for as many
    int n;
} Bin;

// Writes the file, with weights that no other session draws.
static void save_model(Bin *b)
{
    netc_error *err = NULL;
    netc_program *p = NULL;
    netc_session *s = NULL;
    NETC_INIT(netc_compile_options, cpu);
    cpu.target = "cpu";
    NETC_INIT(netc_session_options, so);
    so.seed = 77;
    CHECK(netc_compile_text(b->whole, "m.net", model, &cpu, &p, &err) == NETC_OK);
    CHECK(netc_session_create(p, "cpu", &so, &s, &err) == NETC_OK);
    CHECK(netc_program_save(p, path, NULL, s, &err) == NETC_OK);
    CHECK(netc_program_save(p, "other.net", NULL, s, &err) == NETC_INVALID &&
          strstr(netc_error_text(err), "name it .bin"));
    netc_error_free(err);
    err = NULL;
    CHECK_MSG(!err, "%s", netc_error_text(err));
    netc_tensor x = {.dtype = NETC_F32, .rank = 2, .dim = {4, 2}, .data = (void *)(uintptr_t)input};
    netc_tensor y = {.dtype = NETC_F32, .rank = 2, .dim = {4, 3}, .data = b->want};
    CHECK(!netc_bind(s, "m", "x", &x, &err) && !netc_run(s, "m", 1, &err) &&
          !netc_read(s, "m", "y", &y, &err));
    netc_session_free(s);
    netc_program_release(p);
}

static bool right(const Bin *b, netc_context *c, const char *file, const netc_compile_options *o)
{
    float y[12];
    return answer(c, file, o, y) && !memcmp(y, b->want, sizeof y);
}

static void loads(const Bin *b)
{
    netc_error *err = NULL;
    netc_program *p = NULL;
    float y[12];
    // As it is: nothing is started, the used file travels along, the weights too.
    CHECK(right(b, b->alone, path, NULL));
    // Its code ignored, or under another definition: compiled from the source inside.
    NETC_INIT(netc_compile_options, o);
    o.rebuild = true;
    CHECK(right(b, b->bare, path, &o));
    CHECK(!answer(b->alone, path, &o, y) && strstr(notes, "compiler"));
    o.rebuild = false;
    o.no_matmul_library = true;
    CHECK(answer(b->bare, path, &o, y));
    const char *define = "width=5";
    o.defines = &define;
    o.ndefines = 1;
    CHECK(!answer(b->bare, path, &o, y) && strstr(notes, "fc.weight") && strstr(notes, path));
    // Saved again without a session it keeps its weights and the used file.
    CHECK(!netc_compile_file(b->bare, path, NULL, &p, &err) &&
          !netc_program_save(p, other, NULL, NULL, &err));
    netc_program_release(p);
    CHECK(right(b, b->alone, other, NULL));
}

// Sections that say they are of further batches, and are of none, or of nothing.
static void other_batches(Bin *b)
{
    static const char *const names[] = {"program cpu batch=1", "program cpu ", "program cpu x",
                                        "program cpu batch=", "program cpuX"};
    const char *define = "batch=1";
    NETC_INIT(netc_compile_options, o);
    o.defines = &define;
    o.ndefines = 1;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (int both = 0; both < 2; both++) {
            float y[12];
            int n = 0;
            for (int i = 0; i < b->n; i++) {
                bool program = !strcmp(b->section[i].name, "program cpu");
                if (!program || both) b->copy[n++] = b->section[i];
                if (program) b->copy[n] = b->section[i], b->copy[n++].name = names[k];
            }
            write_bin(b->copy, n);
            if (both)
                CHECK(right(b, b->bare, other, NULL));
            else
                answer(b->bare, other, NULL, y);
            answer(b->bare, other, &o, y); // (or an error: one that says so)
        }
}

static int images_of(const char *target)
{
    char name[32];
    Arena *a = arena_new();
    RtSection *s = NULL;
    RtError e = {0};
    int n = 0, found = 0;
    CHECK(rt_container_read(a, other, &s, &n, &e) == RT_OK);
    snprintf(name, sizeof name, "image %s ", target);
    for (int i = 0; i < n; i++) found += !strncmp(s[i].name, name, strlen(name));
    arena_free(a);
    return found;
}

// A program that has code of one architecture is compiled for another that is asked for.
static void other_architecture(const Bin *b)
{
    netc_program *p = NULL;
    NETC_INIT(netc_compile_options, o);
    o.target = "cuda";
    CHECK(netc_compile_text(b->whole, "m.net", model, &o, &p, NULL) == NETC_OK);
    if (netc_program_save(p, other, "sm_90", NULL, NULL) == NETC_OK) {
        int n = images_of("sm_90");
        CHECK(n > 0 && !images_of("sm_80"));
        CHECK(netc_program_save(p, other, "sm_90,sm_80", NULL, NULL) == NETC_OK);
        CHECK(images_of("sm_90") == n && images_of("sm_80") == n);
    } else {
        printf("skipped: no NVRTC\n");
    }
    netc_program_release(p);
}

// Made on another processor: the text inside is compiled, and that is said.
static void other_processor(Bin *b)
{
    float y[12];
    char name[128] = "";
    memcpy(b->copy, b->section, (size_t)b->n * sizeof *b->copy);
    for (int i = 0; i < b->n; i++)
        if (!strncmp(b->section[i].name, "image cpu", 9)) {
            snprintf(name, sizeof name, "%s", b->section[i].name);
            name[strlen(name) - 1] ^= 1;
            b->copy[i].name = name;
        }
    CHECK(name[0]);
    write_bin(b->copy, b->n);
    CHECK(right(b, b->bare, other, NULL) && strstr(notes, "another processor"));
    CHECK(!answer(b->alone, other, NULL, y));
}

// Without a program for this device the source is compiled, and that is said.
static void other_device(Bin *b)
{
    int kept = 0;
    memcpy(b->copy, b->section, (size_t)b->n * sizeof *b->copy);
    for (int i = 0; i < b->n; i++)
        if (strcmp(b->section[i].name, "program cpu")) b->copy[kept++] = b->section[i];
    write_bin(b->copy, kept);
    CHECK(right(b, b->bare, other, NULL) && strstr(notes, "compiling its source"));
}

static void left_out(Bin *b, int i)
{
    float y[12];
    const char *name = b->section[i].name;
    memcpy(b->copy, b->section, (size_t)i * sizeof *b->copy);
    memcpy(b->copy + i, b->section + i + 1, (size_t)(b->n - i - 1) * sizeof *b->copy);
    write_bin(b->copy, b->n - 1);
    bool ok = answer(b->bare, other, NULL, y);
    CHECK_MSG(ok == (strcmp(name, "source") && strcmp(name, "use half.net")), "without %s: %s",
              name, notes);
}

static void loads_or_says_why(const Bin *b, const char *section, const char *how, size_t at)
{
    netc_program *p = NULL;
    netc_error *err = NULL;
    write_bin(b->copy, b->n);
    netc_status status = netc_compile_file(b->bare, other, NULL, &p, &err);
    CHECK_MSG(status == NETC_OK || *netc_error_text(err), "%s %s at %zu", section, how, at);
    netc_error_free(err);
    netc_program_release(p);
}

// Its bytes cut short and spoilt, under a checksum that fits.
static void spoilt(Bin *b, int i)
{
    const RtSection *s = &b->section[i];
    unsigned char *bytes = malloc(s->size + 1);
    memcpy(b->copy, b->section, (size_t)b->n * sizeof *b->copy);
    b->copy[i].bytes = bytes;
    for (size_t at = 0; at < s->size; at += s->size / 40 + 1) {
        memcpy(bytes, s->bytes, s->size);
        b->copy[i].size = at;
        loads_or_says_why(b, s->name, "cut", at);
        bytes[at] ^= 0x5a;
        b->copy[i].size = s->size;
        loads_or_says_why(b, s->name, "spoilt", at);
    }
    free(bytes);
}

int main(void)
{
    Bin b = {.whole = context(true, false),
             .bare = context(false, false),
             .alone = context(false, true)};
    Arena *a = arena_new();
    RtError e = {0};
    snprintf(path, sizeof path, "/tmp/netc_bin.%d", (int)getpid());
    snprintf(other, sizeof other, "%s.other", path);
    save_model(&b);
    loads(&b);
    CHECK(rt_container_read(a, path, &b.section, &b.n, &e) == RT_OK && b.n > 5);
    b.copy = calloc((size_t)b.n + 1, sizeof *b.copy);
    other_processor(&b);
    other_device(&b);
    other_batches(&b);
    other_architecture(&b);
    for (int i = 0; i < b.n; i++) {
        const char *name = b.section[i].name;
        left_out(&b, i);
        // A program and its weights may be given up on, but not computed with wrongly. The object
        // is code: trusted, like any executable.
        if (strncmp(name, "image", 5) && strncmp(name, "weight", 6)) spoilt(&b, i);
    }
    free(b.copy);
    arena_free(a);
    netc_context_free(b.whole), netc_context_free(b.bare), netc_context_free(b.alone);
    unlink(path);
    unlink(other);
    return unit_done();
}
