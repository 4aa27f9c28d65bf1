// Turns a loop node into a PS_LOOP step: carried values have one buffer each, scanned inputs and
// stacked results advance by one slice per iteration, and everything else is read in place. A
// carried value that is also stacked has its buffer in the stack (ir/loop.h).
#include "codegen/program/gen.h"
#include "ir/loop.h"

#include <string.h>

// A constant with all elements equal, for a uniform value that no kernel stores but that needs
// memory.
static ProgArg full_const(GenEntry *e, const Type *t, double v, const char *name)
{
    Value value = value_new(e->gen->arena, t);
    int64_t n = type_count(t);
    for (int64_t i = 0; i < n; i++) {
        if (dtype_is_float(t->dtype))
            value.f[i] = v;
        else
            value.i[i] = (int64_t)v;
    }
    return gen_arg(gen_const(e, &value, name, ""));
}

// The memory of an operand of the loop.
static bool operand(Frame *f, const Node *n, ProgArg *out)
{
    GenEntry *e = f->e;
    double v;
    *out = frame_memory(f, n);
    if ((int)out->kind == PLACE_NONE && node_const_value(n, &v)) {
        *out = full_const(e, &n->type, v, n->name ? n->name : "const");
        f->place[n->id] = *out;
    }
    if ((int)out->kind == PLACE_NONE || (node_is_data(n) && e->entry->rows)) {
        gen_internal(e->gen, n->loc, "an operand of a loop that no kernel stores");
        return false;
    }
    return true;
}

static const Node *region_param(const Graph *r, int index)
{
    for (uint32_t i = 0; i < r->params.n; i++)
        if (attr_int(r->params.at[i], ATTR_index, i) == index) return r->params.at[i];
    return NULL;
}

static const char *name_of(const Node *n, const char *otherwise)
{
    return n && n->name ? n->name : otherwise;
}

// The memory of a carried value before the loop, at the beginning and end of an iteration, and
// after the loop. All are the same, unless it is in a stack of count + 1 slices, in which iteration
// i ends at slice i + 1 (in a reverse loop: at slice i).
typedef struct Carried {
    bool stacked;
    ProgArg first, begin, end, last;
} Carried;

static Carried place_carried(Frame *f, const Node *loop, int i, const char *name)
{
    Type t = node_result_type(loop, i);
    Carried c = {.stacked = loop_stacks(loop, (uint32_t)i)};
    int64_t count = attr_int(loop, ATTR_count, 0), slice = type_bytes(&t);
    if (!c.stacked) {
        c.first = c.begin = c.end = c.last = gen_temp(f->e, &t, name, loop->loc);
        return c;
    }
    int64_t dim[MAX_RANK] = {count + 1};
    for (int k = 0; k < t.rank; k++) dim[k + 1] = t.dim[k];
    t = type_make(t.dtype, t.rank + 1, dim);
    c.first = c.begin = c.end = c.last = gen_temp(f->e, &t, name, loop->loc);
    c.begin.stride[f->depth] = c.end.stride[f->depth] = slice;
    if (attr_int(loop, ATTR_reverse, 0))
        c.first.value = count * slice, c.begin.value = slice;
    else
        c.last.value = count * slice, c.end.value = slice;
    return c;
}

static bool begin_carried(Frame *f, const Node *loop, int i, const char *name, ProgArg place)
{
    GenEntry *e = f->e;
    const Node *initial = loop->args[i];
    Type t = node_result_type(loop, i);
    ProgArg from;
    double v;
    if (node_const_value(initial, &v) && v == 0) {
        gen_zero(e, place, type_bytes(&t), f->depth, name, loop->loc);
        return true;
    }
    if (!operand(f, initial, &from)) return false;
    gen_copy(e, from, place, type_bytes(&t), f->depth, false, name, loop->loc);
    return true;
}

// Sets the memory of the body's parameters.
static bool bind_params(Frame *f, const Node *loop, Frame *body, Carried *places)
{
    const Graph *r = loop->regions[0];
    int carried = (int)attr_int(loop, ATTR_carried, 0);
    int scanned = (int)attr_int(loop, ATTR_scanned, 0);
    for (int i = 0; i < (int)loop->nargs; i++) {
        const Node *param = region_param(r, 1 + i);
        ProgArg at;
        if (i < carried) {
            const char *name = name_of(param, name_of(r->results.at[i], "carried"));
            places[i] = place_carried(f, loop, i, name);
            if (!begin_carried(f, loop, i, name, places[i].first)) return false;
            at = places[i].begin;
        } else if (param || i < carried + scanned) {
            if (!operand(f, loop->args[i], &at)) return false;
            if (i < carried + scanned && param) at.stride[f->depth] = type_bytes(&param->type);
        } else {
            continue; // captured, without readers
        }
        if (param) body->place[param->id] = at;
    }
    const Node *index = region_param(r, 0);
    if (index)
        body->place[index->id] = (ProgArg){
            .kind = PA_LOOP_INDEX, .index = f->depth, .value = attr_int(loop, ATTR_count, 0)};
    return true;
}

// Sets the memory of the body's results: carried ones for the next iteration, stacked ones as
// slices. places: memory of the loop's results.
static void bind_results(Frame *f, const Node *loop, Frame *body, const Carried *of,
                         ProgArg *places)
{
    const Graph *r = loop->regions[0];
    int carried = (int)attr_int(loop, ATTR_carried, 0);
    for (int i = 0; i < (int)r->results.n; i++) {
        const Node *value = r->results.at[i];
        bool next;
        int in = loop_stack_of(loop, (uint32_t)i, &next);
        if (in >= 0) { // values at the beginning or end of iterations, as a slice of the stack
            places[i] = next ? of[in].end : of[in].begin;
            places[i].stride[f->depth] = 0;
            continue;
        }
        Sink s = {.value = value};
        if (i < carried) {
            places[i] = of[i].last;
            s.target = of[i].end;
            s.commit = !of[i].stacked; // in a stack nothing is overwritten
        } else {
            Type t = node_result_type(loop, i);
            s.target = places[i] = gen_temp(f->e, &t, name_of(value, "stacked"), loop->loc);
            s.target.stride[f->depth] = type_bytes(&value->type);
        }
        frame_sink(body, s);
    }
}

// A CPU leaves out iterations without effect; before the loop, their slices of stacks are cleared.
static void clear_stacks(Frame *f, const Node *loop, const ProgArg *places)
{
    for (int i = (int)attr_int(loop, ATTR_carried, 0); i < node_result_count(loop); i++) {
        const Type t = node_result_type(loop, i);
        ProgArg all = places[i];
        all.stride[f->depth] = 0;
        gen_zero(f->e, all, type_bytes(&t), f->depth, "stacked", loop->loc);
    }
}

static void begin_skip(const Frame *body, const Node *loop, const Node *flag, const Carried *of)
{
    for (int i = 0; i < (int)attr_int(loop, ATTR_carried, 0); i++)
        if (loop->regions[0]->results.at[i] == flag)
            gen_copy(body->e, body->place[flag->id], of[i].end, type_bytes(&flag->type),
                     body->depth, false, name_of(flag, "flag"), loop->loc);
    ProgStep *s = gen_step(body->e, PS_SKIP, 1, body->depth, name_of(flag, "flag"), loop->loc);
    s->args[0] = body->place[flag->id];
    s->args[0].written = false;
}

bool loop_generate(Frame *f, const Group *gr)
{
    const Node *loop = gr->anchor;
    GenEntry *e = f->e;
    Gen *g = e->gen;
    if (f->depth == PROG_MAX_LOOP_DEPTH) {
        diag_error(g->diags, loop->loc, "loops are nested more than %d deep", PROG_MAX_LOOP_DEPTH);
        g->failed = true;
        return false;
    }
    if (loop->op != OP_loop || loop->nregions < 1) {
        gen_internal(g, loop->loc, "a loop group without a loop");
        return false;
    }
    Graph *r = loop->regions[0];
    int results = node_result_count(loop);
    if (r->results.n != (uint32_t)results) {
        gen_internal(g, loop->loc, "a loop whose body has another number of results");
        return false;
    }
    Frame *body = frame_new(e, r, f->depth + 1);
    body->loop = loop;
    ProgArg *places = f->results[loop->id] = NEW_ARRAY(g->arena, ProgArg, results + 1);
    Carried *of = NEW_ARRAY(g->arena, Carried, results + 1);
    if (!bind_params(f, loop, body, of)) return false;
    bind_results(f, loop, body, of, places);
    const bool may_skip = g->target->kind == TARGET_CPU && g->options->devices <= 1;
    const Node *flag = may_skip ? loop_flag(loop) : NULL;
    if (flag) clear_stacks(f, loop, places);
    gen_step(e, PS_LOOP, 0, f->depth, name_of(loop, "loop"), loop->loc);
    uint32_t at = e->steps.n - 1;
    e->steps.at[at].count = attr_int(loop, ATTR_count, 0);
    e->steps.at[at].reverse = attr_int(loop, ATTR_reverse, 0) != 0;
    e->steps.at[at].first_step = (int32_t)at + 1;
    if (flag) begin_skip(body, loop, flag, of);
    const uint32_t first = e->steps.n;
    if (!frame_generate(body)) return false;
    frame_lowers(f); // products of this graph are lowered while its steps are added
    e->steps.at[at].last_step = (int32_t)e->steps.n;
    if (e->steps.n == first) e->steps.n = at; // nothing to repeat
    return true;
}
