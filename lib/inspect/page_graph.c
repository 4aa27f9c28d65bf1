// The parts of a report about an entry's plan: each step with the operations it computes and the
// scope they were created in, what it reads and writes, and the offset in memory and the lifetime
// of each buffer.
#include <stdlib.h>
#include <string.h>

#include "lib/inspect/page.h"

int64_t page_text(Page *v, const char *text)
{
    if (!text) text = "";
    uintptr_t n = (uintptr_t)strmap_get(&v->at, text);
    if (n) return (int64_t)n - 1;
    const char *own = arena_strdup(v->arena, text);
    vec_push(v->arena, &v->s, own);
    strmap_set(&v->at, own, (void *)(uintptr_t)v->s.n);
    return (int64_t)v->s.n - 1;
}

static void put(Page *v, const char *text)
{
    json_int(v->j, page_text(v, text));
}

// -- scopes ---------------------------------------------------------------------------------------

// The common beginning of two scopes, in whole names: "h.1" for "h.1.attn" and "h.1.mlp", nothing
// for "h.1" and "h.2".
static const char *common(Page *v, const char *a, const char *b)
{
    size_t n = 0;
    for (;;) {
        size_t at = n + (n && a[n] == '.'), len = layer_name(a + at);
        if (!len || len != layer_name(b + at) || strncmp(a, b, at + len)) break;
        n = at + len;
    }
    return arena_strndup(v->arena, a, n);
}

// Whether the scope contains a parameter.
static bool is_scope(const Page *v, const char *scope, size_t n)
{
    const Program *p = v->b->program;
    for (int i = 0; i < p->ncells; i++) {
        const char *name = p->cells[i].name;
        if (p->cells[i].kind == PC_PARAM && !strncmp(name, scope, n) && name[n] == '.') return true;
    }
    return false;
}

// The scope of a value, from its name: the longest scope with which it begins. Gradients are named
// "d_NAME" and "dNAME".
static const char *scope_of_name(Page *v, const char *name)
{
    const char *best = "";
    for (size_t skip = 0; skip < 3 && !strncmp(name, "d_", skip > 1 ? 2 : skip); skip++)
        for (const char *at = name + skip, *dot = strchr(at, '.'); dot; dot = strchr(dot + 1, '.'))
            if ((size_t)(dot - at) > strlen(best) && is_scope(v, at, (size_t)(dot - at)))
                best = arena_strndup(v->arena, at, (size_t)(dot - at));
    return best;
}

typedef struct Origin { // of a step, in the model
    const char *scope;
    int phase; // a Role; -1: unknown
} Origin;

// The loop whose body is [body], in g or its regions; NULL: none.
static const Node *loop_around(const Graph *g, const Graph *body)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i], *inner;
        if (n->op != OP_loop) continue;
        if (n->regions[0] == body) return n;
        if ((inner = loop_around(n->regions[0], body))) return inner;
    }
    return NULL;
}

// The origin of a step: of those of its values that have the earliest role. Values with a later
// role are by-products, such as the sum of squares of a gradient.
static Origin origin_of_groups(Page *v, const StepRecord *r)
{
    Origin o = {NULL, ROLE_COUNT};
    for (int g = 0; g < r->ngroups; g++)
        for (uint32_t k = 0; k < r->groups[g]->outs.n; k++) {
            const Node *n = r->groups[g]->outs.at[k];
            if ((int)n->role > o.phase) continue;
            if ((int)n->role < o.phase) o = (Origin){NULL, (int)n->role};
            if (node_class(n) == CLS_ROOT) n = n->args[0];
            const char *scope = n->scope ? n->scope : "";
            o.scope = o.scope ? common(v, o.scope, scope) : scope;
        }
    // Nodes that passes have added to a loop's body may have the scope of another layer with an
    // equal loop.
    const Node *loop = loop_around(r->entry->graph, r->graph);
    if (loop) o.scope = loop->scope;
    if (!o.scope) o.scope = "";
    return o;
}

// The origin of a step without groups, or in a file without the graph: from the names of the
// buffers that it writes.
static Origin origin_of_names(Page *v, const ProgStep *s)
{
    Origin o = {NULL, -1};
    for (int i = 0; i < s->nargs; i++) {
        if (s->args[i].kind != PA_BUFFER || !s->args[i].written) continue;
        const ProgBuffer *b = &v->e->buffers[s->args[i].index];
        if (b->region == PR_ERROR || !b->name || b->name[0] == '@') continue;
        const char *scope = scope_of_name(v, b->name);
        o.scope = o.scope ? common(v, o.scope, scope) : scope;
    }
    if (!o.scope) o.scope = "";
    return o;
}

// -- operations -----------------------------------------------------------------------------------

static const char *label(Page *v, const Node *n)
{
    return n->name ? n->name : arena_printf(v->arena, "%%%u", n->id);
}

static void operation(Page *v, const Node *n)
{
    Buf type = buf_new(v->arena);
    type_print(&type, &n->type, NULL);
    json_array(v->j);
    put(v, label(v, n)), put(v, op_info(n->op)->name), put(v, type.data);
    put(v, loc_text(v->b->module->diags, n->loc));
    for (uint32_t k = 0; k < n->nargs; k++) put(v, label(v, n->args[k]));
    json_end(v->j);
}

// Lists the operations of a group: everything needed for its values, down to leaves and values
// stored by other groups.
static void operations_of(Page *v, const StepRecord *r, const Group *gr)
{
    uint32_t top = 0, waiting = 0;
    bool *need = NEW_ARRAY(v->arena, bool, r->graph->nodes.n + 1);
    for (uint32_t k = 0; k < gr->outs.n; k++) {
        uint32_t id = gr->outs.at[k]->id;
        waiting += !need[id];
        need[id] = true;
        if (id > top) top = id;
    }
    uint32_t low = top;
    for (; waiting; low--) { // operands have smaller ids
        const Node *n = r->graph->nodes.at[low];
        if (!need[low]) continue;
        waiting--;
        for (uint32_t k = 0; k < n->nargs; k++) {
            const Node *a = n->args[k];
            uint32_t by = r->graph->fusion->group_of[a->id];
            bool elsewhere = by && by != gr->id + 1 && !group_computes(gr, a);
            if (need[a->id] || elsewhere || node_class(a) == CLS_LEAF) continue;
            need[a->id] = true;
            waiting++;
        }
    }
    for (uint32_t id = low; id <= top; id++)
        if (need[id]) operation(v, r->graph->nodes.at[id]);
}

// -- steps ----------------------------------------------------------------------------------------

static void buffers_of(Page *v, const ProgStep *s, bool written)
{
    json_array(v->j);
    for (int i = 0; i < s->nargs; i++) {
        if (s->args[i].kind != PA_BUFFER || s->args[i].written != written) continue;
        const ProgBuffer *b = &v->e->buffers[s->args[i].index];
        bool own = b->region == PR_ERROR || b->region == PR_ROWS || !b->name || b->name[0] == '@';
        bool again = false;
        for (int k = 0; k < i && !again; k++)
            again = s->args[k].kind == PA_BUFFER && s->args[k].index == s->args[i].index &&
                    s->args[k].written == written;
        if (!own && !again) json_int(v->j, s->args[i].index);
    }
    json_end(v->j);
}

static bool trains(const Page *v, const ProgStep *s) // it writes a parameter
{
    for (int i = 0; i < s->nargs; i++) {
        const ProgArg *a = &s->args[i];
        const ProgBuffer *b = (int)a->kind == PA_BUFFER ? &v->e->buffers[a->index] : NULL;
        if (b && a->written && b->region == PR_CELL && v->e->kind == PK_TRAIN &&
            v->b->program->cells[b->index].kind == PC_PARAM)
            return true;
    }
    return false;
}

// Writes [place, kind, name, line, types, schedule, calls, bytes, flops, floor, scope, phase,
// [read], [written], [operations]], with the values of netc inspect --order --json.
static void step(Page *v, const Item *x, const StepRecord *r)
{
    Json *j = v->j;
    Origin o = r ? origin_of_groups(v, r) : origin_of_names(v, x->step);
    if (trains(v, x->step)) o.phase = ROLE_UPDATE;
    json_array(j);
    json_int(j, x->step - v->e->steps);
    put(v, x->kind), put(v, x->name), put(v, x->line), put(v, x->types), put(v, x->schedule);
    json_int(j, x->calls), json_int(j, x->cost.bytes), json_int(j, x->cost.flops);
    json_double(j, x->cost.floor);
    put(v, o.scope), json_int(j, o.phase);
    buffers_of(v, x->step, false), buffers_of(v, x->step, true);
    json_array(j);
    for (int g = 0; r && g < r->ngroups; g++) operations_of(v, r, r->groups[g]);
    json_end(j), json_end(j);
}

static void steps(Page *v)
{
    const StepRecord **of = NEW_ARRAY(v->arena, const StepRecord *, v->e->nsteps + 1);
    for (uint32_t i = 0; v->b->module && i < v->b->steps.n; i++) {
        const StepRecord *r = &v->b->steps.at[i];
        if (!strcmp(r->entry->name, v->e->name) && r->step < v->e->nsteps) of[r->step] = r;
    }
    json_key(v->j, "steps"), json_array(v->j);
    for (int i = 0; i < v->items.n; i++)
        step(v, &v->items.at[i], of[v->items.at[i].step - v->e->steps]);
    json_end(v->j);
    json_key(v->j, "loops"), json_array(v->j); // [first step, last step + 1, iterations]
    for (int i = 0; i < v->e->nsteps; i++) {
        const ProgStep *s = &v->e->steps[i];
        if (s->kind != PS_LOOP) continue;
        json_array(v->j);
        json_int(v->j, s->first_step), json_int(v->j, s->last_step), json_int(v->j, s->count);
        json_end(v->j);
    }
    json_end(v->j);
}

// Writes [name, region, type, line, bytes, offset, first step, last step].
static void buffers(Page *v)
{
    static const char *const regions[] = {
        [PR_ARENA] = "temporary", [PR_CELL] = "cell", [PR_INPUT] = "input", [PR_OUTPUT] = "output",
        [PR_CONST] = "constant",  [PR_ERROR] = "own", [PR_ROWS] = "own",
        [PR_DEVICE] = "own"};
    json_key(v->j, "buffers"), json_array(v->j);
    for (int i = 0; i < v->e->nbuffers; i++) {
        const ProgBuffer *b = &v->e->buffers[i];
        bool param = b->region == PR_CELL && v->b->program->cells[b->index].kind == PC_PARAM;
        char type[240];
        prog_type_text(type, sizeof type, &b->type);
        json_array(v->j);
        put(v, b->name);
        put(v, param                                       ? "parameter"
               : b->region == PR_CELL && b->name[0] != '@' ? "state"
                                                           : regions[b->region]);
        put(v, type), put(v, b->loc);
        json_int(v->j, b->bytes), json_int(v->j, b->offset);
        json_int(v->j, b->first), json_int(v->j, b->last);
        json_end(v->j);
    }
    json_end(v->j);
}

// -- lines of the model ---------------------------------------------------------------------------

static const char *line_at(Arena *a, const char *text, size_t len, long number)
{
    const char *end = text + len, *at = text;
    while (--number > 0 && at) at = memchr(at, '\n', (size_t)(end - at)), at = at ? at + 1 : NULL;
    if (!at || at >= end) return "";
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    size_t n = (size_t)((stop ? stop : end) - at);
    while (n && (*at == ' ' || *at == '\t')) at++, n--;
    enum { LONGEST = 200 };
    bool cut = n > LONGEST;
    if (cut) n = LONGEST;
    while (cut && n && ((unsigned char)at[n] & 0xc0) == 0x80) n--; // (does not cut a character)
    const char *line = text_on_one_line(a, at, n);
    return cut ? arena_printf(a, "%s ...", line) : line;
}

// The source text at a place such as "mlp.net:11".
static const char *text_at(Page *v, const char *place)
{
    const char *colon = strrchr(place, ':');
    if (!colon) return "";
    size_t n = (size_t)(colon - place);
    long number = strtol(colon + 1, NULL, 10);
    const Diags *d = v->b->module ? v->b->module->diags : NULL;
    for (uint32_t i = 0; d && i < d->sources.n; i++) {
        const Source *s = &d->sources.at[i];
        if (s->shown && strlen(s->shown) == n && !memcmp(s->shown, place, n))
            return line_at(v->arena, s->text, s->len, number);
    }
    bool own = strlen(v->p->name) == n && !memcmp(v->p->name, place, n);
    return own ? line_at(v->arena, v->p->text, v->p->len, number) : "";
}

static void lines(Page *v) // written last, when all places have numbers
{
    StrMap done = strmap_new(v->arena);
    uint32_t n = v->s.n;
    json_key(v->j, "lines"), json_array(v->j);
    for (uint32_t i = 0; i < n; i++) {
        const char *text = v->s.at[i], *colon = strrchr(text, ':');
        if (!colon || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")]) continue;
        const char *line = text_at(v, text);
        if (!*line || strmap_has(&done, text)) continue;
        strmap_set(&done, text, v);
        json_array(v->j), json_int(v->j, i), put(v, line), json_end(v->j);
    }
    json_end(v->j);
}

void page_graph(Page *v)
{
    steps(v);
    buffers(v);
    lines(v);
}
