// .net text -> Module: loads the file and the files it uses, binds -D and data, elaborates the
// entries.
#include "frontend/frontend.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/embedded.h"
#include "frontend/elab_survey.h"
#include "frontend/read_graph.h"
#include "base/names.h"

enum { MAX_SOURCE = 1 << 28 };

// -- files ----------------------------------------------------------------------------------------
static const EmbeddedFile *std_file(const char *name)
{
    for (const EmbeddedFile *f = std_files; f->name; f++) {
        size_t n = strlen(name);
        if (!strncmp(f->name, name, n) && !strcmp(f->name + n, ".net")) return f;
    }
    return NULL;
}

static void add_global(Elab *e, EFile *f, const Stmt *s)
{
    Span span = s->name_span.end ? s->name_span : s->span;
    Global *known = strmap_get(&f->globals, s->name);
    if (known) {
        Diag *d = diag_span(e->diags, span, "'%s' is defined twice", s->name);
        diag_note_span(e->diags, d,
                       known->stmt->name_span.end ? known->stmt->name_span : known->stmt->span,
                       "first here");
        return;
    }
    if (s->kind == STMT_MODEL &&
        (!strcmp(s->name, "init") || !strcmp(s->name, "train") || !strcmp(s->name, "eval"))) {
        diag_span(e->diags, span, "no model can be named '%s': it is an entry of every file",
                  s->name);
        return;
    }
    Global *g = NEW(e->arena, Global);
    g->stmt = s;
    g->file = f;
    strmap_set(&f->globals, s->name, g);
    if (s->kind == STMT_DIM) sym_of(e, s->name);
}

static EFile *load_text(Elab *e, const char *name, const char *path, const char *text, size_t len,
                        bool library);

// Reads a user's file from the folder of the file that uses it.
static const char *read_beside(Arena *a, const char *from, const char *name, size_t *len,
                               const char **path)
{
    const char *slash = strrchr(from, '/');
    if (name[0] == '/' || !slash)
        *path = arena_strdup(a, name);
    else
        *path = arena_printf(a, "%.*s/%s", (int)(slash - from), from, name);
    struct stat st;
    int fd = open(*path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); // (not to wait for a pipe's writer)
    FILE *f = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) ? fdopen(fd, "rb") : NULL;
    if (!f) {
        if (fd >= 0) close(fd);
        return NULL;
    }
    Buf b = buf_new(a);
    char block[65536];
    size_t n;
    while ((n = fread(block, 1, sizeof block, f)) > 0 && b.len < MAX_SOURCE)
        buf_bytes(&b, block, n);
    bool bad = ferror(f) || b.len >= MAX_SOURCE;
    fclose(f);
    if (bad) return NULL;
    *len = b.len;
    return b.data ? b.data : "";
}

const char *file_text(Elab *e, const EFile *from, const char *name, size_t *len, const char **path)
{
    const char *here = e->diags->sources.at[from->ast->source].path;
    return e->options->resolve
               ? e->options->resolve(e->options->resolve_ctx, e->arena, here, name, len, path)
               : read_beside(e->arena, here, name, len, path);
}

static EFile *load_used(Elab *e, const EFile *from, const Stmt *s)
{
    if (!*s->name && e->diags->errors) return NULL; // a string without an end, which was reported
    const EmbeddedFile *std = s->flag ? NULL : std_file(s->name);
    if (std) {
        const char *path = arena_printf(e->arena, "std/%s", std->name);
        EFile *known = strmap_get(&e->by_path, path);
        return known ? known : load_text(e, s->name, path, std->text, std->len, true);
    }
    const char *path = NULL, *file = s->name;
    size_t n = strlen(file), len = 0;
    if (!s->flag && (n < 4 || strcmp(file + n - 4, ".net")))
        file = arena_printf(e->arena, "%s.net", file);
    const char *text = file_text(e, from, file, &len, &path);
    Span span = s->name_span.end ? s->name_span : s->span;
    if (!text) {
        const char *names[64];
        size_t count = 0;
        for (const EmbeddedFile *f = std_files; f->name && count < 64; f++)
            names[count++] = arena_strndup(e->arena, f->name, strlen(f->name) - 4);
        Diag *d = diag_span(e->diags, span, "cannot read '%s'%s", path ? path : file,
                            advise_near(s->name, names, count).text);
        if (!s->flag)
            diag_note(e->diags, d, "it is neither in the standard library nor beside this file%s",
                      advise("", names, count).text);
        return NULL;
    }
    if (!path) path = file;
    EFile *known = strmap_get(&e->by_path, path);
    if (known) return known;
    const char *base = strrchr(file, '/');
    base = base ? base + 1 : file;
    n = strlen(base);
    if (n > 4 && !strcmp(base + n - 4, ".net")) n -= 4;
    return load_text(e, arena_strndup(e->arena, base, n), path, text, len, false);
}

static EFile *load_text(Elab *e, const char *name, const char *path, const char *text, size_t len,
                        bool library)
{
    EFile *f = NEW(e->arena, EFile);
    f->name = name;
    f->library = library;
    f->globals = strmap_new(e->arena);
    strmap_set(&e->by_path, arena_strdup(e->arena, path), f);
    vec_push(e->arena, &e->files, f);
    f->ast = parse_source(e->arena, e->diags, source_add(e->diags, path, text, len, library));
    for (uint32_t i = 0; i < f->ast->stmts.n; i++) {
        const Stmt *s = f->ast->stmts.at[i];
        switch (s->kind) {
        case STMT_USE: {
            EFile *u = load_used(e, f, s);
            if (u && u != f) vec_push(e->arena, &f->uses, u);
            break;
        }
        case STMT_CONST:
        case STMT_DIM:
        case STMT_SETTING:
        case STMT_FN:
        case STMT_MODEL: add_global(e, f, s); break;
        default: break;
        }
    }
    return f;
}

// -- -D and data ----------------------------------------------------------------------------------
// The const, dim or setting of that name in the file or in one that it uses. NULL: there is none;
// then *advice suggests another name.
static Global *find_defined(Elab *e, const char *name, Advice *advice)
{
    VEC(const char *) names = {0};
    Global *found = NULL;
    for (uint32_t i = 0; i < e->files.n; i++) {
        EFile *f = e->files.at[i];
        if (f->library) continue;
        for (uint32_t k = 0; k < f->globals.n; k++) {
            Global *g = f->globals.entry[k].value;
            if (g->stmt->kind != STMT_DIM && g->stmt->kind != STMT_CONST &&
                g->stmt->kind != STMT_SETTING)
                continue;
            vec_push(e->arena, &names, g->stmt->name);
            if (!strcmp(g->stmt->name, name)) found = g;
        }
    }
    if (!found) *advice = advise(name, names.at, names.n);
    return found;
}

static bool define_value(Elab *e, const Define *d, const Global *g, Val *out)
{
    char *text = arena_printf(e->arena, "const %s = %s\n", d->name, d->value);
    uint32_t errors = e->diags->errors;
    uint32_t source =
        source_add(e->diags, d->from_data ? "(data)" : "(command line)", text, strlen(text), false);
    File *f = parse_source(e->arena, e->diags, source);
    if (e->diags->errors != errors) return false;
    if (f->stmts.n != 1 || f->stmts.at[0]->kind != STMT_CONST) {
        diag_error(e->diags, 0, "-D %s=%s: the value must be one expression", d->name, d->value);
        return false;
    }
    Frame frame = {.name = "-D", .file = e->files.at[0], .id = ++e->frames};
    frame.vars = strmap_new(e->arena);
    frame.scope = scope_child(e, NULL, "", false);
    e->frame = &frame;
    e->root = e->g = e->init;
    *out = eval(e, f->stmts.at[0]->expr);
    e->frame = NULL;
    if (e->diags->errors != errors && g->stmt->expr && g->stmt->expr->kind == EXPR_STRING)
        diag_note(e->diags, &e->diags->list.at[e->diags->list.n - 1],
                  "a string needs quotes, protected from the shell by others: -D '%s=\"%s\"'",
                  d->name, d->value);
    return true;
}

static void define(Elab *e, const Define *d)
{
    Advice advice;
    if (!*d->name) {
        diag_error(e->diags, 0, "-D needs NAME=VALUE, not '=%s'", d->value);
        return;
    }
    if (!d->value[strspn(d->value, " \t")]) {
        diag_error(e->diags, 0, "-D %s= has no value: write -D %s=VALUE", d->name, d->name);
        return;
    }
    const Global *g = find_defined(e, d->name, &advice);
    if (!g) {
        if (d->from_data) return;
        diag_error(e->diags, 0, "-D %s: %s has no const, dim or setting of that name%s", d->name,
                   e->files.at[0]->name, advice.text);
        return;
    }
    if (d->from_data && strmap_has(&e->define_used, d->name)) return; // -D takes precedence
    Val *v = NEW(e->arena, Val);
    if (!define_value(e, d, g, v)) return;
    strmap_set(&e->defines, d->name, v);
    if (!d->from_data) strmap_set(&e->define_used, d->name, v);
}

static const char *base_name(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    return text_on_one_line(a, base, dot && dot != base ? (size_t)(dot - base) : strlen(base));
}

// Creates the elaborator and reads the file and all files that it uses.
static Elab *elab_load(Arena *a, Diags *d, const char *path, const char *text, size_t len,
                       const FrontendOptions *o)
{
    static const FrontendOptions none = {0};
    Elab *e = NEW(a, Elab);
    e->before = arena_bytes(a);
    e->arena = a;
    e->stack = __builtin_frame_address(0);
    e->diags = d;
    e->options = o ? o : &none;
    e->module = module_new(a, d, base_name(a, path));
    e->by_path = strmap_new(a);
    e->builtins = strmap_new(a);
    e->defines = strmap_new(a);
    e->define_used = strmap_new(a);
    e->sym_index = strmap_new(a);
    e->dims = strmap_new(a);
    e->cells = strmap_new(a);
    e->sites = strmap_new(a);
    e->texts = strmap_new(a);
    e->std_names = idmap_new(a);
    e->checked = idmap_new(a);
    load_text(e, e->module->name, path, text, len, false);
    const EmbeddedFile *core = std_file("core");
    if (core && !is_graph_dump(e->files.at[0]->ast)) {
        EFile *known = strmap_get(&e->by_path, "std/core.net");
        e->core = known ? known : load_text(e, "core", "std/core.net", core->text, core->len, true);
    }
    return e;
}

static bool elab_begin(Elab *e)
{
    Diags *d = e->diags;
    if (d->errors) return false;
    e->init = elab_graph(e);
    e->g = e->root = e->init;
    for (int from_data = 0; from_data < 2; from_data++)
        for (uint32_t i = 0; i < e->options->ndefines; i++)
            if (e->options->defines[i].from_data == from_data) define(e, &e->options->defines[i]);
    return !d->errors;
}

static Elab *elab_new(Arena *a, Diags *d, const char *path, const char *text, size_t len,
                      const FrontendOptions *o)
{
    Elab *e = elab_load(a, d, path, text, len, o);
    return elab_begin(e) ? e : NULL;
}

Module *frontend_compile(Arena *a, Diags *d, const char *path, const char *text, size_t len,
                         const FrontendOptions *o)
{
    Elab *e = elab_new(a, d, path, text, len, o);
    if (!e) return NULL;
    Module *m = e->module;
    if (is_graph_dump(e->files.at[0]->ast))
        m = read_module(a, d, e->files.at[0]->ast);
    else
        entries_elaborate(e);
    if (!m || d->errors) return NULL;
    if (e->options->nentries) module_keep(m, e->options->entries, e->options->nentries);
    return m;
}

// -- surveys --------------------------------------------------------------------------------------
static void survey_interface(Survey *s, const Module *m)
{
    for (uint32_t i = 0; i < m->cells.n; i++) vec_push(s->arena, &s->names, m->cells.at[i].name);
    for (uint32_t i = 0; i < m->entries.n; i++) {
        const Graph *g = m->entries.at[i].graph;
        for (uint32_t k = 0; k < g->roots.n; k++) {
            const char *name = attr_str(g->roots.at[k], ATTR_name);
            if (name && g->roots.at[k]->op == OP_output)
                vec_push(s->arena, &s->names,
                         arena_printf(s->arena, "%s -> %s", m->entries.at[i].name, name));
        }
    }
}

// Whether the file has models. A file with functions only is meant to be used by others.
static bool has_entries(const File *f)
{
    for (uint32_t i = 0; i < f->stmts.n; i++)
        if (f->stmts.at[i]->kind == STMT_MODEL || f->stmts.at[i]->kind == STMT_TRAIN) return true;
    return false;
}

Survey *frontend_survey(Arena *a, Diags *d, const char *path, const char *text, size_t len,
                        const FrontendOptions *o)
{
    Survey *s = NEW(a, Survey);
    FrontendOptions options = *o;
    s->arena = a;
    s->diags = d;
    s->seen_at = idmap_new(a);
    s->decl_at = idmap_new(a);
    options.survey = s;
    Elab *e = elab_load(a, d, path, text, len, &options);
    EFile *main = e->files.at[0];
    s->source = main->ast->source;
    Diags quiet = *d; // these errors were reported already
    memset(&quiet.list, 0, sizeof quiet.list);
    scan_source(a, &quiet, s->source, &s->tokens);
    if (is_graph_dump(main->ast)) {
        if (!d->errors) s->elaborated = read_module(a, d, main->ast) != NULL;
        return s;
    }
    survey_names(e, s);
    if (!elab_begin(e)) return s;
    if (has_entries(main->ast)) entries_elaborate(e);
    s->elaborated = !d->errors;
    if (s->elaborated) survey_interface(s, e->module);
    return s;
}

// -- declarations ---------------------------------------------------------------------------------
// Expressions at the top level are evaluated in a frame of their own, and a dimension without a
// value is no error.
static void begin_questions(Elab *e, Frame *frame)
{
    *frame = (Frame){.name = "", .file = e->files.at[0], .id = ++e->frames};
    frame->vars = strmap_new(e->arena);
    frame->scope = scope_child(e, NULL, "", false);
    e->frame = frame;
    e->allow_unbound = true;
}

static void declare_input(Elab *e, EFile *f, const Stmt *model, const Param *p, FileDecls *out)
{
    InputDecl in = {.model = model->name, .name = p->name, .span = p->span};
    if (!p->type || !p->type->dtype) return; // reported when the model is elaborated
    if (!eval_dtype(e, p->type, &in.dtype)) return;
    for (uint32_t i = 0; i < p->type->dims.n && in.rank < MAX_RANK; i++) {
        const Expr *x = p->type->dims.at[i];
        Val v = eval_size(e, x);
        Global *g = x->kind == EXPR_NAME ? global_find(e, f, x->text, x->span, false) : NULL;
        uint32_t n = 1;
        bool many = seq_length(&v, &n);
        for (uint32_t k = 0; k < n && in.rank < MAX_RANK; k++) {
            Val item = many ? seq_item(e, &v, k) : v;
            in.dim_name[in.rank] = g && g->stmt->kind == STMT_DIM ? x->text : NULL;
            in.dim[in.rank++] = item.kind == V_INT ? item.i : -1;
        }
    }
    if (p->type->low) {
        ModelInput range = {.type = {.dtype = in.dtype}};
        in.has_range = input_range(e, p, &range);
        in.low = range.low;
        in.high = range.high;
    }
    vec_push(e->arena, &out->inputs, in);
}

// For a dump: adds an entry to the declarations, as a train block or a model would.
static void declare_entry(Arena *a, const char *name, FileDecls *out)
{
    if (!strcmp(name, "train")) out->trains = name;
    if (strcmp(name, "init") && strncmp(name, "init.", 5) &&
        strncmp(name, ENTRY_PREPARE_PREFIX, strlen(ENTRY_PREPARE_PREFIX)) &&
        strcmp(name, "train") && strcmp(name, "eval"))
        vec_push(a, &out->models, name);
}

FileDecls *frontend_decls(Arena *a, Diags *d, const char *path, const char *text, size_t len,
                          const FrontendOptions *o)
{
    Elab *e = elab_new(a, d, path, text, len, o);
    if (!e) return NULL;
    FileDecls *out = NEW(a, FileDecls);
    EFile *main = e->files.at[0];
    TrainProgram program;
    Frame frame;
    if (!program_choose(e, &program)) return NULL;
    if (program.train) {
        out->trains = program.model->name;
        out->averaged = program_evaluate(program.train);
    }
    begin_questions(e, &frame);
    for (uint32_t i = 0; i < main->ast->stmts.n; i++) {
        const Stmt *s = main->ast->stmts.at[i];
        switch (s->kind) {
        case STMT_MODEL:
            vec_push(a, &out->models, s->name);
            for (uint32_t k = 0; k < s->params.n; k++)
                declare_input(e, main, s, &s->params.at[k], out);
            break;
        case STMT_ENTRY: declare_entry(a, s->name, out); break;
        case STMT_TRAIN: vec_push(a, &out->programs, s->program); break;
        case STMT_DIM: vec_push(a, &out->dims, s->name); break;
        case STMT_CONST: vec_push(a, &out->consts, s->name); break;
        case STMT_SETTING: vec_push(a, &out->settings, s->name); break;
        default: break;
        }
    }
    e->frame = NULL;
    return d->errors ? NULL : out;
}

// -- the same values ------------------------------------------------------------------------------
// Whether replacing one value by the other changes no result. 1 differs from 1.0, and 0.0 from
// -0.0.
static bool same_value(const Val *a, const Val *b)
{
    if (a->kind != b->kind) return false;
    if (a->kind == V_FLOAT) return !memcmp(&a->f, &b->f, sizeof a->f);
    if (a->kind != V_LIST && a->kind != V_TUPLE) return val_equal(a, b);
    if (a->seq->n != b->seq->n) return false;
    for (uint32_t i = 0; i < a->seq->n; i++)
        if (!same_value(&a->seq->at[i], &b->seq->at[i])) return false;
    return true;
}

static bool redefines(Elab *e, const Define *d)
{
    Advice unused;
    Global *g = find_defined(e, d->name, &unused);
    Val now, then;
    double x, y;
    if (!g || !define_value(e, d, g, &then)) return true;
    Frame frame;
    begin_questions(e, &frame);
    const Val *given = strmap_get(&e->defines, d->name);
    bool setting = g->stmt->kind == STMT_SETTING;
    now = !setting ? global_value(e, g, g->stmt->span) : given ? *given : eval(e, g->stmt->expr);
    e->frame = NULL;
    if (setting && val_number(&now, &x) && val_number(&then, &y)) return memcmp(&x, &y, sizeof x);
    return !same_value(&now, &then);
}

bool frontend_redefines(Arena *a, const char *path, const char *text, size_t len,
                        const FrontendOptions *o, const Define *more, uint32_t n)
{
    Diags *d = diags_new(a);
    Elab *e = elab_new(a, d, path, text, len, o);
    bool differ = !e;
    for (uint32_t i = 0; i < n && !differ; i++) differ = redefines(e, &more[i]);
    return differ || d->errors;
}
