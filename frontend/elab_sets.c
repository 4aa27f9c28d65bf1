// Sets of parameters: params("*.weight", rank = 2), rest, lists.
#include <string.h>

#include "base/plain.h"
#include "frontend/elab_train.h"

CellList train_all(Elab *e, TrainState *t)
{
    CellList out = {0};
    for (uint32_t i = 0; i < e->cell_list.n; i++) {
        ECell *c = e->cell_list.at[i];
        if (c->cell.kind == CELL_PARAM && !c->cell.frozen && c->defined_in >= t->from)
            vec_push(e->arena, &out, c);
    }
    return out;
}

static bool pattern_is(const Val *v) // a string or a list of them
{
    uint32_t n;
    if (v->kind == V_STRING) return true;
    if (v->kind != V_LIST || !seq_length(v, &n)) return false;
    for (uint32_t i = 0; i < n; i++)
        if (v->seq->at[i].kind != V_STRING) return false;
    return n > 0;
}

static bool matches(const Val *pattern, const ECell *c)
{
    if (pattern->kind == V_STRING) return plain_match(pattern->s, c->cell.name);
    for (uint32_t i = 0; i < pattern->seq->n; i++)
        if (plain_match(pattern->seq->at[i].s, c->cell.name)) return true;
    return false;
}

bool train_set(Elab *e, const Expr *x, CellList *out)
{
    Val v = eval(e, x);
    uint32_t n = 1;
    if (v.kind == V_POISON) return false;
    bool many = seq_length(&v, &n);
    *out = (CellList){0};
    IdMap known = idmap_new(e->arena);
    for (uint32_t i = 0; i < n; i++) {
        Val item = many ? seq_item(e, &v, i) : v;
        if (item.kind != V_CELL || item.cell->cell.kind != CELL_PARAM) {
            fail(e, x->span, "expected parameters such as params('*.weight'), found %s",
                 val_text(e, &item));
            return false;
        }
        if (idmap_get(&known, (uintptr_t)item.cell, NULL)) continue;
        idmap_set(&known, (uintptr_t)item.cell, 1);
        vec_push(e->arena, out, item.cell);
    }
    return true;
}

static CellList candidates(Elab *e)
{
    CellList out = {0};
    if (e->train && e->train->open) return e->train->set;
    if (e->train && e->train->ran) return train_all(e, e->train);
    for (uint32_t i = 0; i < e->cell_list.n; i++) {
        ECell *c = e->cell_list.at[i];
        // (models that it calls are elaborated later and count, too)
        if (c->cell.kind == CELL_PARAM && c->defined_in >= e->elaboration)
            vec_push(e->arena, &out, c);
    }
    return out;
}

static Val list_of(Elab *e, const CellList *l)
{
    Val v = val_seq(e, V_LIST, l->n);
    for (uint32_t i = 0; i < l->n; i++) v.seq->at[i] = val_cell(l->at[i]);
    return v;
}

typedef struct Wanted { // what params(pattern, rank, shape) selects
    const Val *pattern;
    int64_t rank;      // -1: any
    const Type *shape; // NULL: any
} Wanted;

static bool chosen(const Wanted *w, const ECell *c)
{
    return matches(w->pattern, c) && (w->rank < 0 || c->cell.type.rank == w->rank) &&
           (!w->shape || shape_equal(&c->cell.type, w->shape));
}

// Whether an update's params(…) would select a parameter, had the preceding minimize it in its set.
static bool outside_set(Elab *e, const Wanted *w)
{
    if (!e->train || !e->train->open) return false;
    CellList all = train_all(e, e->train);
    for (uint32_t i = 0; i < all.n; i++)
        if (chosen(w, all.at[i])) return true;
    return false;
}

// The error of params(…) that selects none of the candidates. Where their rank or shape matters,
// they are listed with their types.
static Val none_chosen(Elab *e, const Call *c, const Wanted *w, const CellList *all)
{
    enum { MOST = 12 };
    Buf what = buf_new(e->arena), list = buf_new(e->arena);
    bool typed = w->rank >= 0 || w->shape;
    if (w->rank >= 0) buf_printf(&what, "of rank %lld ", (long long)w->rank);
    if (w->shape) buf_printf(&what, "of shape %s ", strchr(type_text(e, w->shape), '['));
    buf_str(&what, outside_set(e, w) ? "of the preceding 'minimize' " : "");
    Diag *d = error_at(e, c->span, "no parameter %smatches %s", what.data,
                       w->pattern->kind == V_STRING ? arena_printf(e->arena, "'%s'", w->pattern->s)
                                                    : "these patterns");
    for (uint32_t i = 0; i < all->n && i < MOST; i++)
        buf_printf(&list, "%s%s%s%s", i ? ", " : "", all->at[i]->cell.name, typed ? " " : "",
                   typed ? type_text(e, &all->at[i]->cell.type) : "");
    diag_note(e->diags, d, "there are: %s%s", all->n ? list.data : "none yet",
              all->n > MOST ? ", …" : "");
    return val_poison();
}

Val train_params(Elab *e, const Call *c)
{
    int64_t rank = -1;
    Type shape = {0};
    Val pattern = val_missing(&c->arg[0]) ? val_string("*") : c->arg[0];
    if (!pattern_is(&pattern))
        return fail(e, c->arg_span[0],
                    "params takes a pattern like \"*.weight\" or a list of them, "
                    "found %s",
                    val_text(e, &pattern));
    bool shaped = !val_missing(&c->arg[2]);
    if (!val_missing(&c->arg[1]) && !to_int(e, &c->arg[1], c->arg_span[1], "the rank", &rank))
        return val_poison();
    if (shaped && !to_shape(e, &c->arg[2], c->arg_span[2], &shape)) return val_poison();
    Wanted wanted = {&pattern, rank, shaped ? &shape : NULL};
    CellList all = candidates(e), out = {0};
    for (uint32_t i = 0; i < all.n; i++)
        if (chosen(&wanted, all.at[i])) vec_push(e->arena, &out, all.at[i]);
    if (!out.n) return none_chosen(e, c, &wanted, &all);
    return list_of(e, &out);
}

Val train_rest(Elab *e, Span span)
{
    TrainState *t = e->train;
    CellList out = {0};
    if (!t->open) {
        CellList all = train_all(e, t);
        for (uint32_t i = 0; i < all.n; i++)
            if (!all.at[i]->updated) vec_push(e->arena, &out, all.at[i]);
    }
    for (uint32_t i = 0; t->open && i < t->set.n; i++)
        if (t->set.at[i]->in_set) vec_push(e->arena, &out, t->set.at[i]);
    if (!out.n) return fail(e, span, "no parameter is left for 'rest'");
    return list_of(e, &out);
}
