// The text form: a module as a program of primitives, which the frontend reads back to an equal
// module.
#include <string.h>

#include "ir/module.h"

typedef struct Print {
    Buf *out;
    const Module *m;
    int64_t next; // number of the next v; continues through regions, so that no name is used twice
    int64_t next_param; // number of the next p; likewise
} Print;

static void text(Buf *out, const char *s)
{
    buf_char(out, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c == '\n')
            buf_str(out, "\\n");
        else if (c == '\t')
            buf_str(out, "\\t");
        else
            buf_char(out, (char)c);
    }
    buf_char(out, '"');
}

// Prints a float exactly, and so that it cannot be read as an integer.
static void exact(Buf *out, double v)
{
    size_t from = out->len;
    buf_double(out, v);
    if (!strpbrk(out->data + from, ".einf")) buf_str(out, ".0"); // "inf" and "nan" contain an n
}

static void attr(Buf *out, const AttrValue *v)
{
    buf_printf(out, "%s=", attr_name(v->key));
    switch (attr_kind(v->key)) {
    case AK_INT: buf_printf(out, "%lld", (long long)v->i); break;
    case AK_FLOAT: exact(out, v->f); break;
    case AK_STR: text(out, v->s); break;
    case AK_DTYPE: buf_str(out, dtype_info[v->i].name); break;
    case AK_INTS:
        buf_char(out, '[');
        for (int i = 0; i < v->n; i++)
            buf_printf(out, "%s%lld", i ? ", " : "", (long long)v->ints[i]);
        buf_char(out, ']');
        break;
    }
}

static const char *role_name(Role r)
{
    static const char *const names[ROLE_COUNT] = {"forward", "backward", "update"};
    return names[r];
}

static void attributes(Buf *out, const Node *n)
{
    bool role = n->role != ROLE_FORWARD, name = n->name && *n->name;
    if (!n->attrs->n && !role && !name) return;
    const char *sep = "";
    buf_str(out, " @{");
    for (int i = 0; i < n->attrs->n; i++, sep = ", ") {
        buf_str(out, sep);
        attr(out, &n->attrs->at[i]);
    }
    if (role) {
        buf_printf(out, "%srole=\"%s\"", sep, role_name(n->role));
        sep = ", ";
    }
    if (name) {
        buf_printf(out, "%sas=", sep);
        text(out, n->name);
    }
    buf_char(out, '}');
}

static void statements(Print *p, const Graph *g, int indent, int64_t *id);

static void region(Print *p, const Graph *r, int indent)
{
    int64_t *id = NEW_ARRAY(p->m->arena, int64_t, r->nodes.n + 1);
    buf_str(p->out, " { (");
    for (uint32_t i = 0; i < r->params.n; i++) {
        const Node *n = r->params.at[i];
        id[n->id] = p->next_param++;
        buf_printf(p->out, "%sp%lld: ", i ? ", " : "", (long long)id[n->id]);
        type_print(p->out, &n->type, NULL);
    }
    buf_str(p->out, ") ->\n");
    statements(p, r, indent + 4, id);
    buf_pad(p->out, indent + 4, ' ');
    buf_str(p->out, "return ");
    for (uint32_t i = 0; i < r->results.n; i++) {
        const Node *n = r->results.at[i];
        buf_printf(p->out, "%s%c%lld", i ? ", " : "", n->op == OP_region_param ? 'p' : 'v',
                   (long long)id[n->id]);
    }
    buf_char(p->out, '\n');
    buf_pad(p->out, indent, ' ');
    buf_char(p->out, '}');
}

static void statements(Print *p, const Graph *g, int indent, int64_t *id)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        if (n->op == OP_region_param) continue; // printed in the head of its region
        buf_pad(p->out, indent, ' ');
        if (node_class(n) != CLS_ROOT) {
            id[i] = p->next++;
            buf_printf(p->out, "v%lld = ", (long long)id[i]);
        }
        buf_printf(p->out, "%s(", op_info(n->op)->name);
        for (uint32_t k = 0; k < n->nargs; k++)
            buf_printf(p->out, "%s%c%lld", k ? ", " : "",
                       n->args[k]->op == OP_region_param ? 'p' : 'v',
                       (long long)id[n->args[k]->id]);
        buf_char(p->out, ')');
        attributes(p->out, n);
        for (uint32_t k = 0; k < n->nregions; k++) region(p, n->regions[k], indent);
        if (node_class(n) != CLS_ROOT) {
            buf_str(p->out, "  # ");
            type_print(p->out, &n->type, g->symbols);
            const char *at = loc_text(g->diags, n->loc);
            if (*at) buf_printf(p->out, "  %s", at);
        }
        buf_char(p->out, '\n');
    }
}

static void cell(Buf *out, const Cell *c)
{
    static const char *const kinds[] = {"param",   "state",   "scratch",
                                        "setting", "control", "prepared"};
    buf_str(out, "cell ");
    text(out, c->name);
    buf_str(out, ": ");
    type_print(out, &c->type, NULL);
    buf_printf(out, " @{kind=\"%s\", frozen=%d, optimizer=%d, initial=", kinds[c->kind], c->frozen,
               c->optimizer);
    exact(out, c->initial);
    buf_str(out, c->first_batch ? ", first_batch=1}\n" : "}\n");
}

static void entry(Print *p, const Entry *e)
{
    static const char *const kinds[] = {"init", "train", "eval", "model"};
    buf_str(p->out, "entry ");
    if (strchr(e->name, '.'))
        text(p->out, e->name);
    else
        buf_str(p->out, e->name);
    buf_printf(p->out, " @{kind=\"%s\", rows=%d", kinds[e->kind], e->rows);
    if (e->cursor) {
        buf_str(p->out, ", cursor=");
        text(p->out, e->cursor);
    }
    buf_printf(p->out, ", batch=%lld, dims=[", (long long)e->batch);
    for (uint32_t i = 0; i < e->dims.n; i++) {
        const DimBinding *d = &e->dims.at[i];
        buf_str(p->out, i ? ", " : "");
        text(p->out, d->name);
        buf_printf(p->out, ", %lld, %d, %d", (long long)d->value, (int)d->from, d->is_batch);
    }
    buf_str(p->out, "]} {\n");
    int64_t *id = NEW_ARRAY(p->m->arena, int64_t, e->graph->nodes.n + 1);
    p->next = p->next_param = 0;
    statements(p, e->graph, 4, id);
    buf_str(p->out, "}\n");
}

void module_print(const Module *m, const char *stage, Buf *out)
{
    Print p = {.out = out, .m = m};
    buf_str(out, "module ");
    text(out, m->name); // the name of a file need not be an identifier
    buf_printf(out, " @{version=1, stage=\"%s\"}\n", stage);
    for (uint32_t i = 0; i < m->cells.n; i++) cell(out, &m->cells.at[i]);
    for (uint32_t i = 0; i < m->entries.n; i++) {
        buf_char(out, '\n');
        entry(&p, &m->entries.at[i]);
    }
}

// -- Graphviz -------------------------------------------------------------------------------------

static void dot_body(const Graph *g, const char *prefix, Buf *out)
{
    static const char *const color[ROLE_COUNT] = {"black", "firebrick", "steelblue"};
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        const char *name = attr_str(n, ATTR_name);
        if (!name) name = n->name;
        buf_printf(out, "  %s%u [color=%s, label=\"%s", prefix, i, color[n->role],
                   op_info(n->op)->name);
        for (const char *s = name ? name : ""; *s; s++) {
            if (s == name) buf_str(out, "\\n");
            if (*s == '"' || *s == '\\') buf_char(out, '\\');
            buf_char(out, *s);
        }
        buf_str(out, "\\n");
        type_print(out, &n->type, g->symbols);
        buf_str(out, "\"];\n");
        for (uint32_t k = 0; k < n->nargs; k++)
            buf_printf(out, "  %s%u -> %s%u;\n", prefix, n->args[k]->id, prefix, i);
        for (uint32_t k = 0; k < n->nregions; k++) {
            const char *inner = arena_printf(g->arena, "%s%u_%u_", prefix, i, k);
            buf_printf(out, "  subgraph cluster_%s {\n  label=\"%s v%u\";\n", inner,
                       op_info(n->op)->name, i);
            dot_body(n->regions[k], inner, out);
            buf_str(out, "  }\n");
        }
    }
}

void graph_dot_text(const Graph *g, Buf *out)
{
    buf_str(out, "digraph {\n  node [shape=box, fontname=\"monospace\"];\n");
    dot_body(g, "v", out);
    buf_str(out, "}\n");
}
