// netc inspect --params: a model's parameters and states with their initial values. The text is
// elaborated again, so that this also works for a model.bin, and nothing is compiled.
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"
#include "lib/inspect/inspect.h"

static const char *kind_of(const Cell *c)
{
    if (c->kind == CELL_SETTING) return "setting";
    if (c->kind != CELL_PARAM) return c->optimizer ? "optimizer" : "state";
    return c->frozen ? "frozen" : "parameter";
}

static bool is_kept(const Cell *c)
{
    return c->kind == CELL_PARAM || c->kind == CELL_STATE || c->kind == CELL_SETTING;
}

static const char *begin_of(Arena *a, const Cell *c)
{
    Buf b = buf_new(a);
    if (c->begins) return c->begins;
    buf_double(&b, c->initial);
    return b.data;
}

static const char *type_of(Arena *a, const Module *m, const Cell *c)
{
    Buf b = buf_new(a);
    type_print(&b, &c->type, m->symbols.at);
    return b.data;
}

static void list_json(const Inspect *v, const Module *m, Buf *out)
{
    Json j = json_writer(out);
    json_array(&j);
    for (uint32_t i = 0; i < m->cells.n; i++) {
        const Cell *c = &m->cells.at[i];
        if (!is_kept(c)) continue;
        json_object(&j);
        json_key(&j, "name"), json_string(&j, c->name);
        json_key(&j, "kind"), json_string(&j, kind_of(c));
        json_key(&j, "type"), json_string(&j, dtype_info[c->type.dtype].name);
        json_key(&j, "shape"), json_array(&j);
        for (int k = 0; k < c->type.rank; k++) json_int(&j, c->type.dim[k]);
        json_end(&j);
        json_key(&j, "begins"), json_string(&j, begin_of(v->arena, c));
        json_key(&j, "line"), json_string(&j, loc_text(m->diags, c->loc));
        json_end(&j);
    }
    json_end(&j);
    buf_char(out, '\n');
}

static int widest(int now, const char *text)
{
    int n = (int)strlen(text);
    return n > now ? n : now;
}

static void list_text(const Inspect *v, const Module *m, Buf *out)
{
    enum { NAME, TYPE, BEGINS, COLUMNS, WIDEST = 48 };
    int width[COLUMNS] = {(int)strlen("name"), (int)strlen("type"), (int)strlen("begins as")};
    int64_t elements = 0;
    uint32_t tensors = 0;
    for (uint32_t i = 0; i < m->cells.n; i++) {
        const Cell *c = &m->cells.at[i];
        if (!is_kept(c)) continue;
        width[NAME] = widest(width[NAME], c->name);
        width[TYPE] = widest(width[TYPE], type_of(v->arena, m, c));
        width[BEGINS] = widest(width[BEGINS], begin_of(v->arena, c));
        if (c->kind != CELL_PARAM) continue;
        elements += type_count(&c->type);
        tensors++;
    }
    for (int i = 0; i < COLUMNS; i++) width[i] = width[i] < WIDEST ? width[i] : WIDEST;
    buf_printf(out, "%s: %lld parameter%s in %u tensor%s\n", m->name, (long long)elements,
               plural(elements), tensors, plural(tensors));
    buf_printf(out, "%-*s  %-9s  %-*s  %-*s  line\n", width[NAME], "name", "kind", width[TYPE],
               "type", width[BEGINS], "begins as");
    for (uint32_t i = 0; i < m->cells.n; i++) {
        const Cell *c = &m->cells.at[i];
        if (!is_kept(c)) continue;
        buf_printf(out, "%-*s  %-9s  %-*s  %-*s  %s\n", width[NAME], c->name, kind_of(c),
                   width[TYPE], type_of(v->arena, m, c), width[BEGINS], begin_of(v->arena, c),
                   loc_text(m->diags, c->loc));
    }
}

netc_status inspect_params(const Inspect *v, Buf *out)
{
    netc_program *p = v->p;
    Diags *d = diags_new(v->arena);
    FrontendOptions o = lib_frontend_options(p, v->arena, "", "");
    Module *m = frontend_compile(v->arena, d, p->name, p->text, p->len, &o);
    if (!m || d->errors) return lib_fail_diags(v->err, NETC_INVALID, d);
    if (v->o->json)
        list_json(v, m, out);
    else
        list_text(v, m, out);
    return NETC_OK;
}
