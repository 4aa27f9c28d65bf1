// Reads checkpoints: a session's parameters, states and settings from safetensors; the step, the
// seed and the choices are in the metadata.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"
#include "lib/lib.h"

bool state_is_saved(const ProgCell *c)
{
    return c->kind == PC_PARAM || c->kind == PC_STATE || c->kind == PC_SETTING;
}

// Whether it is a state that netc adds for loss scaling: checkpoints of other precisions do not
// have it.
static bool own_state(const ProgCell *c)
{
    return c->kind == PC_STATE && c->name[0] == '@';
}

// -- loading --------------------------------------------------------------------------------------

bool state_is_weight(const ProgCell *c)
{
    return state_is_saved(c) && !c->optimizer && !own_state(c);
}

enum { STARS = 16 }; // in each side of a renaming

// Whether the pattern's n characters match the name, '*' any text, the shortest that does; from[i]
// and size[i]: what star i stands for.
static bool matches(const char *pattern, size_t n, const char *name, const char **from,
                    size_t *size)
{
    size_t head = 0;
    while (head < n && pattern[head] != '*') head++;
    if (strncmp(pattern, name, head)) return false;
    name += head;
    if (head == n) return !*name;
    *from = name;
    for (*size = 0;; ++*size) {
        if (matches(pattern + head + 1, n - head - 1, name + *size, from + 1, size + 1))
            return true;
        if (!name[*size]) return false;
    }
}

static int stars(const char *text, const char *end)
{
    int n = 0;
    for (; text < end; text++) n += *text == '*';
    return n;
}

// Applies a rule: "a.*.b.*=c.*.*" renames a.x.b.y to c.x.y. Each '*' on the right is the text that
// the one of the same number stands for.
static const char *rename_by(Arena *a, const char *name, const char *rule)
{
    const char *eq = strchr(rule, '='), *from[STARS + 1];
    size_t size[STARS + 1];
    if (!eq || !matches(rule, (size_t)(eq - rule), name, from, size)) return NULL;
    Buf to = buf_new(a);
    int star = 0;
    for (const char *c = eq + 1; *c; c++)
        if (*c == '*')
            buf_bytes(&to, from[star], size[star]), star++;
        else
            buf_char(&to, *c);
    buf_char(&to, 0);
    return to.data;
}

typedef struct Loading {
    netc_session *s;
    const char *path;
    netc_load_options o;
    Position *at;
    Arena *arena;
    netc_error **err;
    netc_status status;
    RtTensors file;
    const Program *program;
    StrMap by_name; // renamed tensors of the file
    char *choices;  // from the file, malloc'ed
    double scalar;  // default loss scale, if the file has none
    void *room;     // buffer for converted values, as large as the largest cell
    RtError e;
} Loading;

static bool well_written(Loading *v)
{
    for (int k = 0; k < v->o.nmap; k++) {
        const char *rule = v->o.map[k], *eq = strchr(rule, '=');
        if (!eq || eq == rule || !eq[1]) {
            v->status = lib_fail(
                v->err, NETC_INVALID,
                "a renaming must be FILE_NAME=MODEL_NAME ('*' matches any text), not '%s'", rule);
            return false;
        }
        int given = stars(rule, eq), wanted = stars(eq, eq + strlen(eq));
        if (wanted <= given && given <= STARS) continue;
        v->status = lib_fail(v->err, NETC_INVALID,
                             "the renaming '%s' has %d '*' before its '=' and %d after it; it may "
                             "have up to %d, and no more after than before",
                             rule, given, wanted, STARS);
        return false;
    }
    return true;
}

static bool ignored(const Loading *v, const char *name, bool *used)
{
    bool any = false;
    for (int i = 0; i < v->o.nignore; i++) {
        bool match = plain_match(v->o.ignore[i], name);
        used[i] |= match;
        any |= match;
    }
    return any;
}

// Whether the matrix of this name in the model is to be transposed; used[k]: pattern k says so.
static bool to_turn(const Loading *v, const RtTensor *t, const char *name, bool *used)
{
    bool any = false;
    for (int k = 0; k < v->o.ntranspose && t->type.rank == 2; k++) {
        bool match = plain_match(v->o.transpose[k], name);
        if (used) used[k] |= match;
        any |= match;
    }
    return any;
}

static void turn(Loading *v, RtTensor *t)
{
    int64_t rows = t->type.dim[0], columns = t->type.dim[1];
    void *out = arena_alloc(v->arena, (size_t)prog_type_bytes(&t->type) + 1);
    matrix_turn(t->data, prog_dtype_bytes(t->type.dtype), rows, columns, out);
    t->type.dim[0] = columns, t->type.dim[1] = rows;
    t->data = out;
}

// Collects the file's tensors under their names in the model. false: a rule matches none, or two
// tensors get one name, which is reported.
static bool name_tensors(Loading *v)
{
    bool *used = NEW_ARRAY(v->arena, bool, v->o.nmap + 1);
    bool *turned = NEW_ARRAY(v->arena, bool, v->o.ntranspose + 1);
    bool *passed = NEW_ARRAY(v->arena, bool, v->o.nignore + 1);
    v->by_name = strmap_new(v->arena);
    for (int i = 0; i < v->file.n; i++) {
        const char *name = v->file.at[i].name, *to = NULL;
        if (ignored(v, name, passed)) continue;
        for (int k = 0; k < v->o.nmap; k++) {
            const char *renamed = rename_by(v->arena, name, v->o.map[k]);
            used[k] = used[k] || renamed;
            if (!to) to = renamed;
        }
        if (!to) to = name;
        RtTensor *t = &v->file.at[i], *other = strmap_get(&v->by_name, to);
        if (other) {
            v->status = lib_fail(v->err, NETC_INVALID,
                                 "%s: '%s' and '%s' would both be the model's '%s'; rename or "
                                 "ignore one of them",
                                 v->path, other->name, name, to);
            return false;
        }
        if (to_turn(v, t, to, turned)) turn(v, t);
        strmap_set(&v->by_name, to, t);
    }
    for (int k = 0; k < v->o.ntranspose; k++)
        if (!turned[k]) {
            v->status = lib_fail(v->err, NETC_INVALID,
                                 "'%s' is to be transposed but matches no matrix of %s",
                                 v->o.transpose[k], v->path);
            return false;
        }
    for (int k = 0; k < v->o.nmap; k++)
        if (!used[k]) {
            v->status =
                lib_fail(v->err, NETC_INVALID, "the renaming '%s' matches no tensor of %s%s%s%s",
                         v->o.map[k], v->path, v->file.n ? "; its first is '" : "",
                         v->file.n ? v->file.at[0].name : "", v->file.n ? "'" : "");
            return false;
        }
    for (int k = 0; k < v->o.nignore; k++)
        if (!passed[k]) {
            v->status =
                lib_fail(v->err, NETC_INVALID, "'%s' is to be ignored but matches no tensor of %s",
                         v->o.ignore[k], v->path);
            return false;
        }
    return true;
}

// Whether the cell is loaded. For weights: everything that the model computes with, including its
// states, but nothing that belongs to an optimizer. A setting given with -D is never loaded.
static bool takes(const Loading *v, const ProgCell *c)
{
    if (c->kind == PC_SETTING && settings_define(&v->s->program->settings, c->name)) return false;
    return v->o.weights_only ? state_is_weight(c) : state_is_saved(c);
}

static bool same_shape(const ProgType *a, const ProgType *b)
{
    return a->rank == b->rank && !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
}

// Whether it is a float of another width, which is converted if only weights are loaded.
static bool converted(const Loading *v, const ProgCell *c, const RtTensor *t)
{
    return v->o.weights_only && c->type.dtype != t->type.dtype && float_type(c->type.dtype) &&
           float_type(t->type.dtype) && same_shape(&c->type, &t->type);
}

static bool convert(const Loading *v, const ProgCell *c, const RtTensor *t)
{
    int64_t n = prog_type_bytes(&c->type) / prog_dtype_bytes(c->type.dtype);
    return floats_convert(t->type.dtype, t->data, c->type.dtype, v->room, n);
}

// Whether a state has another size in the model than in the file, as if it depends on a dimension
// such as the batch. When weights are loaded, such a state gets its initial value.
static bool resized(const Loading *v, const ProgCell *c, const RtTensor *t)
{
    return v->o.weights_only && c->kind == PC_STATE && t->type.dtype == c->type.dtype &&
           t->type.rank == c->type.rank && !same_shape(&t->type, &c->type);
}

// Whether the file was written by netc: it may then contain more than is needed, such as an
// optimizer's states or other models.
static bool own_file(const RtTensors *t)
{
    for (int i = 0; i < t->nmeta; i++)
        if (!strcmp(t->meta_keys[i], "netc.model")) return true;
    return false;
}

// Whether it is an optimizer's state: its name begins with that of a parameter.
static bool of_parameter(const Loading *v, const char *name)
{
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.'))
        if (strmap_has(&v->by_name, arena_strndup(v->arena, name, (size_t)(dot - name))))
            return true;
    return false;
}

static bool transposed(const ProgType *a, const ProgType *b)
{
    return a->rank == 2 && b->rank == 2 && a->dtype == b->dtype && a->dim[0] == b->dim[1] &&
           a->dim[1] == b->dim[0];
}

static void list_cell(const Loading *v, Buf *out, const ProgCell *c, const RtTensor *t)
{
    char want[240], have[240] = "has no such tensor";
    prog_type_text(want, sizeof want, &c->type);
    if (t) prog_type_text(have, sizeof have, &t->type);
    const char *why = "";
    if (t && to_turn(v, t, c->name, NULL))
        why = " after it was transposed";
    else if (t && transposed(&t->type, &c->type))
        why = ", which is its transpose";
    buf_printf(out, "\n  %s: the model has %s, the file %s%s", c->name, want, have, why);
}

// Reports tensors that differ in sizes only, as those of the same model under other -D do.
static void report_sizes(Loading *v, int n, const char *wrong)
{
    const FileDecls *decls = v->s->program->decls;
    Buf names = buf_new(v->arena);
    for (uint32_t i = 0; decls && i < decls->consts.n; i++)
        buf_printf(&names, "%s%s", names.len ? ", " : "", decls->consts.at[i]);
    for (uint32_t i = 0; decls && i < decls->dims.n; i++)
        buf_printf(&names, "%s%s", names.len ? ", " : "", decls->dims.at[i]);
    v->status =
        lib_fail(v->err, NETC_INVALID,
                 "%s is a checkpoint of a model of other sizes; %d tensor%s:%s\n  (give the "
                 "-D NAME=VALUE that it was trained with%s%s)",
                 v->path, n, n > 1 ? "s differ" : " differs", wrong,
                 names.len ? "; the model has " : "", names.len ? names.data : "");
}

// Whether the cell is loaded and the file, which should have a tensor of it, has none.
static bool lacks(const Loading *v, const ProgCell *c)
{
    return takes(v, c) && c->kind != PC_SETTING && !own_state(c) &&
           !strmap_has(&v->by_name, c->name) && !state_derived(v->program, c->name);
}

// Whether every cell has a tensor and every tensor a cell. If not, reports all differences.
static bool fits(Loading *v)
{
    netc_session *s = v->s;
    Buf wrong = buf_new(v->arena);
    enum { SHOWN = 8 }; // of tensors that differ in sizes only
    int nwrong = 0, sized = 0;
    size_t shown = 0; // length of the text with these
    uint32_t extra = 0;
    bool own = own_file(&v->file);
    for (int i = 0; i < rt_cell_count(s->rt); i++) {
        const ProgCell *c = rt_cell_info(s->rt, i);
        if (!takes(v, c)) continue;
        const RtTensor *t = strmap_get(&v->by_name, c->name);
        if (!t && (v->o.allow_missing || !lacks(v, c))) continue;
        if (t && (prog_type_equal(&t->type, &c->type) || resized(v, c, t))) continue;
        bool other = t && converted(v, c, t);
        // (every narrower float can be represented in a wider one)
        if (other && (c->type.dtype >= PD_F32 || convert(v, c, t))) continue;
        nwrong++;
        list_cell(v, &wrong, c, t);
        if (other) buf_str(&wrong, " of values that are too large for it");
        sized += t && !other && t->type.rank == c->type.rank && !transposed(&t->type, &c->type);
        if (nwrong == SHOWN) shown = wrong.len;
    }
    const ProgCell *mine;
    for (uint32_t i = 0; i < v->by_name.n; i++) {
        const char *name = v->by_name.entry[i].key;
        if (session_cell(s, name, &mine)) continue;
        if (own && v->o.weights_only && of_parameter(v, name)) continue;
        if (extra++ < 20 || !own) buf_printf(&wrong, "\n  %s: only in the file", name);
    }
    if (!nwrong && (own || !extra)) return true;
    if (own && sized == nwrong && !extra) {
        if (nwrong > SHOWN)
            wrong.data = arena_printf(v->arena, "%.*s\n  and %d more", (int)shown, wrong.data,
                                      nwrong - SHOWN);
        return report_sizes(v, nwrong, wrong.data), false;
    }
    if (!own) nwrong += (int)extra;
    const char *ways =
        v->at->needed ? "to start from the tensors that fit, give it as --weights, with" : "give";
    const FileDecls *decls = s->program->decls;
    bool several = decls && decls->programs.n > 1;
    v->status = lib_fail(
        v->err, NETC_INVALID,
        "%s is a checkpoint of another model%s; %d tensor%s:%s\n  (%s --map 'file.*=model.*' to "
        "rename, --transpose 'model.*' to transpose matrices, --allow-missing to skip what the "
        "file lacks, --ignore 'file.*' to skip what only it has)",
        v->path, several ? ", or of another of its programs (--program NAME)" : "", nwrong,
        nwrong > 1 ? "s differ" : " differs", wrong.data, ways);
    return false;
}

static const void *find_loaded(void *ctx, const ProgCell *c)
{
    Loading *v = ctx;
    if (!takes(v, c)) return NULL;
    const RtTensor *t = strmap_get(&v->by_name, c->name);
    if (t && converted(v, c, t)) return convert(v, c, t), v->room;
    if (t) return prog_type_equal(&t->type, &c->type) ? t->data : NULL;
    if (!own_state(c)) return NULL;
    prog_store(c->type.dtype, &v->scalar, c->initial);
    return &v->scalar;
}

// Notes about differences between the file and the model.
static void note_cells(const Loading *v)
{
    int count[PD_COUNT][PD_COUNT] = {{0}}; // number of converted tensors: from, to
    for (int i = 0; i < rt_cell_count(v->s->rt); i++) {
        const ProgCell *c = rt_cell_info(v->s->rt, i);
        const RtTensor *t = takes(v, c) ? strmap_get(&v->by_name, c->name) : NULL;
        char want[240], have[240];
        if (t && resized(v, c, t)) {
            prog_type_text(want, sizeof want, &c->type);
            prog_type_text(have, sizeof have, &t->type);
            lib_log(v->s->context,
                    "note: state '%s' is %s here, in %s %s: it starts at its initial value",
                    c->name, want, v->path, have);
        }
        if (t && converted(v, c, t)) count[t->type.dtype][c->type.dtype]++;
        if (!t && takes(v, c) && own_state(c) && c->initial != 0)
            lib_log(v->s->context, "note: %s holds no loss scale; it starts at %g", v->path,
                    c->initial);
    }
    for (int from = 0; from < PD_COUNT; from++)
        for (int to = 0; to < PD_COUNT; to++) {
            if (!count[from][to]) continue;
            lib_log(v->s->context, "note: %d tensor%s of %s in %s %s read as %s%s", count[from][to],
                    count[from][to] > 1 ? "s" : "", prog_dtype_name(from), v->path,
                    count[from][to] > 1 ? "are" : "is", prog_dtype_name(to),
                    prog_dtype_bytes(to) < prog_dtype_bytes(from) ? ", rounded" : "");
        }
}

// Notes tensors that may be missing and are.
static void note_missing(const Loading *v)
{
    enum { SHOWN = 3 };
    int n = 0;
    Buf names = buf_new(v->arena);
    for (int i = 0; i < rt_cell_count(v->s->rt); i++) {
        const ProgCell *c = rt_cell_info(v->s->rt, i);
        if (lacks(v, c) && n++ < SHOWN)
            buf_printf(&names, "%s'%s'", names.len ? ", " : "", c->name);
    }
    if (n)
        lib_log(v->s->context, "note: %s lacks %d tensor%s of the model, which keep%s %s: %s%s",
                v->path, n, n > 1 ? "s" : "", n > 1 ? "" : "s",
                n > 1 ? "their present values" : "its present value", names.data,
                n > SHOWN ? ", …" : "");
}

static void make_room(Loading *v)
{
    int64_t most = 1;
    for (int i = 0; i < rt_cell_count(v->s->rt); i++) {
        int64_t bytes = prog_type_bytes(&rt_cell_info(v->s->rt, i)->type);
        most = bytes > most ? bytes : most;
    }
    v->room = arena_alloc(v->arena, (size_t)most);
}

static bool read_number(Loading *v, const char *key, const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end != text && !*end && !errno && (*out >= 0 || strcmp(key, "netc.step"))) return true;
    v->status = lib_fail(v->err, NETC_INVALID, "%s is damaged: its %s is '%s', which is not a %s",
                         v->path, key, text, strcmp(key, "netc.step") ? "seed" : "count of steps");
    return false;
}

// Reads step, seed and so on. false: an error was reported.
static bool read_metadata(Loading *v)
{
    bool step = false, seed = false;
    for (int i = 0; i < v->file.nmeta && !v->o.weights_only; i++) {
        const char *key = v->file.meta_keys[i], *value = v->file.meta_values[i];
        if (!strcmp(key, "netc.choices") && !v->choices) v->choices = strdup(value);
        if (!strcmp(key, "netc.best")) snprintf(v->at->best, sizeof v->at->best, "%s", value);
        if (!strcmp(key, "netc.batch")) v->at->batch = strtoll(value, NULL, 10);
        if (!strcmp(key, "netc.examples")) v->at->examples = strtoll(value, NULL, 10);
        if (!strcmp(key, "netc.precision"))
            snprintf(v->at->precision, sizeof v->at->precision, "%s", value);
        if (!strcmp(key, "netc.order")) snprintf(v->at->order, sizeof v->at->order, "%s", value);
        if (!strcmp(key, "netc.last")) snprintf(v->at->last, sizeof v->at->last, "%s", value);
        if (!strcmp(key, "netc.program"))
            snprintf(v->at->program, sizeof v->at->program, "%s", value);
        if (!strcmp(key, "netc.step")) step = true;
        if (!strcmp(key, "netc.seed")) seed = true;
        if ((!strcmp(key, "netc.step") && !read_number(v, key, value, &v->at->step)) ||
            (!strcmp(key, "netc.seed") && !read_number(v, key, value, &v->at->seed)))
            return false;
    }
    if (!v->at->needed || (step && seed)) return true;
    v->status = lib_fail(v->err, NETC_INVALID,
                         "%s holds no step and no seed, so training cannot continue from it; "
                         "--weights starts from its parameters",
                         v->path);
    return false;
}

// Whether the file is not of another program of the model's file, whose optimizer states and step
// would be taken over. false: an error was reported.
static bool same_program(Loading *v)
{
    const FileDecls *decls = v->s->program->decls;
    char name[sizeof v->at->program];
    program_trains(v->s->program, name, sizeof name);
    if (!v->at->needed || !*v->at->program || !decls || !strcmp(name, v->at->program)) return true;
    for (uint32_t i = 0; i < decls->programs.n; i++) {
        char other[sizeof name];
        snprintf(other, sizeof other, "%s", decls->programs.at[i]);
        if (strcmp(other, v->at->program)) continue;
        v->status = lib_fail(v->err, NETC_INVALID,
                             "%s was trained by program '%s', this is '%s': its step and its "
                             "optimizer states do not belong to it; start from its parameters with "
                             "--weights, or give --program %s",
                             v->path, v->at->program, name, v->at->program);
        return false;
    }
    return true;
}

// Notes tensors of a training run that is continued which this one does not have, such as another
// optimizer's states.
static void note_dropped(const Loading *v)
{
    const ProgCell *mine;
    const char *first = NULL;
    int n = 0;
    for (uint32_t i = 0; i < v->by_name.n && v->at->needed; i++) {
        const char *name = v->by_name.entry[i].key;
        if (*name == '@' || session_cell(v->s, name, &mine)) continue; // ('@': of loss scaling)
        if (!n++) first = name;
    }
    if (n)
        lib_log(v->s->context,
                "note: %s holds %d tensor%s that this training does not have ('%s'%s); %s not "
                "loaded, and a checkpoint of it will lack %s",
                v->path, n, n > 1 ? "s" : "", first, n > 1 ? ", …" : "",
                n > 1 ? "they are" : "it is", n > 1 ? "them" : "it");
}

// Checks everything before it writes anything, so that a checkpoint of another model changes
// nothing.
static void load(void *arg)
{
    Loading *v = arg;
    Loaded *l;
    v->status = session_loaded(v->s, "", "", &l, v->err);
    if (v->status != NETC_OK || !well_written(v) ||
        rt_safetensors_read(v->arena, v->path, &v->file, &v->e))
        return;
    v->program = l->build->program;
    make_room(v);
    if (!name_tensors(v) || !fits(v) || !read_metadata(v) || !same_program(v)) return;
    note_cells(v);
    note_missing(v);
    note_dropped(v);
    v->status = state_put(v->s, &(StateSource){find_loaded, v}, v->err);
}

netc_status state_load_at(netc_session *s, const char *path, const netc_load_options *o,
                          Position *at, netc_error **err)
{
    Loading v = {.s = s, .path = path, .at = at, .err = err};
    netc_status status = TAKE_OPTIONS(netc_load_options, &v.o, o, err);
    if (status == NETC_OK) status = options_names("map", v.o.map, v.o.nmap, err);
    if (status == NETC_OK) status = options_names("ignore", v.o.ignore, v.o.nignore, err);
    if (status == NETC_OK) status = options_names("transpose", v.o.transpose, v.o.ntranspose, err);
    if (status != NETC_OK) return status;
    v.arena = arena_new();
    if (!v.arena) return OUT_OF_MEMORY(err);
    if (!lib_guarded(v.arena, load, &v)) v.status = OUT_OF_MEMORY(err);
    rt_tensors_free(&v.file);
    arena_free(v.arena);
    status = v.e.code ? lib_fail_rt(err, &v.e) : v.status;
    if (status == NETC_OK && v.choices && !v.o.weights_only)
        status = session_use_choices(s, v.choices, err);
    free(v.choices);
    return status;
}

netc_status netc_state_load(netc_session *s, const char *path, const netc_load_options *o,
                            netc_error **err)
{
    Position at = {.step = -1, .seed = s->seed};
    netc_load_options own = {0};
    netc_status status = TAKE_OPTIONS(netc_load_options, &own, o, err);
    if (status == NETC_OK) status = state_load_at(s, path, o, &at, err);
    if (status == NETC_OK && !own.weights_only) {
        s->seed = at.seed;
        if (at.step >= 0) status = session_set_control(s, "@step", at.step, err);
        if (status == NETC_OK) status = session_set_control(s, "@seed", at.seed, err);
    }
    return status;
}
