// Elaboration: language tests evaluated by the reference evaluator, error tests with their
// expectations beside the line, entries and names of cells, linear time.
#include <dirent.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "ir/eval.h"
#include "tests/unit/unit.h"

static char *read_file(Arena *a, const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    Buf b = buf_new(a);
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;) buf_bytes(&b, block, n);
    fclose(f);
    *len = b.len;
    return b.data;
}

static Module *compile(Arena *a, Diags **d, const char *path, const char *text,
                       const FrontendOptions *o)
{
    *d = diags_new(a);
    return frontend_compile(a, *d, path, text, strlen(text), o);
}

static const char *rendered(Arena *a, const Diags *d)
{
    Buf b = buf_new(a);
    diags_render(d, &b, false);
    return b.data ? b.data : "";
}

// Graphs with inputs are not run here, and those with gradients need the passes.
static bool evaluates(const Graph *g)
{
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->op == OP_input || g->nodes.at[i]->op == OP_grad) return false;
    return true;
}

// -- evaluation -----------------------------------------------------------------------------------
static StrMap initial_cells(Arena *a, Module *m)
{
    StrMap cells = strmap_new(a);
    for (uint32_t i = 0; i < m->cells.n; i++) {
        const Cell *c = &m->cells.at[i];
        Value *v = NEW(a, Value);
        *v = value_new(a, &c->type);
        for (int64_t k = 0; k < type_count(&c->type); k++) {
            if (dtype_is_float(c->type.dtype))
                v->f[k] = c->initial;
            else
                v->i[k] = (int64_t)c->initial;
        }
        strmap_set(&cells, c->name, v);
    }
    EvalEnv env = {.arena = a, .inputs = strmap_new(a), .cells = cells, .round = true};
    for (uint32_t k = 0; k < m->entries.n; k++) {
        if (m->entries.at[k].kind != ENTRY_INIT || !evaluates(m->entries.at[k].graph)) continue;
        EvalResult r = {0};
        CHECK(eval_graph(m->entries.at[k].graph, &env, &r));
        for (uint32_t i = 0; i < r.assigns.n; i++)
            strmap_set(&env.cells, r.assigns.entry[i].key, r.assigns.entry[i].value);
    }
    return env.cells;
}

static void run_models(Arena *a, Module *m, const Diags *d, const char *path)
{
    StrMap cells = initial_cells(a, m);
    for (uint32_t i = 0; i < m->entries.n; i++) {
        Entry *e = &m->entries.at[i];
        if (e->kind != ENTRY_MODEL || !evaluates(e->graph)) continue;
        EvalEnv env = {.arena = a, .inputs = strmap_new(a), .cells = cells, .round = true};
        EvalResult r = {0};
        CHECK_MSG(graph_verify(e->graph, "elaborate"), "%s: %s: not a legal graph", path, e->name);
        CHECK_MSG(eval_graph(e->graph, &env, &r), "%s: %s: cannot be evaluated\n%s", path, e->name,
                  rendered(a, d));
        CHECK_MSG(!r.failed_assert, "%s: %s", loc_text(d, r.failed_assert->loc),
                  attr_str(r.failed_assert, ATTR_message));
        CHECK_MSG(!r.bad_index, "%s: index %lld", loc_text(d, r.bad_index->loc),
                  (long long)r.bad_value);
    }
}

static void language_text(Arena *a, const char *path, const char *text)
{
    Diags *d;
    Module *m = compile(a, &d, path, text, NULL);
    CHECK_MSG(m != NULL, "%s does not compile\n%s", path, rendered(a, d));
    if (m) run_models(a, m, d, path);
}

static void language_test(const char *path)
{
    Arena *a = arena_new();
    size_t len;
    language_text(a, path, read_file(a, path, &len));
    arena_free(a);
}

// -- errors ---------------------------------------------------------------------------------------
// "# error: TEXT" at the end of the line it is reported for; "# note: TEXT" anywhere.
static bool has_note(const Diags *d, const char *want)
{
    for (uint32_t i = 0; i < d->list.n; i++)
        for (uint32_t k = 0; k < d->list.at[i].notes.n; k++)
            if (strstr(d->list.at[i].notes.at[k].text, want)) return true;
    return false;
}

static bool reported(const Diags *d, const char *want, uint32_t at)
{
    for (uint32_t i = 0; i < d->list.n; i++) {
        const Diag *g = &d->list.at[i];
        uint32_t line = 0, col;
        if (g->placed) span_line_col(d, g->span, &line, &col);
        if ((line == at || !g->placed) && strstr(g->text, want)) return true;
    }
    return false;
}

static void error_text(Arena *a, const char *path, const char *text)
{
    Diags *d;
    char *copy = arena_strdup(a, text);
    Module *m = compile(a, &d, path, text, NULL);
    uint32_t line = 1, expected = 0;
    bool ok = true;
    CHECK_MSG(!m, "%s compiles but should not", path);
    for (char *at = copy; at; line++) {
        char *next = strchr(at, '\n');
        if (next) *next++ = '\0';
        char *want = strstr(at, "# error: "), *note = strstr(at, "# note: ");
        if (want) {
            bool found = reported(d, want + 9, line);
            CHECK_MSG(found, "%s:%u: not reported: %s", path, line, want + 9);
            ok &= found;
            expected++;
        }
        CHECK_MSG(!note || has_note(d, note + 8), "%s:%u: no note: %s", path, line, note + 8);
        at = next;
    }
    CHECK_MSG(d->errors == expected, "%s: %u errors expected, %u found", path, expected, d->errors);
    if (!ok || d->errors != expected) printf("%s", rendered(a, d));
}

static void error_test(const char *path)
{
    Arena *a = arena_new();
    size_t len;
    error_text(a, path, read_file(a, path, &len));
    arena_free(a);
}

// -- pages of docs/: every ```net block compiles and holds, every ```net-error block fails as it
// says ----
static void test_manual(const char *path, int least)
{
    Arena *a = arena_new();
    size_t len;
    int blocks = 0, line = 1;
    char *at = read_file(a, path, &len);
    CHECK_MSG(at != NULL, "cannot read %s", path);
    Buf block = buf_new(a);
    enum { TEXT, GOOD, BAD, OTHER } in = TEXT;
    for (int begin = 0; at && *at; line++) {
        char *next = strchr(at, '\n');
        if (next) *next++ = '\0';
        if (strncmp(at, "```", 3)) {
            if (in != TEXT) buf_printf(&block, "%s\n", at);
        } else if (in == TEXT) {
            in = !strcmp(at, "```net") ? GOOD : !strcmp(at, "```net-error") ? BAD : OTHER;
            block = buf_new(a);
            begin = line;
        } else {
            const char *name = arena_printf(a, "%s:%d", path, begin);
            if (in == GOOD) language_text(a, name, block.data);
            if (in == BAD) error_text(a, name, block.data);
            blocks += in != OTHER;
            in = TEXT;
        }
        at = next;
    }
    CHECK_MSG(blocks >= least, "%s has %d blocks", path, blocks);
    arena_free(a);
}

static int by_name(const void *x, const void *y)
{
    return strcmp(*(char *const *)x, *(char *const *)y);
}

static void each_file(const char *dir, void (*test)(const char *path))
{
    DIR *at = opendir(dir);
    char *names[512];
    int n = 0;
    CHECK_MSG(at != NULL, "cannot open %s", dir);
    if (!at) return;
    for (struct dirent *f; (f = readdir(at)) && n < 512;)
        if (strstr(f->d_name, ".net")) names[n++] = strdup(f->d_name);
    closedir(at);
    qsort(names, (size_t)n, sizeof *names, by_name);
    CHECK_MSG(n > 0, "%s holds no tests", dir);
    for (int i = 0; i < n; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        test(path);
        free(names[i]);
    }
}

// -- entries, cells, options ----------------------------------------------------------------------
static int count_op(const Graph *g, Op op)
{
    int n = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++) n += g->nodes.at[i]->op == op;
    return n;
}

static const Node *root_named(const Graph *g, Op op, const char *name)
{
    for (uint32_t i = 0; i < g->roots.n; i++) {
        const char *s = attr_str(g->roots.at[i], ATTR_name);
        if (g->roots.at[i]->op == op && s && !strcmp(s, name)) return g->roots.at[i];
    }
    return NULL;
}

static void test_mlp(void)
{
    Arena *a = arena_new();
    Diags *d;
    size_t len;
    char *text = read_file(a, "samples/mnist/mlp.net", &len);
    Define hidden = {"hidden", "64", false}, batch = {"batch", "32", true};
    Define defs[] = {hidden, batch};
    FrontendOptions o = {.defines = defs, .ndefines = 2};
    Module *m = compile(a, &d, "samples/mnist/mlp.net", text, &o);
    CHECK_MSG(m != NULL, "%s", rendered(a, d));
    if (!m) return;
    CHECK(m->entries.n == 4 && !strcmp(m->entries.at[0].name, "init"));
    Entry *train = module_entry(m, "train"), *eval = module_entry(m, "eval");
    CHECK(train && train->kind == ENTRY_TRAIN && train->rows && train->batch == 32);
    CHECK(eval && eval->rows && !strcmp(eval->cursor, CELL_EVAL_CURSOR));
    CHECK(module_cell(m, "fc1.weight")->type.dim[0] == 64);
    CHECK(module_cell(m, "fc2.bias.v") && module_cell(m, "fc2.bias.v")->kind == CELL_STATE);
    CHECK(m->cells.at[3].kind == CELL_PARAM && m->cells.at[4].kind != CELL_PARAM);
    CHECK(count_op(train->graph, OP_grad) == 4);
    CHECK(root_named(train->graph, OP_output, "loss") != NULL);
    CHECK(!root_named(train->graph, OP_output, "logits"));
    CHECK(root_named(eval->graph, OP_output, "logits") != NULL);
    CHECK(root_named(train->graph, OP_assign, "@sum.train.accuracy") != NULL);
    CHECK(root_named(train->graph, OP_assign, "@step") != NULL);
    CHECK(root_named(train->graph, OP_assert, "x") == NULL &&
          count_op(train->graph, OP_assert) == 1);
    CHECK(count_op(module_entry(m, "mlp")->graph, OP_assign) == 0);
    // Only what is asked for.
    const char *only[] = {"mlp"};
    FrontendOptions one = {.entries = only, .nentries = 1};
    m = compile(a, &d, "samples/mnist/mlp.net", text, &one);
    CHECK(m && m->entries.n == 1 && !module_cell(m, "fc1.weight.m"));
    FileDecls *decls = frontend_decls(a, diags_new(a), "mlp.net", text, len, NULL);
    CHECK(decls && decls->inputs.n == 2 && !strcmp(decls->trains, "mlp"));
    CHECK(decls && !strcmp(decls->inputs.at[0].dim_name[0], "batch") &&
          decls->inputs.at[0].dim[1] == 28 && decls->inputs.at[1].high == 10);
    arena_free(a);
}

// The text form of a module compiles back to equal graphs and equal cells.
static void round_trip(const char *path)
{
    Arena *a = arena_new();
    Diags *d, *again;
    size_t len;
    Module *m = compile(a, &d, path, read_file(a, path, &len), NULL);
    CHECK_MSG(m != NULL, "%s\n%s", path, rendered(a, d));
    if (!m) return;
    Buf b = buf_new(a);
    module_print(m, "elaborate", &b);
    Module *back = compile(a, &again, "dump.net", b.data, NULL);
    CHECK_MSG(back != NULL, "%s: its dump: %s", path, rendered(a, again));
    CHECK(back && back->entries.n == m->entries.n && back->cells.n == m->cells.n);
    for (uint32_t i = 0; back && i < m->entries.n && i < back->entries.n; i++)
        CHECK_MSG(graph_equal(m->entries.at[i].graph, back->entries.at[i].graph),
                  "%s: entry %s is another after reading its dump", path, m->entries.at[i].name);
    arena_free(a);
}

static void test_round_trips(void)
{
    glob_t samples;
    CHECK(!glob("samples/*/*.net", 0, NULL, &samples));
    for (size_t i = 0; i < samples.gl_pathc; i++) round_trip(samples.gl_pathv[i]);
    globfree(&samples);
    round_trip("tests/net/lang/loops.net");
    round_trip("tests/net/lang/tensors.net");
}

// `use` of a user's file, through the host's resolver; names by file.
static const char *resolve_parts(void *ctx, Arena *a, const char *from, const char *name,
                                 size_t *len, const char **path)
{
    static const char text[] = "const two = 2\nfn relu(x) { return maximum(x, two) }\n";
    (void)ctx, (void)a, (void)from;
    if (strcmp(name, "parts.net")) return NULL;
    *path = "parts.net";
    *len = sizeof text - 1;
    return text;
}

static void test_use(void)
{
    Arena *a = arena_new();
    Diags *d;
    FrontendOptions o = {.resolve = resolve_parts};
    Module *m = compile(a, &d, "t.net",
                        "use nn\nuse parts\n"
                        "model m() {\n"
                        "    assert all(parts.relu(zeros([2])) == two), \"the user's\"\n"
                        "    assert all(nn.relu(zeros([2])) == 0), \"the library's\"\n"
                        "    return ones([2])\n}\n",
                        &o);
    CHECK_MSG(m != NULL, "%s", rendered(a, d));
    if (m) run_models(a, m, d, "use");
    m = compile(a, &d, "t.net", "use nn\nuse parts\nmodel m() { return relu(ones([2])) }\n", &o);
    CHECK(!m && strstr(rendered(a, d), "defined by both 'nn' and 'parts'"));
    m = compile(a, &d, "t.net", "use \"none.net\"\nmodel m() { return ones([2]) }\n", &o);
    CHECK(!m && strstr(rendered(a, d), "cannot read 'none.net'"));
    arena_free(a);
}

static void define_error(const char *name, const char *value, const char *want)
{
    Arena *a = arena_new();
    Diags *d;
    Define def = {name, value, false};
    FrontendOptions o = {.defines = &def, .ndefines = 1};
    Module *m = compile(a, &d, "t.net",
                        "const width = 3\ndim batch = 2\n"
                        "model m(x: f32[batch, width]) { return x }\n",
                        &o);
    CHECK_MSG(!m && strstr(rendered(a, d), want), "-D %s=%s: wanted: %s\n%s", name, value, want,
              rendered(a, d));
    arena_free(a);
}

static void test_defines(void)
{
    define_error("widht", "4", "did you mean 'width'?");
    define_error("width", "0", "a size must be positive");
    define_error("batch", "-1", "a dimension must be a positive integer");
    define_error("batch", "4611686018427387904", "too large");
    define_error("width", "1 +", "error");
}

// Many statements: what walked the graph once for each of them would not end.
static void test_deep(int n)
{
    Arena *a = arena_new();
    Buf b = buf_new(a);
    buf_printf(&b, "model deep(x: f32[4]) {\n");
    for (int i = 0; i < n; i++) buf_printf(&b, "    x = sin(x) + x\n");
    buf_printf(&b, "    for i in 0..%d { x = cos(x) * x }\n    return x\n}\n", n);
    Diags *d = diags_new(a);
    Module *m = frontend_compile(a, d, "deep.net", b.data, b.len, NULL);
    CHECK_MSG(m && module_entry(m, "deep")->graph->nodes.n >= 4u * (unsigned)n, "%s",
              rendered(a, d));
    arena_free(a);
}

// The limit on what elaboration takes is about elaboration, not about what the arena held before.
static void test_full_arena(void)
{
    Arena *a = arena_new();
    Diags *d;
    arena_alloc(a, (size_t)3 << 29);
    Module *m = compile(a, &d, "small.net", "model m(x: f32[3]) { return y = x * 2 }", NULL);
    CHECK_MSG(m && !d->errors, "%s", rendered(a, d));
    arena_free(a);
}

int main(void)
{
    each_file("tests/net/lang", language_test);
    each_file("tests/net/errors", error_test);
    test_manual("docs/language.md", 25);
    test_manual("docs/library.md", 5);
    test_manual("docs/data.md", 1);
    test_mlp();
    test_defines();
    test_use();
    test_round_trips();
    test_full_arena();
    test_deep(50000);
    return unit_done();
}
