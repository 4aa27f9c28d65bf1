// The evaluator: values, the traversal of a graph's nodes, leaves, regions and roots.
#include "ir/eval.h"

#include <string.h>

#include "ir/eval_ops.h"
#include "ir/philox.h"

// -- values ---------------------------------------------------------------------------------------

Value value_new(Arena *a, const Type *t)
{
    Value v = {.type = *t};
    size_t n = (size_t)type_count(t);
    if (dtype_is_float(t->dtype))
        v.f = NEW_ARRAY(a, double, n ? n : 1);
    else
        v.i = NEW_ARRAY(a, int64_t, n ? n : 1);
    return v;
}

void value_errors(Arena *a, Value *v)
{
    for (int k = 0; k < 2; k++) v->error[k] = NEW_ARRAY(a, double, type_count(&v->type) + 1);
}

static Value *new_value(Arena *a, const Type *t)
{
    Value *v = NEW(a, Value);
    *v = value_new(a, t);
    return v;
}

void value_from_bytes(Value *v, const void *bytes)
{
    int64_t n = type_count(&v->type), size = dtype_info[v->type.dtype].bits / 8;
    for (int64_t i = 0; i < n; i++)
        value_put(v, i, scalar_load(v->type.dtype, (const char *)bytes + i * size));
}

void value_to_bytes(const Value *v, void *bytes)
{
    int64_t n = type_count(&v->type), size = dtype_info[v->type.dtype].bits / 8;
    for (int64_t i = 0; i < n; i++)
        scalar_store(v->type.dtype, (char *)bytes + i * size, value_at(v, i));
}

void value_from_const(Value *v, const Node *n)
{
    const int64_t count = type_count(&n->type), *list = attr_ints(n, ATTR_values, NULL);
    double f = attr_float(n, ATTR_value, 0);
    int64_t whole = attr_int(n, ATTR_ivalue, (int64_t)f); // bool constants are given as a float
                                                          // value
    for (int64_t i = 0; i < count; i++) {
        if (!value_is_float(v))
            v->i[i] = list ? list[i] : whole;
        else if (list)
            memcpy(&v->f[i], &list[i], sizeof f);
        else
            v->f[i] = f;
    }
}

// -- the walk over nodes --------------------------------------------------------------------------

static EvalRule *const rules[OP_COUNT] = {
#define EW(id, ...) [OP_##id] = eval_elementwise,
#define OP(id, ...) [OP_##id] = eval_##id,
#include "ir/ops.def"
#undef EW
#undef OP
};

EvalRule *eval_rule(Op op)
{
    return rules[op];
}

// Whether n's result shares the data of another value. Other results get zeroed data of their own.
static bool shares(const Node *n)
{
    const OpClass class = node_class(n);
    return class == CLS_REGION || class == CLS_ROOT || node_has(n, OPF_MEMORY | OPF_RESULT) ||
           node_keeps_all(n);
}

enum { FINITE, HAS_INF, HAS_NAN };

static int finiteness(const Value *v)
{
    int state = FINITE;
    if (!value_is_float(v)) return state;
    int64_t n = type_count(&v->type);
    for (int64_t i = 0; i < n && state < HAS_NAN; i++)
        if (!isfinite(v->f[i])) state = v->f[i] != v->f[i] ? HAS_NAN : HAS_INF;
    return state;
}

// Records the first node whose result is less finite than its operands. A constant may be infinite
// on purpose (masks).
static void note_nonfinite(Eval *e, const Node *n, uint8_t *state)
{
    int worst = n->op == OP_const ? HAS_NAN : FINITE;
    for (uint32_t i = 0; i < n->nargs; i++)
        if (state[n->args[i]->id] > worst) worst = state[n->args[i]->id];
    state[n->id] = (uint8_t)finiteness(e->frame->value[n->id]);
    if (state[n->id] > worst && !e->out->first_nonfinite) e->out->first_nonfinite = n;
}

// Evaluates every node of g in a new frame. scales: see Frame.scales.
static Frame *eval_frame(Eval *e, const Graph *g, Value **params, bool scales)
{
    Arena *a = e->env->arena;
    Frame *frame = NEW(a, Frame), *outer = e->frame;
    uint8_t *state = NEW_ARRAY(a, uint8_t, g->nodes.n + 1);
    uint32_t widest = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->nargs > widest) widest = g->nodes.at[i]->nargs;
    Value **args = NEW_ARRAY(a, Value *, widest + 1);
    frame->value = NEW_ARRAY(a, Value *, g->nodes.n + 1);
    frame->results = NEW_ARRAY(a, Value **, g->nodes.n + 1);
    frame->params = params;
    frame->scales = scales;
    if (e->env->bound || e->env->noise) frame->is_short = bound_short(a, g);
    e->frame = frame;
    Value *const *known = e->known;
    const bool *stale = e->stale;
    e->known = NULL; // regions are computed in full
    for (uint32_t i = 0; i < g->nodes.n && !e->failed; i++) {
        const Node *n = g->nodes.at[i];
        if (known && !stale[i]) {
            frame->value[i] = known[i];
            continue;
        }
        for (uint32_t k = 0; k < n->nargs; k++) args[k] = frame->value[n->args[k]->id];
        Value *out = frame->value[i] = NEW(a, Value);
        if (!shares(n)) *out = value_new(a, &n->type);
        rules[n->op](e, n, args, out);
        if (!e->failed && (e->env->bound || e->env->noise)) bound_node(e, n, args, out);
        if (!e->failed && !e->quick) note_nonfinite(e, n, state);
    }
    e->frame = outer;
    return frame;
}

bool eval_graph_all(const Graph *g, EvalEnv *env, EvalResult *out, Value **values)
{
    memset(out, 0, sizeof *out);
    out->outputs = strmap_new(env->arena);
    out->assigns = strmap_new(env->arena);
    env->round |= env->bound || env->noise;
    Eval e = {.env = env, .out = out, .diags = g->diags};
    Frame *frame = eval_frame(&e, g, NULL, false);
    if (values) memcpy(values, frame->value, g->nodes.n * sizeof *values);
    return !e.failed;
}

bool eval_graph_again(const Graph *g, EvalEnv *env, EvalResult *out, Value *const *values,
                      const bool *stale, Value **all)
{
    memset(out, 0, sizeof *out);
    out->outputs = strmap_new(env->arena);
    out->assigns = strmap_new(env->arena);
    Eval e = {.env = env, .out = out, .diags = g->diags, .known = values, .stale = stale};
    e.quick = true;
    env->round |= env->bound || env->noise;
    Frame *frame = eval_frame(&e, g, NULL, false);
    if (all) memcpy(all, frame->value, g->nodes.n * sizeof *all);
    return !e.failed;
}

bool eval_graph(const Graph *g, EvalEnv *env, EvalResult *out)
{
    return eval_graph_all(g, env, out, NULL);
}

static void fail(Eval *e, const Node *n, const char *what, const char *name)
{
    diag_error(e->diags, n->loc, "%s: %s '%s'", op_info(n->op)->name, what, name);
    e->failed = true;
}

// -- leaves ---------------------------------------------------------------------------------------

void eval_const(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)e;
    (void)args;
    value_from_const(out, n);
}

void eval_iota(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)e;
    (void)args;
    int64_t axis = attr_int(n, ATTR_axis, 0), count = type_count(&n->type), inner = 1;
    for (int i = (int)axis + 1; i < n->type.rank; i++) inner *= n->type.dim[i];
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i / inner % n->type.dim[axis];
        value_put(out, i, scalar_cast(DT_I64, n->type.dtype, (Scalar){.i = at}, true));
    }
}

static void bound_value(Eval *e, const Node *n, const StrMap *from, const char *what, Value *out)
{
    const char *name = attr_str(n, ATTR_name);
    Value *v = strmap_get(from, name);
    if (!v) {
        fail(e, n, what, name);
    } else if (!type_equal(&v->type, &n->type)) {
        Buf b = buf_new(e->env->arena);
        type_print(&b, &v->type, NULL);
        buf_str(&b, ", the graph expects ");
        type_print(&b, &n->type, NULL);
        diag_error(e->diags, n->loc, "%s '%s': given %s", op_info(n->op)->name, name, b.data);
        e->failed = true;
    } else {
        *out = *v; // shared: no value is written to after it was computed
    }
}

void eval_input(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)args;
    bound_value(e, n, &e->env->inputs, "no value given for the input", out);
}

void eval_param(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)args;
    bound_value(e, n, &e->env->cells, "no value given for the parameter", out);
}

void eval_state(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)args;
    bound_value(e, n, &e->env->cells, "no value given for the state", out);
}

void eval_device(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)args;
    (void)out;
    fail(e, n, "is known to each of several devices only:", "their number");
}

void eval_exchange(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)args;
    (void)out;
    fail(e, n, "takes values of several devices,", "of which this is none");
}

void eval_random(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)e;
    uint64_t seed = (uint64_t)args[0]->i[0], count = (uint64_t)args[1]->i[0];
    uint64_t site = (uint64_t)attr_int(n, ATTR_site, 0);
    int bits = (int)attr_int(n, ATTR_bits, 32), lane = (int)attr_int(n, ATTR_lane, 0);
    int counts;
    const int64_t *stride = attr_ints(n, ATTR_stride, &counts), elements = type_count(&n->type);
    int64_t each = elements;
    for (int k = 0; k < counts; k++) each /= n->type.dim[k];
    for (int64_t i = 0; i < elements; i++) {
        uint64_t own = count;
        int64_t place = i / each;
        for (int k = counts; k-- > 0; place /= n->type.dim[k])
            own += (uint64_t)(place % n->type.dim[k] * stride[k]);
        out->i[i] = philox_draw(seed, own, site, (uint64_t)(i % each), bits, lane);
    }
}

void eval_region_param(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)args;
    if (e->frame->params)
        *out = *e->frame->params[attr_int(n, ATTR_index, 0)];
    else
        fail(e, n, "stands outside a region, in", "the entry");
}

// -- regions --------------------------------------------------------------------------------------

void eval_call(Eval *e, const Node *n, Value *const *args, Value *out)
{
    const Graph *r = n->regions[0];
    Value **params = NEW_ARRAY(e->env->arena, Value *, n->nargs + 1);
    for (uint32_t i = 0; i < n->nargs; i++) params[i] = args[i];
    Frame *inner = eval_frame(e, r, params, n->op == OP_call);
    if (e->failed) return;
    Value **results = NEW_ARRAY(e->env->arena, Value *, r->results.n);
    for (uint32_t i = 0; i < r->results.n; i++) results[i] = inner->value[r->results.at[i]->id];
    e->frame->results[n->id] = results;
    *out = *results[0];
}

void eval_extern(Eval *e, const Node *n, Value *const *args, Value *out)
{
    eval_call(e, n, args, out);
}

void eval_own(Eval *e, const Node *n, Value *const *args, Value *out)
{
    eval_call(e, n, args, out);
}

void eval_native(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)args;
    (void)out;
    fail(e, n, "is known to a GPU only:", attr_str(n, ATTR_text));
}

static Value *slice_of(Arena *a, const Value *v, int64_t i)
{
    Value *s = NEW(a, Value);
    s->type = v->type;
    s->type.rank--;
    for (int k = 0; k < s->type.rank; k++) s->type.dim[k] = v->type.dim[k + 1];
    s->type.dim[s->type.rank] = 0;
    int64_t size = type_count(&s->type);
    if (value_is_float(v))
        s->f = v->f + i * size;
    else
        s->i = v->i + i * size;
    for (int k = 0; k < 2 && v->error[k]; k++) s->error[k] = v->error[k] + i * size;
    return s;
}

// A copy that may have any value.
static Value *undecided(Arena *a, const Value *v)
{
    Value *out = NEW(a, Value);
    *out = *v;
    out->error[0] = out->error[1] = NULL;
    value_errors(a, out);
    for (int64_t i = 0; i < type_count(&v->type); i++)
        out->error[0][i] = out->error[1][i] = INFINITY;
    return out;
}

// What an iteration that does not take place has reported did not happen.
static void restore(Eval *e, const EvalResult *before)
{
    e->out->failed_assert = before->failed_assert;
    e->out->bad_index = before->bad_index;
    e->out->bad_value = before->bad_value;
    e->out->first_nonfinite = before->first_nonfinite;
}

void eval_loop(Eval *e, const Node *n, Value *const *args, Value *out)
{
    Arena *a = e->env->arena;
    bool unsure = false; // which iterations take place
    const Graph *r = n->regions[0];
    int64_t count = attr_int(n, ATTR_count, 0), carried = attr_int(n, ATTR_carried, 0);
    int64_t scanned = attr_int(n, ATTR_scanned, 0), reverse = attr_int(n, ATTR_reverse, 0);
    Value **results = NEW_ARRAY(a, Value *, r->results.n), **params;
    for (uint32_t i = 0; i < r->results.n; i++) {
        Type t = node_result_type(n, (int)i);
        results[i] = i < carried ? args[i] : new_value(a, &t);
    }
    Type counter = type_scalar(DT_I64);
    const int64_t runs = attr_int(n, ATTR_runs, -1);
    for (int64_t trip = 0; trip < count; trip++) {
        int64_t i = reverse ? count - 1 - trip : trip;
        params = NEW_ARRAY(a, Value *, n->nargs + 1);
        params[0] = new_value(a, &counter);
        params[0]->i[0] = i;
        for (int64_t k = 0; k < n->nargs; k++)
            params[k + 1] = k < carried             ? results[k]
                            : k < carried + scanned ? slice_of(a, args[k], i)
                                                    : args[k];
        const EvalResult before = *e->out;
        Frame *inner = eval_frame(e, r, params, n->op == OP_call);
        if (e->failed) return;
        const Value *goes = runs >= 0 ? inner->value[r->results.at[runs]->id] : NULL;
        const bool goes_on = !goes || goes->i[0];
        if (!goes_on) restore(e, &before);
        unsure |= goes && goes->error[0] && (goes->error[0][0] > 0 || goes->error[1][0] > 0);
        for (uint32_t k = 0; k < r->results.n; k++) {
            Value *v = inner->value[r->results.at[k]->id];
            if (!goes_on && k != runs) continue;
            if (k < carried) {
                if (e->env->bound) bound_carried(e, n, k, results[k], v);
                results[k] = v;
                continue;
            }
            int64_t size = type_count(&v->type);
            if (v->error[0] && !results[k]->error[0]) value_errors(a, results[k]);
            Value *row = slice_of(a, results[k], i);
            for (int64_t j = 0; j < size; j++) value_put(row, j, value_at(v, j));
            for (int side = 0; side < 2 && v->error[side]; side++)
                memcpy(row->error[side], v->error[side], (size_t)size * sizeof(double));
        }
    }
    for (uint32_t k = 0; unsure && k < r->results.n; k++) results[k] = undecided(a, results[k]);
    e->frame->results[n->id] = results;
    *out = *results[0];
}

void eval_get(Eval *e, const Node *n, Value *const *args, Value *out)
{
    Value **results = e->frame->results[n->args[0]->id];
    *out = results ? *results[attr_int(n, ATTR_index, 0)] : *args[0];
}

void eval_variable(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)e;
    (void)n;
    *out = *args[0];
}

// -- what has no value, and roots -----------------------------------------------------------------

void eval_grad(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)args;
    (void)out;
    fail(e, n, "is evaluated after autodiff, which removes", "grad");
}

void eval_poison(Eval *e, const Node *n, Value *const *args, Value *out)
{
    (void)args;
    (void)out;
    fail(e, n, "the graph holds a node whose construction failed,", "poison");
}

void eval_output(Eval *e, const Node *n, Value *const *args, Value *out)
{
    *out = *args[0];
    strmap_set(&e->out->outputs, attr_str(n, ATTR_name), out);
}

void eval_assign(Eval *e, const Node *n, Value *const *args, Value *out)
{
    *out = *args[0];
    strmap_set(&e->out->assigns, attr_str(n, ATTR_name), out);
}

void eval_assert(Eval *e, const Node *n, Value *const *args, Value *out)
{
    *out = *args[0];
    int64_t count = type_count(&args[0]->type);
    for (int64_t i = 0; i < count; i++)
        if (!args[0]->i[i] && !e->out->failed_assert) e->out->failed_assert = n;
}
