// Parameters, states and settings in and out of a session: one by one, as safetensors, from another
// session.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/lib.h"

// What a checkpoint holds: parameters, saved states and settings. Scratch and control cells are not
// part of the model; the step travels as metadata.
static bool saved(const ProgCell *c)
{
    return c->kind == PC_PARAM || c->kind == PC_STATE || c->kind == PC_SETTING;
}

// The compiler's own states, those of loss scaling: a checkpoint of another precision has none.
static bool own_state(const ProgCell *c)
{
    return c->kind == PC_STATE && c->name[0] == '@';
}

static const ProgCell *nth_saved(const netc_session *s, int i)
{
    for (int k = 0; k < rt_cell_count(s->rt); k++) {
        const ProgCell *c = rt_cell_info(s->rt, k);
        if (saved(c) && i-- == 0) return c;
    }
    return NULL;
}

int netc_state_count(netc_session *s)
{
    int n = 0;
    for (int k = 0; k < rt_cell_count(s->rt); k++) n += saved(rt_cell_info(s->rt, k));
    return n;
}

netc_status netc_state_info(netc_session *s, int i, netc_port *out, netc_error **err)
{
    const ProgCell *c = i < 0 ? NULL : nth_saved(s, i);
    if (!c) return lib_fail(err, NETC_INVALID, "there is no state number %d", i);
    *out = (netc_port){.name = c->name, .dtype = (netc_dtype)c->type.dtype, .rank = c->type.rank};
    memcpy(out->dim, c->type.dim, sizeof out->dim);
    return NETC_OK;
}

static netc_status find_state(netc_session *s, const char *name, const netc_tensor *t,
                              const ProgCell **out, netc_error **err)
{
    if (!session_cell(s, name, out)) {
        const char *names[256], *near;
        size_t n = 0;
        for (int i = 0; i < rt_cell_count(s->rt) && n < 256; i++)
            names[n++] = rt_cell_info(s->rt, i)->name;
        near = suggest(name, names, n);
        return lib_fail(err, NETC_INVALID, "%s has no parameter or state '%s'%s%s%s",
                        s->program->name, name, near ? "; did you mean '" : "", near ? near : "",
                        near ? "'?" : "");
    }
    if (t->on_device)
        return lib_fail(err, NETC_INVALID,
                        "'%s' is read and written through host memory; copy the tensor there",
                        name);
    return same_type("state", name, &(*out)->type, t, err);
}

netc_status netc_state_read(netc_session *s, const char *name, netc_tensor *t, netc_error **err)
{
    const ProgCell *c;
    netc_status status = find_state(s, name, t, &c, err);
    RtError e = {0};
    if (status != NETC_OK) return status;
    if (rt_cell_read(s->rt, name, t->data, (size_t)prog_type_bytes(&c->type), &e))
        return lib_fail_rt(err, &e);
    return NETC_OK;
}

netc_status netc_state_write(netc_session *s, const char *name, const netc_tensor *t,
                             netc_error **err)
{
    const ProgCell *c;
    netc_status status = find_state(s, name, t, &c, err);
    RtError e = {0};
    if (status != NETC_OK) return status;
    if (rt_cell_write(s->rt, name, t->data, (size_t)prog_type_bytes(&c->type), &e))
        return lib_fail_rt(err, &e);
    return NETC_OK;
}

// -- settings -------------------------------------------------------------------------------------

static netc_status setting(netc_session *s, const char *name, netc_error **err)
{
    const ProgCell *c;
    if (session_cell(s, name, &c) && c->kind == PC_SETTING) return NETC_OK;
    const char *names[64], *near;
    size_t n = 0;
    for (int i = 0; i < rt_cell_count(s->rt) && n < 64; i++)
        if (rt_cell_info(s->rt, i)->kind == PC_SETTING) names[n++] = rt_cell_info(s->rt, i)->name;
    near = suggest(name, names, n);
    if (!n)
        return lib_fail(
            err, NETC_INVALID,
            "%s declares no settings, so there is no '%s'; write 'setting %s = VALUE' in it",
            s->program->name, name, name);
    return lib_fail(err, NETC_INVALID, "%s has no setting '%s'; %s '%s'%s", s->program->name, name,
                    near ? "did you mean" : "there is", near ? near : names[0],
                    near    ? "?"
                    : n > 1 ? " and others"
                            : "");
}

netc_status netc_set(netc_session *s, const char *name, double value, netc_error **err)
{
    netc_status status = setting(s, name, err);
    float v = (float)value;
    RtError e = {0};
    if (status != NETC_OK) return status;
    return rt_cell_write(s->rt, name, &v, sizeof v, &e) ? lib_fail_rt(err, &e) : NETC_OK;
}

netc_status netc_get(netc_session *s, const char *name, double *value, netc_error **err)
{
    netc_status status = setting(s, name, err);
    float v = 0;
    RtError e = {0};
    if (status != NETC_OK) return status;
    if (rt_cell_read(s->rt, name, &v, sizeof v, &e)) return lib_fail_rt(err, &e);
    *value = v;
    return NETC_OK;
}

// -- checkpoints ----------------------------------------------------------------------------------

typedef struct Saving {
    netc_session *s;
    const char *path;
    const Position *at;
    Arena *arena;
    RtError e;
} Saving;

static void save(void *arg)
{
    Saving *v = arg;
    netc_session *s = v->s;
    Arena *a = v->arena;
    int cells = rt_cell_count(s->rt), n = 0;
    RtTensor *t = NEW_ARRAY(a, RtTensor, cells + 1);
    for (int i = 0; i < cells; i++) {
        const ProgCell *c = rt_cell_info(s->rt, i);
        if (!saved(c)) continue;
        size_t bytes = (size_t)prog_type_bytes(&c->type);
        void *data = arena_alloc(a, bytes);
        if (rt_cell_read(s->rt, c->name, data, bytes, &v->e)) return;
        t[n++] = (RtTensor){c->name, c->type, data};
    }
    // Of every program in use; a replaced one lies behind its successor and repeats its lines.
    Buf choices = buf_new(a);
    for (const Loaded *l = s->loaded; l; l = l->next) {
        const char *lines = rt_choices(l->rt, a);
        if (!strstr(choices.data, lines))
            buf_printf(&choices, "%s%s", choices.len ? "\n" : "", lines);
    }
    const char *keys[] = {"format", "netc.model", "netc.step", "netc.seed", "netc.choices"};
    const char *values[] = {"netc 1", s->program->name, arena_printf(a, "%" PRId64, v->at->step),
                            arena_printf(a, "%" PRId64, v->at->seed), choices.data};
    rt_safetensors_write(v->path, t, n, keys, values, 5, &v->e);
}

netc_status state_save_at(netc_session *s, const char *path, const Position *at, netc_error **err)
{
    Saving v = {.s = s, .path = path, .at = at, .arena = arena_new()};
    if (!v.arena) return OUT_OF_MEMORY(err);
    bool ok = lib_guarded(v.arena, save, &v);
    arena_free(v.arena);
    if (!ok) return OUT_OF_MEMORY(err);
    return v.e.code ? lib_fail_rt(err, &v.e) : NETC_OK;
}

netc_status netc_state_save(netc_session *s, const char *path, netc_error **err)
{
    Position at = {.seed = s->seed};
    RtError e = {0};
    const ProgCell *c;
    if (session_cell(s, "@step", &c) && rt_cell_read(s->rt, "@step", &at.step, sizeof at.step, &e))
        return lib_fail_rt(err, &e);
    return state_save_at(s, path, &at, err);
}

// "a.*=b.*" renames a.x to b.x; '*' matches any text, at most one in each side.
static const char *rename_by(Arena *a, const char *name, const char *rule)
{
    const char *eq = strchr(rule, '=');
    if (!eq) return NULL;
    const char *star = memchr(rule, '*', (size_t)(eq - rule));
    const char *to = eq + 1, *to_star = strchr(to, '*');
    size_t n = strlen(name);
    if (!star) return n == (size_t)(eq - rule) && !memcmp(name, rule, n) ? to : NULL;
    size_t head = (size_t)(star - rule), tail = (size_t)(eq - star - 1);
    if (n < head + tail || memcmp(name, rule, head) || memcmp(name + n - tail, star + 1, tail))
        return NULL;
    if (!to_star) return to;
    return arena_printf(a, "%.*s%.*s%s", (int)(to_star - to), to, (int)(n - head - tail),
                        name + head, to_star + 1);
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
    char *choices; // of the file, malloc'ed
    RtError e;
} Loading;

static void load(void *arg)
{
    Loading *v = arg;
    Arena *a = v->arena;
    netc_session *s = v->s;
    for (int k = 0; k < v->o.nmap; k++) {
        const char *eq = strchr(v->o.map[k], '=');
        if (eq && eq != v->o.map[k] && eq[1]) continue;
        v->status =
            lib_fail(v->err, NETC_INVALID,
                     "a renaming is written FILE_NAME=MODEL_NAME ('*' matches any text), not '%s'",
                     v->o.map[k]);
        return;
    }
    if (rt_safetensors_read(a, v->path, &v->file, &v->e)) return;
    StrMap by_name = strmap_new(a);
    bool *used = NEW_ARRAY(a, bool, v->o.nmap + 1);
    for (int i = 0; i < v->file.n; i++) {
        const char *name = v->file.at[i].name, *to = NULL;
        for (int k = 0; k < v->o.nmap; k++) {
            const char *renamed = rename_by(a, name, v->o.map[k]);
            used[k] = used[k] || renamed;
            if (!to) to = renamed;
        }
        strmap_set(&by_name, to ? to : name, &v->file.at[i]);
    }
    for (int k = 0; k < v->o.nmap; k++)
        if (!used[k]) {
            v->status =
                lib_fail(v->err, NETC_INVALID, "the renaming '%s' matches no tensor of %s%s%s%s",
                         v->o.map[k], v->path, v->file.n ? "; its first is '" : "",
                         v->file.n ? v->file.at[0].name : "", v->file.n ? "'" : "");
            return;
        }
    // Everything is compared before anything is written: a checkpoint of another model changes
    // nothing.
    Buf wrong = buf_new(a);
    int nwrong = 0;
    for (int i = 0; i < rt_cell_count(s->rt); i++) {
        const ProgCell *c = rt_cell_info(s->rt, i);
        if (!saved(c) || (v->o.weights_only && c->kind != PC_PARAM)) continue;
        const RtTensor *t = strmap_get(&by_name, c->name);
        if (!t && (v->o.allow_missing || c->kind == PC_SETTING || own_state(c))) continue;
        if (t && t->type.dtype == c->type.dtype && t->type.rank == c->type.rank &&
            !memcmp(t->type.dim, c->type.dim, sizeof c->type.dim))
            continue;
        nwrong++;
        char want[240], have[240] = "has no such tensor";
        prog_type_text(want, sizeof want, &c->type);
        if (t) prog_type_text(have, sizeof have, &t->type);
        buf_printf(&wrong, "\n  %s: the model has %s, the file %s", c->name, want, have);
    }
    const ProgCell *mine;
    for (uint32_t i = 0, extra = 0; i < by_name.n; i++)
        if (!session_cell(s, by_name.entry[i].key, &mine) && extra++ < 20)
            buf_printf(&wrong, "\n  %s: only in the file", by_name.entry[i].key);
    if (nwrong) {
        v->status = lib_fail(v->err, NETC_INVALID,
                             "%s is a checkpoint of another model; %d tensors differ:%s\n"
                             "  (rename with --map 'file.*=model.*', skip with --allow-missing)",
                             v->path, nwrong, wrong.data);
        return;
    }
    const ProgCell *begun = NULL; // the loss scale, when the file has none
    for (int i = 0; i < rt_cell_count(s->rt); i++) {
        const ProgCell *c = rt_cell_info(s->rt, i);
        if (!saved(c) || (v->o.weights_only && c->kind != PC_PARAM)) continue;
        const RtTensor *t = strmap_get(&by_name, c->name);
        const void *data = t ? t->data : NULL;
        double scalar;
        if (!t && own_state(c)) {
            prog_store(c->type.dtype, &scalar, c->initial);
            data = &scalar;
            if (c->initial != 0) begun = c;
        }
        if (data && rt_cell_write(s->rt, c->name, data, (size_t)prog_type_bytes(&c->type), &v->e))
            return;
    }
    if (begun)
        lib_log(s->context, "note: %s holds no loss scale, it begins at %g", v->path,
                begun->initial);
    for (int i = 0; i < v->file.nmeta; i++) {
        if (!strcmp(v->file.meta_keys[i], "netc.choices") && !v->choices)
            v->choices = strdup(v->file.meta_values[i]);
        if (!strcmp(v->file.meta_keys[i], "netc.step"))
            v->at->step = strtoll(v->file.meta_values[i], NULL, 10);
        if (!strcmp(v->file.meta_keys[i], "netc.seed"))
            v->at->seed = strtoll(v->file.meta_values[i], NULL, 10);
    }
}

netc_status state_load_at(netc_session *s, const char *path, const netc_load_options *o,
                          Position *at, netc_error **err)
{
    Loading v = {.s = s, .path = path, .at = at, .arena = arena_new(), .err = err};
    if (!v.arena) return OUT_OF_MEMORY(err);
    if (o) memcpy(&v.o, o, o->size < sizeof v.o ? o->size : sizeof v.o);
    if (!lib_guarded(v.arena, load, &v)) v.status = OUT_OF_MEMORY(err);
    rt_tensors_free(&v.file);
    arena_free(v.arena);
    netc_status status = v.e.code ? lib_fail_rt(err, &v.e) : v.status;
    if (status == NETC_OK && v.choices && !v.o.weights_only)
        status = session_use_choices(s, v.choices, err);
    free(v.choices);
    return status;
}

netc_status netc_state_load(netc_session *s, const char *path, const netc_load_options *o,
                            netc_error **err)
{
    Position at = {.seed = s->seed};
    netc_status status = state_load_at(s, path, o, &at, err);
    if (status == NETC_OK && !(o && o->weights_only)) {
        s->seed = at.seed;
        status = session_set_control(s, "@step", at.step, err);
        if (status == NETC_OK) status = session_set_control(s, "@seed", at.seed, err);
    }
    return status;
}

netc_status netc_adopt(netc_session *to, netc_session *from, int *carried, netc_error **err)
{
    int n = 0;
    for (int i = 0; i < rt_cell_count(from->rt); i++) {
        const ProgCell *c = rt_cell_info(from->rt, i), *mine;
        if ((!saved(c) && strcmp(c->name, "@step") && strcmp(c->name, "@seed")) ||
            !session_cell(to, c->name, &mine))
            continue;
        if (mine->type.dtype != c->type.dtype || mine->type.rank != c->type.rank ||
            memcmp(mine->type.dim, c->type.dim, sizeof c->type.dim))
            continue;
        size_t bytes = (size_t)prog_type_bytes(&c->type);
        void *data = malloc(bytes ? bytes : 1);
        if (!data) return OUT_OF_MEMORY(err);
        RtError e = {0};
        if (!rt_cell_read(from->rt, c->name, data, bytes, &e))
            rt_cell_write(to->rt, c->name, data, bytes, &e);
        free(data);
        if (e.code) return lib_fail_rt(err, &e);
        n += c->kind != PC_CONTROL;
    }
    if (carried) *carried = n;
    return NETC_OK;
}
