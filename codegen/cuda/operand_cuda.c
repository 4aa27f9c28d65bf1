// Operands of generated contractions as CUDA C: any expression; its loads are vector loads where
// they are contiguous.
#include "codegen/cuda/print_cuda.h"

bool *operand_expression(Emit *e, int a, int b)
{
    const Body *body = e->body;
    bool *mine = NEW_ARRAY(e->arena, bool, body->insts.n + 1);
    mine[a] = mine[b] = true;
    for (int i = a > b ? a : b; i >= 0; i--) {
        const Inst *x = &body->insts.at[i];
        for (int j = 0; j < x->na && mine[i]; j++) mine[x->a[j]] = true;
        if (mine[i] && x->pred >= 0 && (x->kind == KI_LOAD || x->kind == KI_CHECK))
            mine[x->pred] = true;
    }
    return mine;
}

void operand_close(Emit *e, bool inside, const char *at, int64_t extent)
{
    emit_if(e, emit_below(e, at, extent, inside));
}

void operand_vector(Emit *e, int inst, int inner, int width, bool inside, const char *first,
                    const char *to)
{
    const Body *b = e->body;
    const char *axis = e->axis[inner];
    int64_t extent = b->axis[inner].extent;
    bool fits = extent % width == 0; // a vector is inside or outside as a whole
    Vectors v = find_vectors(e, inner, width);
    const bool *mine = operand_expression(e, inst, inst);
    v.base = first;
    emit_open(e, 0);
    int used = 0, loads[MAX_VECTORS];
    for (int i = 0; i < v.nloads; i++)
        if (mine[v.loads[i]] && fits) loads[used++] = v.loads[i];
    for (int i = 0; i < used; i++) {
        print_slot(e, &v, loads[i]);
        e->element[loads[i]] =
            emit_text(e, "%s.at[%s]", slot_name(e, loads[i]), emit_count("v", width));
    }
    emit_open(e, 0);
    emit_int(e, axis, "%s", emit_plus(e, first, emit_count("v", width)));
    emit_open(e, 1ull << inner);
    const char *x = emit_value(e, inst);
    emit(e, "%s = %s;", to, x);
    operand_close(e, inside || fits, axis, extent);
    emit_times(e, "v", width);
    for (int i = 0; i < used; i++) e->element[loads[i]] = NULL;
    operand_close(e, inside, first, extent);
}
