// Maximum and minimum of stored 16-bit floats: they are compared in their stored form, as integers
// in the order of the values. A vector holds twice as many of these as of floats.
#include "codegen/c/print_c.h"

bool c_ordered(const Inst *v)
{
    const Accumulator *a = inst_acc(v);
    return v->kind == KI_REDUCE && !a->place && (a->start == START_LOW || a->start == START_HIGH) &&
           dtype_is_float(v->acc);
}

const char *c_stored_order(const Emit *e, int r)
{
    const Inst *v = &e->body->insts.at[r];
    if (!c_ordered(v)) return NULL;
    const Inst *x = &e->body->insts.at[v->a[0]];
    if (x->kind != KI_LOAD || x->pred >= 0 || x->ix->has_value || x->keep) return NULL;
    const DType t = e->body->bufs.at[x->buf].type;
    return t != x->type ? NULL : t == DT_F16 ? "h" : t == DT_BF16 ? "b" : NULL;
}

const char *c_order_start(Emit *e, int r)
{
    const char *kind = c_stored_order(e, r);
    return emit_text(e, "nc_order_%s(%s)", kind, *kind == 'h' ? "0xfc00" : "0xff80"); // -inf
}

void c_order_accumulate(Emit *e, int r, const char *acc)
{
    const Inst *v = &e->body->insts.at[r], *x = &e->body->insts.at[v->a[0]];
    const char *turned = inst_acc(v)->start == START_HIGH ? " ^ 0x8000" : "";
    // (from transposed rows if there are any, otherwise from the buffer)
    const char *element = e->converted[v->a[0]] ? NULL : e->element[v->a[0]];
    if (!element) element = emit_text(e, "%s[%s]", e->buf_name[x->buf], emit_index(e, x->ix));
    emit(e, "%s = nc_max_s(%s, nc_order_%s(%s%s));", acc, acc, c_stored_order(e, r), element,
         turned);
}

const char *c_order_result(Emit *e, int r, const char *acc)
{
    const char *sign = inst_acc(&e->body->insts.at[r])->start == START_HIGH ? "-" : "";
    return emit_text(e, "%snc_in_order_%s(%s)", sign, c_stored_order(e, r), acc);
}
