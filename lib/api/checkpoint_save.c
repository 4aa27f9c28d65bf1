// Writes checkpoints: a session's parameters, states and settings as safetensors, in one file or in
// parts, with the step, the seed and the choices as metadata. Weights alone are written like
// published files.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/lib.h"

static const int64_t PART_BYTES = 5000000000; // the same size as in Hugging Face's files

typedef struct Saving {
    netc_session *s;
    const char *path;
    netc_save_options o;
    const Position *at;
    Arena *arena, *part; // part: for the tensors that are written together
    const ProgCell **cell;
    RtIndexed *place; // by cell
    int n, nparts;
    int folder;                     // locked while parts are written; -1: not
    ProgDType floats;               // type in which floats are written; PD_COUNT: their own
    VEC(const char *) keys, values; // of the metadata
    netc_error **err;
    netc_status status;
    RtError e;
} Saving;

static ProgType written_type(const Saving *v, const ProgCell *c)
{
    ProgType t = c->type;
    if (v->floats != PD_COUNT && float_type(t.dtype)) t.dtype = v->floats;
    return t;
}

// Collects the cells to save, and the part that each belongs to.
static void collect(Saving *v)
{
    int cells = rt_cell_count(v->s->rt);
    int64_t most = v->o.part_bytes ? v->o.part_bytes : PART_BYTES, room = most;
    bool parts = rt_names_index(v->path);
    v->cell = NEW_ARRAY(v->arena, const ProgCell *, cells + 1);
    v->place = NEW_ARRAY(v->arena, RtIndexed, cells + 1);
    v->nparts = 1;
    for (int i = 0; i < cells; i++) {
        const ProgCell *c = rt_cell_info(v->s->rt, i);
        if (!state_is_saved(c) || (v->o.weights_only && !state_is_weight(c))) continue;
        ProgType t = written_type(v, c);
        int64_t bytes = prog_type_bytes(&t);
        if (parts && bytes > room && room < most) {
            v->nparts++;
            room = most;
        }
        room -= bytes;
        v->cell[v->n] = c;
        v->place[v->n++] = (RtIndexed){c->name, bytes, v->nparts - 1};
    }
}

static void add_metadata(Saving *v, const char *key, const char *value)
{
    vec_push(v->arena, &v->keys, key);
    vec_push(v->arena, &v->values, value);
}

static void describe(Saving *v)
{
    if (v->o.weights_only) {
        add_metadata(v, "format", "pt"); // which readers of published files require
        return;
    }
    // The choices of every loaded program. A program that was replaced comes after its successor
    // and repeats its lines.
    Buf choices = buf_new(v->arena);
    for (const Loaded *l = v->s->loaded; l; l = l->next) {
        const char *lines = rt_choices(l->rt, v->arena);
        if (!strstr(choices.data, lines))
            buf_printf(&choices, "%s%s", choices.len ? "\n" : "", lines);
    }
    add_metadata(v, "format", "netc 1");
    add_metadata(v, "netc.model", v->s->program->name);
    add_metadata(v, "netc.step", arena_printf(v->arena, "%" PRId64, v->at->step));
    add_metadata(v, "netc.seed", arena_printf(v->arena, "%" PRId64, v->at->seed));
    if (v->at->batch)
        add_metadata(v, "netc.batch", arena_printf(v->arena, "%" PRId64, v->at->batch));
    if (v->at->examples)
        add_metadata(v, "netc.examples", arena_printf(v->arena, "%" PRId64, v->at->examples));
    if (*v->at->precision)
        add_metadata(v, "netc.precision", arena_strdup(v->arena, v->at->precision));
    const struct {
        const char *key, *value;
    } texts[] = {
        {"netc.order", v->at->order}, {"netc.last", v->at->last}, {"netc.program", v->at->program}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (*texts[i].value) add_metadata(v, texts[i].key, arena_strdup(v->arena, texts[i].value));
    add_metadata(v, "netc.choices", choices.data);
    if (*v->at->best) add_metadata(v, "netc.best", arena_strdup(v->arena, v->at->best));
}

// The cell's values as they are written. NULL: failed.
static const void *value_of(Saving *v, const ProgCell *c, const ProgType *as)
{
    size_t bytes = (size_t)prog_type_bytes(&c->type);
    void *data = arena_alloc(v->part, bytes);
    if (rt_cell_read(v->s->rt, c->name, data, bytes, &v->e)) return NULL;
    if (as->dtype == c->type.dtype) return data;
    size_t n = bytes / (size_t)prog_dtype_bytes(c->type.dtype);
    void *other = arena_alloc(v->part, n * (size_t)prog_dtype_bytes(as->dtype));
    if (floats_convert(c->type.dtype, data, as->dtype, other, (int64_t)n)) return other;
    v->status = lib_fail(v->err, NETC_INVALID,
                         "'%s' holds a value that is too large for %s; %s is unchanged", c->name,
                         prog_dtype_name(as->dtype), v->path);
    return NULL;
}

typedef struct Part {
    Saving *v;
    const char *path;
    int number;
    bool written;
} Part;

static void write_part(void *arg)
{
    Part *p = arg;
    Saving *v = p->v;
    RtTensor *t = NEW_ARRAY(v->part, RtTensor, v->n + 1);
    int n = 0;
    for (int i = 0; i < v->n; i++) {
        if (v->place[i].part != p->number) continue;
        t[n].name = v->cell[i]->name;
        t[n].type = written_type(v, v->cell[i]);
        t[n].data = value_of(v, v->cell[i], &t[n].type);
        if (!t[n++].data) return;
    }
    p->written =
        !rt_safetensors_write(p->path, t, n, v->keys.at, v->values.at, (int)v->keys.n, &v->e);
}

// Writes one tensor. Its memory is freed before the next one.
static bool write_one(Saving *v, const char *path, int number)
{
    Part p = {v, path, number, false};
    v->part = arena_new();
    if (!v->part || !lib_guarded(v->part, write_part, &p)) v->status = OUT_OF_MEMORY(v->err);
    arena_free(v->part);
    return p.written;
}

static void save(void *arg)
{
    Saving *v = arg;
    collect(v);
    describe(v);
    if (!rt_names_index(v->path)) {
        write_one(v, v->path, 0);
        return;
    }
    // From the choice of names that the index does not have to the new index: another process that
    // saves there would choose the same.
    v->folder = rt_file_lock_folder(v->path);
    const char **parts = rt_index_parts(v->arena, v->path, v->nparts);
    int k = 0;
    while (k < v->nparts && write_one(v, parts[k], k)) k++;
    if (k == v->nparts && !rt_index_write(v->path, v->place, v->n, parts, v->nparts, &v->e)) return;
    while (k-- > 0) unlink(parts[k]); // the old files are unchanged
}

static bool well_asked(Saving *v)
{
    static const char *const types[] = {"f32", "bf16", "f16"};
    static const ProgDType as[] = {PD_F32, PD_BF16, PD_F16};
    v->floats = PD_COUNT;
    for (size_t i = 0; v->o.type && i < sizeof as / sizeof *as; i++)
        if (!strcmp(v->o.type, types[i])) v->floats = as[i];
    if (v->o.type && v->floats == PD_COUNT)
        v->status = lib_fail(v->err, NETC_INVALID,
                             "floats are written as f32, bf16 or f16, not '%s'", v->o.type);
    else if (v->o.type && !v->o.weights_only)
        v->status = lib_fail(v->err, NETC_INVALID,
                             "only weights alone (--weights-only) can be written as %s; a "
                             "checkpoint to resume from keeps the model's types",
                             v->o.type);
    else if (v->o.part_bytes < 0)
        v->status = lib_fail(v->err, NETC_INVALID, "parts of %" PRId64 " bytes", v->o.part_bytes);
    return v->status == NETC_OK;
}

netc_status state_save_at(netc_session *s, const char *path, const netc_save_options *o,
                          const Position *at, netc_error **err)
{
    Saving v = {.s = s, .path = path, .at = at, .folder = -1, .err = err};
    netc_status status = TAKE_OPTIONS(netc_save_options, &v.o, o, err);
    if (status == NETC_OK) status = session_savable(s, err);
    if (status != NETC_OK) return status;
    v.arena = arena_new();
    if (!v.arena) return OUT_OF_MEMORY(err);
    if (well_asked(&v) && !lib_guarded(v.arena, save, &v)) v.status = OUT_OF_MEMORY(err);
    if (v.folder >= 0) close(v.folder);
    arena_free(v.arena);
    return v.e.code ? lib_fail_rt(err, &v.e) : v.status;
}

netc_status netc_state_save_as(netc_session *s, const char *path, const netc_save_options *o,
                               netc_error **err)
{
    Position at = {.seed = s->seed};
    RtError e = {0};
    const ProgCell *c;
    if (session_cell(s, "@step", &c) && rt_cell_read(s->rt, "@step", &at.step, sizeof at.step, &e))
        return lib_fail_rt(err, &e);
    return state_save_at(s, path, o, &at, err);
}

netc_status netc_state_save(netc_session *s, const char *path, netc_error **err)
{
    return netc_state_save_as(s, path, NULL, err);
}
