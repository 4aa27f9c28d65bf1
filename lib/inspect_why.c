// netc inspect --why: the values that are stored between kernels, each with the cause and its
// numbers. docs/fusion.md lists the causes.
#include "lib/inspect.h"

static const char *unfused_line(const Inspect *v, const Unfused *u)
{
    return loc_text(v->b->module->diags, u->consumer->loc);
}

static void entry_text(const Inspect *v, const char *name, const Fusion *f, Buf *out)
{
    buf_printf(out, "entry %s: values that are stored between kernels, and why\n", name);
    for (uint32_t k = 0; k < f->unfused.n; k++) {
        const Unfused *u = &f->unfused.at[k];
        buf_printf(out, "  %-16s %-9s %s\n", unfused_line(v, u),
                   arena_printf(v->arena, "[%s]", unfused_cause(u->cause)),
                   unfused_text(v->arena, u));
    }
}

static void entry_json(const Inspect *v, const char *name, const Fusion *f, Json *j)
{
    json_object(j);
    json_key(j, "name"), json_string(j, name);
    json_key(j, "stored"), json_array(j);
    for (uint32_t k = 0; k < f->unfused.n; k++) {
        const Unfused *u = &f->unfused.at[k];
        json_object(j);
        json_key(j, "cause"), json_string(j, unfused_cause(u->cause));
        json_key(j, "a"), json_int(j, u->a);
        json_key(j, "b"), json_int(j, u->b);
        json_key(j, "line"), json_string(j, unfused_line(v, u));
        json_key(j, "text"), json_string(j, unfused_text(v->arena, u));
        json_end(j);
    }
    json_end(j), json_end(j);
}

netc_status inspect_why(const Inspect *v, Buf *out)
{
    const Module *m = v->b->module;
    if (!m)
        return lib_fail(v->err, NETC_INVALID, "%s holds no graph; ask --why of its .net source",
                        v->p->name);
    Json j = json_writer(out);
    if (v->o->json) {
        json_object(&j);
        json_key(&j, "model"), json_string(&j, v->b->program->model);
        json_key(&j, "target"), json_string(&j, v->b->program->target);
        json_key(&j, "entries"), json_array(&j);
    } else {
        buf_printf(out, "%s for %s\n", v->b->program->model, v->note);
    }
    for (uint32_t i = 0; i < m->entries.n; i++) {
        const Fusion *f = m->entries.at[i].graph->fusion;
        if (!f || (!f->unfused.n && !v->o->json)) continue;
        if (v->o->json)
            entry_json(v, m->entries.at[i].name, f, &j);
        else
            entry_text(v, m->entries.at[i].name, f, out);
    }
    if (v->o->json) json_end(&j), json_end(&j), buf_char(out, '\n');
    return NETC_OK;
}
