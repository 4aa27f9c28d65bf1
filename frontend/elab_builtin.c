// Built-in functions that inspect values or create leaves. Those that move data are in elab_shape.c
// and elab_index.c; elementwise ops and reductions are found in the op table by name; the rest is
// written in std/*.net.
#include <string.h>

#include "frontend/elab.h"

static Val node_val(Node *n)
{
    return n ? val_node(n) : val_poison();
}

static const Type *type_of(Elab *e, const Call *c, Type *room)
{
    const Val *v = &c->arg[0];
    if (v->kind == V_TENSOR) return &v->node->type;
    if (v->kind == V_CELL) return &v->cell->cell.type;
    if (val_is_weak(v)) return *room = type_scalar(DT_F32), room;
    Node *n = to_tensor(e, v, DT_COUNT, c->arg_span[0]);
    return n ? &n->type : NULL;
}

static Val size_val(const Type *t, int axis)
{
    Val v = val_int(t->dim[axis]);
    v.sym = t->sym[axis];
    return v;
}

static Val run_shape(Elab *e, const Call *c)
{
    Type room;
    const Type *t = type_of(e, c, &room);
    if (!t) return val_poison();
    Val v = val_seq(e, V_LIST, t->rank);
    for (int i = 0; i < t->rank; i++) v.seq->at[i] = size_val(t, i);
    return v;
}

static Val run_dim(Elab *e, const Call *c)
{
    Type room;
    const Type *t = type_of(e, c, &room);
    int axis;
    if (!t || !to_axis(e, &c->arg[1], c->arg_span[1], t->rank, &axis)) return val_poison();
    return size_val(t, axis);
}

static Val run_rank(Elab *e, const Call *c)
{
    Type room;
    const Type *t = type_of(e, c, &room);
    return t ? val_int(t->rank) : val_poison();
}

static Val run_numel(Elab *e, const Call *c)
{
    Type room;
    const Type *t = type_of(e, c, &room);
    return t ? val_int(type_count(t)) : val_poison();
}

static Val run_dtype(Elab *e, const Call *c)
{
    Type room;
    const Type *t = type_of(e, c, &room);
    return t ? (Val){.kind = V_DTYPE, .dtype = t->dtype} : val_poison();
}

static Val run_is_float(Elab *e, const Call *c)
{
    Type room;
    if (c->arg[0].kind == V_INT || c->arg[0].kind == V_BOOL) return val_bool(false);
    const Type *t = type_of(e, c, &room);
    return t ? val_bool(dtype_is_float(t->dtype)) : val_poison();
}

static Val run_is_list(Elab *e, const Call *c)
{
    uint32_t n;
    (void)e;
    return val_bool(seq_length(&c->arg[0], &n));
}

static Val run_is_string(Elab *e, const Call *c)
{
    (void)e;
    return val_bool(c->arg[0].kind == V_STRING);
}

static Val run_is_tensor(Elab *e, const Call *c)
{
    (void)e;
    return val_bool(val_is_tensor(&c->arg[0]));
}

static Val run_len(Elab *e, const Call *c)
{
    uint32_t n;
    if (seq_length(&c->arg[0], &n)) return val_int(n);
    if (c->arg[0].kind == V_STRING) return val_int((int64_t)strlen(c->arg[0].s));
    Diag *d = error_at(e, c->arg_span[0], "len of %s", val_text(e, &c->arg[0]));
    if (val_is_tensor(&c->arg[0])) diag_note(e->diags, d, "dim(x, 0) is the size of axis 0");
    return val_poison();
}

// Prints lists as they are written; deeply nested ones only as their length.
static void put_text(Elab *e, const Val *v, int depth, Buf *b)
{
    enum { DEEPEST = 8 };
    if (v->kind == V_INT) {
        buf_printf(b, "%lld", (long long)v->i);
    } else if (v->kind == V_FLOAT) {
        buf_double(b, v->f);
    } else if (v->kind == V_STRING) {
        buf_str(b, v->s);
    } else if ((v->kind == V_LIST || v->kind == V_TUPLE) && depth < DEEPEST) {
        buf_char(b, '[');
        for (uint32_t i = 0; i < v->seq->n; i++) {
            buf_str(b, i ? ", " : "");
            put_text(e, &v->seq->at[i], depth + 1, b);
        }
        buf_char(b, ']');
    } else {
        buf_str(b, val_text(e, v));
    }
}

static Val run_str(Elab *e, const Call *c)
{
    Buf b = buf_new(e->arena);
    put_text(e, &c->arg[0], 0, &b);
    return string_fits(e, b.len, c->span) ? val_string(b.data) : val_poison();
}

static Val run_enumerate(Elab *e, const Call *c)
{
    uint32_t n;
    if (!seq_length(&c->arg[0], &n))
        return fail(e, c->arg_span[0], "enumerate needs a list, found %s", val_text(e, &c->arg[0]));
    if (!list_fits(e, n, c->arg_span[0])) return val_poison();
    Val v = val_seq(e, V_LIST, n);
    for (uint32_t i = 0; i < n; i++) {
        v.seq->at[i] = val_seq(e, V_TUPLE, 2);
        v.seq->at[i].seq->at[0] = val_int(i);
        v.seq->at[i].seq->at[1] = seq_item(e, &c->arg[0], i);
    }
    return v;
}

static Val run_zip(Elab *e, const Call *c)
{
    uint32_t n, m;
    if (!seq_length(&c->arg[0], &n) || !seq_length(&c->arg[1], &m))
        return fail(e, c->span, "zip needs two lists");
    if (n != m)
        return fail(e, c->span, "zip needs lists of the same length, found %u and %u items", n, m);
    if (!list_fits(e, n, c->span)) return val_poison();
    Val v = val_seq(e, V_LIST, n);
    for (uint32_t i = 0; i < n; i++) {
        v.seq->at[i] = val_seq(e, V_TUPLE, 2);
        v.seq->at[i].seq->at[0] = seq_item(e, &c->arg[0], i);
        v.seq->at[i].seq->at[1] = seq_item(e, &c->arg[1], i);
    }
    return v;
}

static bool type_arg(Elab *e, const Call *c, int i, DType *out)
{
    if (val_missing(&c->arg[i])) return true;
    if (c->arg[i].kind == V_DTYPE) return *out = c->arg[i].dtype, true;
    fail(e, c->arg_span[i], "expected an element type like f32, found %s%s",
         val_text(e, &c->arg[i]),
         c->arg[i].kind == V_INT ? "; a shape is one argument: [3, 4]" : "");
    return false;
}

static Val run_cast(Elab *e, const Call *c)
{
    DType t = DT_F32;
    if (!type_arg(e, c, 1, &t)) return val_poison();
    // A number is converted to t directly, since 0.1 as f64 differs from 0.1 as f32.
    DType weak = c->arg[0].kind != V_FLOAT ? DT_COUNT : dtype_is_float(t) ? t : DT_F64;
    Node *n = to_tensor(e, &c->arg[0], val_is_weak(&c->arg[0]) ? weak : t, c->arg_span[0]);
    if (!n) return val_poison();
    at_span(e, c->span);
    return n->type.dtype == t ? val_node(n) : val_node(graph_cast(e->g, n, t));
}

static Val run_tensor(Elab *e, const Call *c)
{
    DType t = DT_COUNT;
    if (!type_arg(e, c, 1, &t)) return val_poison();
    at_span(e, c->span);
    return node_val(to_tensor(e, &c->arg[0], t, c->arg_span[0]));
}

static Val run_full(Elab *e, const Call *c)
{
    Type t = {0};
    if (!to_shape(e, &c->arg[0], c->arg_span[0], &t)) return val_poison();
    t.dtype = c->arg[1].kind == V_BOOL ? DT_BOOL : DT_F32;
    if (!type_arg(e, c, 2, &t.dtype)) return val_poison();
    at_span(e, c->span);
    Node *n = to_tensor(e, &c->arg[1], t.dtype, c->arg_span[1]);
    if (!n) return val_poison();
    t.dtype = n->type.dtype;
    return val_node(graph_broadcast_to(e->g, n, &t));
}

static Val full_of(Elab *e, const Call *c, int64_t v)
{
    bool truth = c->arg[1].kind == V_DTYPE && c->arg[1].dtype == DT_BOOL;
    Val args[3] = {c->arg[0], truth ? val_bool(v) : val_int(v), c->arg[1]};
    Span spans[3] = {c->arg_span[0], c->span, c->arg_span[1]};
    return run_full(e, &(Call){.span = c->span, .arg = args, .arg_span = spans});
}

static Val run_zeros(Elab *e, const Call *c)
{
    return full_of(e, c, 0);
}

static Val run_ones(Elab *e, const Call *c)
{
    return full_of(e, c, 1);
}

static Val run_iota(Elab *e, const Call *c)
{
    Type t = {.dtype = DT_I32};
    int axis = 0;
    if (!to_shape(e, &c->arg[0], c->arg_span[0], &t) || !type_arg(e, c, 2, &t.dtype))
        return val_poison();
    if (!val_missing(&c->arg[1]) && !to_axis(e, &c->arg[1], c->arg_span[1], t.rank, &axis))
        return val_poison();
    if (!t.rank) return fail(e, c->span, "iota needs an axis to count along");
    if (!int_fits(t.dtype, t.dim[axis] - 1))
        return fail(e, c->span, "the last number of this iota, %lld, does not fit into %s",
                    (long long)t.dim[axis] - 1, dtype_info[t.dtype].name);
    Attrs attrs = {0};
    attr_set_ints(e->g, &attrs, ATTR_shape, t.dim, t.rank);
    attr_set_int(&attrs, ATTR_dtype, t.dtype);
    attr_set_int(&attrs, ATTR_axis, axis);
    at_span(e, c->span);
    Node *n = graph_node(e->g, OP_iota, NULL, 0, &attrs);
    memcpy(n->type.sym, t.sym, sizeof t.sym);
    return val_node(n);
}

static Val run_grad(Elab *e, const Call *c)
{
    Node *y = tensor_arg(e, c, 0);
    if (!y) return val_poison();
    if (y->type.rank || !dtype_is_float(y->type.dtype)) {
        Diag *d = error_at(e, c->arg_span[0], "grad differentiates a float scalar, found %s",
                           type_text(e, &y->type));
        diag_note(e->diags, d,
                  dtype_is_float(y->type.dtype)
                      ? "sum(…) or mean(…) makes one"
                      : "gradients flow through floats only; write cast(…, f32) of what is read");
        return val_poison();
    }
    y = loss_scaled(e, y, c->arg_span[0]);
    uint32_t n = 1;
    bool many = seq_length(&c->arg[1], &n);
    if (!list_fits(e, n, c->arg_span[1])) return val_poison();
    Val out = val_seq(e, V_LIST, n);
    for (uint32_t i = 0; i < n; i++) {
        Val xv = many ? seq_item(e, &c->arg[1], i) : c->arg[1];
        Node *x = val_is_tensor(&xv) ? to_tensor(e, &xv, DT_COUNT, c->arg_span[1]) : NULL;
        if (!x || !dtype_is_float(x->type.dtype))
            return fail(e, c->arg_span[1], "grad is taken with respect to a float tensor, found %s",
                        val_text(e, &xv));
        if (region_cuts(e, y, x)) {
            Diag *d = error_at(e, c->span,
                               "this gradient would be zero: values from outside a loop are "
                               "constant in its iterations");
            diag_note(e->diags, d,
                      "compute the differentiated value inside the loop, from the values that the "
                      "gradient is taken with respect to");
            return val_poison();
        }
        at_span(e, c->span);
        Node *d = graph_node(e->g, OP_grad, (Node *[]){y, x}, 2, NULL);
        out.seq->at[i] = val_node(gradient_unscaled(e, d, c->span));
        if (out.seq->at[i].kind == V_POISON) return val_poison();
    }
    return many ? out : out.seq->at[0];
}

static Val run_where(Elab *e, const Call *c)
{
    return apply_op(e, OP_select, c->arg, c->arg_span, 3, c->span);
}

static Val run_fail(Elab *e, const Call *c)
{
    if (c->arg[0].kind != V_STRING) return fail(e, c->span, "error needs a text");
    // The rest of the function would fail for the same reason.
    if (e->frame->fn && e->frame->fn->kind == STMT_FN)
        e->frame->returned = true, e->frame->result = val_poison();
    return fail(e, c->span, "%s", c->arg[0].s);
}

static Val run_evaluated(Elab *e, const Call *c)
{
    if (c->arg[0].kind != V_FN)
        return fail(e, c->arg_span[0],
                    "evaluated takes a function, as in evaluated(f)(x) for f(x), found %s",
                    val_text(e, &c->arg[0]));
    Fn *fn = NEW(e->arena, Fn);
    *fn = *c->arg[0].fn;
    fn->evaluated = true;
    return (Val){.kind = V_FN, .fn = fn};
}

static const Builtin builtins[] = {
    {"shape", "x", run_shape},
    {"dim", "x axis", run_dim},
    {"rank", "x", run_rank},
    {"numel", "x", run_numel},
    {"dtype", "x", run_dtype},
    {"is_float", "x", run_is_float},
    {"is_tensor", "x", run_is_tensor},
    {"is_list", "x", run_is_list},
    {"is_string", "x", run_is_string},
    {"len", "list", run_len},
    {"str", "value", run_str},
    {"enumerate", "list", run_enumerate},
    {"zip", "a b", run_zip},
    {"error", "text", run_fail},
    {"cast", "x type", run_cast},
    {"tensor", "values type?", run_tensor},
    {"full", "shape value type?", run_full},
    {"zeros", "shape type?", run_zeros},
    {"ones", "shape type?", run_ones},
    {"iota", "shape axis? type?", run_iota},
    {"random_bits", "shape words? bits?", random_bits},
    {"grad", "y x", run_grad},
    {"tally", "x", run_tally},
    {"evaluated", "f", run_evaluated},
    {"where", "condition a b", run_where},
    {"params", "pattern? rank? shape?", train_params},
    {0},
};

static const Builtin *const tables[] = {builtins, shape_builtins, index_builtins, window_builtins,
                                        einsum_builtins};
enum { TABLES = sizeof tables / sizeof *tables };

const Builtin *builtin_find(const char *name)
{
    for (int i = 0; i < TABLES; i++)
        for (const Builtin *b = tables[i]; b->name; b++)
            if (*b->name == *name && !strcmp(b->name, name)) return b;
    return NULL;
}

Node *tensor_arg(Elab *e, const Call *c, int i)
{
    return to_tensor(e, &c->arg[i], DT_COUNT, c->arg_span[i]);
}

void builtin_names(Elab *e, const char **out, uint32_t *n, uint32_t max)
{
    (void)e;
    static const char *const special[] = {"training", "step", "epoch", "total",
                                          "updates",  "none", "pi"};
    for (int i = 0; i < TABLES; i++)
        for (const Builtin *b = tables[i]; b->name && *n < max; b++) out[(*n)++] = b->name;
    for (Op op = 0; op < OP_COUNT && *n < max; op++)
        if ((op_info(op)->class == CLS_ELEMENTWISE || op_info(op)->class == CLS_REDUCE) &&
            op_info(op)->arity != VARIADIC)
            out[(*n)++] = op_info(op)->name;
    for (size_t i = 0; i < sizeof special / sizeof *special && *n < max; i++)
        out[(*n)++] = special[i];
}
