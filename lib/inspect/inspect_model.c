// netc inspect --model: a table of a model's layers, with what they hold and compute. The text is
// elaborated again, so that this also works for a model.bin, and nothing is compiled.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/inspect/inspect.h"
#include "lib/inspect/layers.h"

enum { COLUMNS = 6 }; // layer, number, output, parameters, operations, activations

typedef struct Row {
    const char *text[COLUMNS];
} Row;

typedef struct Table {
    Arena *a;
    VEC(Row) rows;
} Table;

const char *grouped(Arena *a, int64_t n)
{
    const char *digits = arena_printf(a, "%" PRId64, n);
    Buf b = buf_new(a);
    for (size_t len = strlen(digits), i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0) buf_char(&b, ',');
        buf_char(&b, digits[i]);
    }
    return b.data;
}

static const char *scaled(Arena *a, double n, double step, const char *const units[])
{
    int k = 0;
    for (; n >= step && units[k + 1]; k++) n /= step;
    return arena_printf(a, k ? "%.2f%s" : "%.0f%s", n, units[k]);
}

static const char *flops_text(Arena *a, int64_t n)
{
    static const char *const units[] = {"", " k", " M", " G", " T", " P", NULL};
    return scaled(a, (double)n, 1e3, units);
}

static const char *bytes_text(Arena *a, int64_t n)
{
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB", NULL};
    return scaled(a, (double)n, 1024, units);
}

static const char *type_of(Arena *a, const Node *n)
{
    Buf b = buf_new(a);
    if (n) type_print(&b, &n->type, NULL);
    return n ? b.data : "";
}

// The number of layers from the i-th on that are equal and numbered in sequence: h.0, h.1, h.2.
static uint32_t alike(Arena *a, const Layer *up, uint32_t i)
{
    const Layer *first = up->below.at[i];
    const char *dot = strrchr(first->name, '.');
    uint32_t n = 1;
    for (; dot && i + n < up->below.n; n++) {
        const char *name = arena_printf(a, "%.*s.%ld", (int)(dot - first->name), first->name,
                                        atol(dot + 1) + (long)n);
        if (strcmp(up->below.at[i + n]->name, name) || !layers_equal(first, up->below.at[i + n]))
            break;
    }
    return n;
}

static void add_row(Table *t, const Layer *l, const char *name, uint32_t times, const char *out)
{
    Row r = {{name, times > 1 ? arena_printf(t->a, "%u", times) : "", out, grouped(t->a, l->params),
              flops_text(t->a, l->flops), bytes_text(t->a, l->activations)}};
    vec_push(t->a, &t->rows, r);
}

static void add_below(Table *t, const Layer *up, int depth)
{
    for (uint32_t i = 0, n; i < up->below.n; i += n) {
        const Layer *l = up->below.at[i];
        n = alike(t->a, up, i);
        const char *to = n > 1 ? strrchr(up->below.at[i + n - 1]->name, '.') + 1 : "";
        add_row(t, l,
                arena_printf(t->a, "%*s%s%s%s", 2 * depth, "", l->name, n > 1 ? ".." : "", to), n,
                type_of(t->a, l->out));
        add_below(t, l, depth + 1);
    }
}

static void print_table(const Table *t, Buf *out)
{
    int width[COLUMNS] = {0};
    for (uint32_t i = 0; i < t->rows.n; i++)
        for (int k = 0; k < COLUMNS; k++) {
            int n = (int)strlen(t->rows.at[i].text[k]);
            if (n > width[k]) width[k] = n;
        }
    for (uint32_t i = 0; i < t->rows.n; i++) {
        const char *const *x = t->rows.at[i].text;
        buf_printf(out, "%-*s  %*s  %-*s  %*s  %*s  %*s\n", width[0], x[0], width[1], x[1],
                   width[2], x[2], width[3], x[3], width[4], x[4], width[5], x[5]);
    }
}

static void model_text(const Inspect *v, const Entry *e, const Layer *top, Buf *out)
{
    Table t = {.a = v->arena};
    const Row head = {{"layer", "times", "output", "parameters", "flops", "activations"}};
    buf_printf(out, "%s, entry %s", top->name, e->name);
    for (uint32_t i = 0; i < e->dims.n; i++)
        buf_printf(out, "%s %s = %" PRId64, i ? "," : ":", e->dims.at[i].name, e->dims.at[i].value);
    buf_char(out, '\n');
    vec_push(v->arena, &t.rows, head);
    add_below(&t, top, 0);
    add_row(&t, top, "in all", 1, "");
    print_table(&t, out);
    buf_printf(out, "%s of parameters", bytes_text(v->arena, top->param_bytes));
    if (top->frozen) buf_printf(out, ", %s of them frozen", grouped(v->arena, top->frozen));
    if (e->batch > 1)
        buf_printf(out, "; %s flops an example", flops_text(v->arena, top->flops / e->batch));
    buf_char(out, '\n');
}

void layer_json(const Layer *l, Json *j)
{
    json_object(j);
    json_key(j, "name"), json_string(j, l->name);
    json_key(j, "output");
    if (l->out) {
        json_array(j);
        for (int k = 0; k < l->out->type.rank; k++) json_int(j, l->out->type.dim[k]);
        json_end(j);
    } else {
        json_null(j);
    }
    json_key(j, "parameters"), json_int(j, l->params);
    json_key(j, "frozen"), json_int(j, l->frozen);
    json_key(j, "parameter_bytes"), json_int(j, l->param_bytes);
    json_key(j, "flops"), json_int(j, l->flops);
    json_key(j, "activation_bytes"), json_int(j, l->activations);
    json_key(j, "layers"), json_array(j);
    for (uint32_t i = 0; i < l->below.n; i++) layer_json(l->below.at[i], j);
    json_end(j);
    json_end(j);
}

const char *inspect_evaluated(const FileDecls *d)
{
    return d->averaged ? d->trains : "eval";
}

// The entry to show: the requested model, otherwise the trained model as it is evaluated, otherwise
// the only one.
static const char *entry_shown(const Inspect *v)
{
    const FileDecls *d = v->p->decls;
    const char *asked = v->o->kernel ? v->o->kernel : v->o->entry;
    if (asked && !(d->trains && !strcmp(asked, "eval"))) return asked;
    if (d->trains) return inspect_evaluated(d);
    if (d->models.n == 1) return d->models.at[0];
    Buf names = buf_new(v->arena);
    for (uint32_t k = 0; k < d->models.n; k++)
        buf_printf(&names, "%s%s", k ? ", " : "", d->models.at[k]);
    lib_fail(v->err, NETC_INVALID,
             d->models.n ? "%s trains none of its models; name one after it: %s"
                         : "%s has no model%s",
             v->p->name, d->models.n ? names.data : "");
    return NULL;
}

netc_status inspect_layers(netc_program *p, Arena *a, const char *entry, const Entry **e,
                           const Layer **top, netc_error **err)
{
    Diags *d = diags_new(a);
    FrontendOptions o = lib_frontend_options(p, a, "", entry);
    Module *m = frontend_compile(a, d, p->name, p->text, p->len, &o);
    if (!m || d->errors) return lib_fail_diags(err, NETC_INVALID, d);
    *e = module_entry(m, entry);
    *top = layers_of(a, m, (*e)->graph);
    return NETC_OK;
}

netc_status inspect_model(const Inspect *v, Buf *out)
{
    const char *name = entry_shown(v);
    if (!name) return NETC_INVALID;
    const Entry *e;
    const Layer *top;
    netc_status status = inspect_layers(v->p, v->arena, name, &e, &top, v->err);
    if (status != NETC_OK) return status;
    if (v->o->json) {
        Json j = json_writer(out);
        layer_json(top, &j);
        buf_char(out, '\n');
    } else {
        model_text(v, e, top, out);
    }
    return NETC_OK;
}
