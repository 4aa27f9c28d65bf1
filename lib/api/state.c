// Reads and writes a session's parameters, states and settings: one by one, or from another
// session.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/api/keep.h"

static const ProgCell *nth_saved(const netc_session *s, int i)
{
    for (int k = 0; k < rt_cell_count(s->rt); k++) {
        const ProgCell *c = rt_cell_info(s->rt, k);
        if (state_is_saved(c) && i-- == 0) return c;
    }
    return NULL;
}

bool state_is_named(const ProgCell *c)
{
    return c->name[0] != '@';
}

int netc_state_count(netc_session *s)
{
    int n = 0;
    for (int k = 0; k < rt_cell_count(s->rt); k++) n += state_is_saved(rt_cell_info(s->rt, k));
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
        const char *names[256];
        size_t n = 0;
        for (int i = 0; i < rt_cell_count(s->rt) && n < 256; i++)
            if (state_is_named(rt_cell_info(s->rt, i))) names[n++] = rt_cell_info(s->rt, i)->name;
        return lib_fail(err, NETC_INVALID, "%s has no parameter or state '%s'%s", s->program->name,
                        name, advise(name, names, n).text);
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

netc_status netc_state_check(netc_session *s, netc_error **err)
{
    RtError e = {0};
    char names[300] = "";
    int bad = 0;
    netc_status status = netc_sync(s, err);
    for (int k = 0; status == NETC_OK && k < rt_cell_count(s->rt); k++) {
        const ProgCell *c = rt_cell_info(s->rt, k);
        if (c->kind == PC_SETTING || !state_is_saved(c) || !state_is_named(c)) continue;
        if (rt_cell_waits(s->rt, k))
            return lib_fail(
                err, NETC_INVALID,
                "'%s' has no value yet: it is computed from the first batch of training", c->name);
        size_t bytes = (size_t)prog_type_bytes(&c->type), n = strlen(names);
        void *data = malloc(bytes + 1);
        if (!data)
            status = OUT_OF_MEMORY(err);
        else if (rt_cell_read(s->rt, c->name, data, bytes, &e))
            status = lib_fail_rt(err, &e);
        else if (!cell_is_sound(c, data) && ++bad <= 3)
            snprintf(names + n, sizeof names - n, "%s'%s'", bad > 1 ? ", " : "", c->name);
        free(data);
    }
    if (status != NETC_OK || !bad) return status;
    return lib_fail(err, NETC_CHECK_FAILED,
                    "values that are not finite are in %s%s; load a checkpoint, or start again",
                    names, bad > 3 ? " and others" : "");
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
    const char *names[64];
    size_t n = 0;
    for (int i = 0; i < rt_cell_count(s->rt) && n < 64; i++)
        if (rt_cell_info(s->rt, i)->kind == PC_SETTING) names[n++] = rt_cell_info(s->rt, i)->name;
    if (!n)
        return lib_fail(err, NETC_INVALID,
                        "%s has no setting '%s' that is read here; write 'setting %s = VALUE' in "
                        "it, and use it",
                        s->program->name, name, name);
    return lib_fail(err, NETC_INVALID, "%s has no setting '%s' that is read here%s",
                    s->program->name, name, advise(name, names, n).text);
}

static bool remember(netc_session *s, const char *name)
{
    for (int i = 0; i < s->ngiven; i++)
        if (!strcmp(s->given[i], name)) return true;
    char **more = realloc(s->given, (size_t)(s->ngiven + 1) * sizeof *more);
    if (!more) return false;
    s->given = more;
    more[s->ngiven] = strdup(name);
    s->ngiven += more[s->ngiven] != NULL;
    return s->ngiven > 0 && more[s->ngiven - 1];
}

netc_status netc_set(netc_session *s, const char *name, double value, netc_error **err)
{
    netc_status status = setting(s, name, err);
    float v = (float)value;
    RtError e = {0};
    if (status != NETC_OK) return status;
    if (isnan(v))
        return lib_fail(err, NETC_INVALID, "setting '%s' must be a number, not nan", name);
    if (isinf(v) && !isinf(value))
        return lib_fail(err, NETC_INVALID, "setting '%s' is an f32, which %g is too large for",
                        name, value);
    if (!remember(s, name)) return OUT_OF_MEMORY(err);
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

// Whether random draws depend on the cell.
static bool counts_draws(const ProgCell *c)
{
    return !strcmp(c->name, CELL_STEP) || !strcmp(c->name, CELL_SEED) ||
           !strncmp(c->name, CELL_RUNS, strlen(CELL_RUNS));
}

typedef struct Adopting {
    netc_session *from;
    void *data; // of the last cell asked for
    RtError e;
} Adopting;

static bool is_told(const netc_session *s, const ProgCell *mine)
{
    for (int i = 0; program_told(mine) && i < rt_cell_count(s->rt); i++)
        if (!strcmp(rt_cell_info(s->rt, i)->name, mine->name)) return !rt_cell_waits(s->rt, i);
    return false;
}

static bool is_carried(const netc_session *from, const ProgCell *mine)
{
    const ProgCell *c;
    return (state_is_saved(mine) || counts_draws(mine) || is_told(from, mine)) &&
           session_cell(from, mine->name, &c) && prog_type_equal(&mine->type, &c->type);
}

static const void *find_adopted(void *ctx, const ProgCell *c)
{
    Adopting *a = ctx;
    if (a->e.code || !is_carried(a->from, c)) return NULL;
    size_t bytes = (size_t)prog_type_bytes(&c->type);
    free(a->data);
    a->data = malloc(bytes ? bytes : 1);
    if (!a->data) rt_fail(&a->e, RT_OOM, "out of memory");
    if (a->e.code || rt_cell_read(a->from->rt, c->name, a->data, bytes, &a->e)) return NULL;
    return a->data;
}

netc_status netc_adopt(netc_session *to, netc_session *from, int *carried, netc_error **err)
{
    Adopting a = {.from = from};
    netc_status status = state_put(to, &(StateSource){find_adopted, &a}, err);
    free(a.data);
    if (status == NETC_OK && a.e.code) status = lib_fail_rt(err, &a.e);
    if (status != NETC_OK || !carried) return status;
    *carried = 0;
    for (int i = 0; i < rt_cell_count(to->rt); i++) {
        const ProgCell *c = rt_cell_info(to->rt, i);
        *carried += c->kind != PC_CONTROL && is_carried(from, c);
    }
    return NETC_OK;
}
