// Compile-time values: creating and comparing them, and naming them in messages.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "frontend/elab.h"

Val val_node(Node *n)
{
    if (!n || node_is_poison(n)) return val_poison();
    return (Val){.kind = V_TENSOR, .node = n};
}

Val val_int(int64_t i)
{
    return (Val){.kind = V_INT, .i = i};
}

Val val_float(double f)
{
    return (Val){.kind = V_FLOAT, .f = f};
}

Val val_bool(bool b)
{
    return (Val){.kind = V_BOOL, .b = b};
}

Val val_string(const char *s)
{
    return (Val){.kind = V_STRING, .s = s};
}

Val val_poison(void)
{
    return (Val){.kind = V_POISON};
}

Val val_none(void)
{
    return (Val){.kind = V_NONE};
}

Val val_cell(ECell *c)
{
    return (Val){.kind = V_CELL, .cell = c};
}

Val val_seq(Elab *e, ValKind kind, uint32_t n)
{
    Seq *s = NEW(e->arena, Seq);
    s->n = n;
    s->at = NEW_ARRAY(e->arena, Val, n ? n : 1);
    return (Val){.kind = kind, .seq = s};
}

Val val_apart(Elab *e, Val v, uint32_t first)
{
    if (v.kind != V_TENSOR || (v.node->id >= first && !node_has(v.node, OPF_MEMORY))) return v;
    Node *n = graph_reshape(e->g, v.node, v.node->type.rank, v.node->type.dim);
    memcpy(n->type.sym, v.node->type.sym, sizeof n->type.sym);
    return val_node(n);
}

bool val_missing(const Val *v)
{
    return v->kind == V_ABSENT || v->kind == V_NONE;
}

bool val_is_tensor(const Val *v)
{
    return v->kind == V_TENSOR || v->kind == V_CELL;
}

bool val_is_weak(const Val *v)
{
    return v->kind == V_INT || v->kind == V_FLOAT || v->kind == V_BOOL;
}

bool val_number(const Val *v, double *out)
{
    if (v->kind == V_INT) return *out = (double)v->i, true;
    if (v->kind == V_FLOAT) return *out = v->f, true;
    return false;
}

bool val_equal(const Val *a, const Val *b)
{
    double x, y;
    if (a->kind == V_INT && b->kind == V_INT) return a->i == b->i;
    if (val_number(a, &x) && val_number(b, &y)) return x == y;
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case V_NONE: return true;
    case V_BOOL: return a->b == b->b;
    case V_STRING: return !strcmp(a->s, b->s);
    case V_DTYPE: return a->dtype == b->dtype;
    case V_CELL: return a->cell == b->cell;
    case V_TENSOR: return a->node == b->node;
    case V_RANGE: return a->range.lo == b->range.lo && a->range.hi == b->range.hi;
    case V_LIST:
    case V_TUPLE:
        if (a->seq->n != b->seq->n) return false;
        for (uint32_t i = 0; i < a->seq->n; i++)
            if (!val_equal(&a->seq->at[i], &b->seq->at[i])) return false;
        return true;
    case V_FN: return a->fn == b->fn || (a->fn->stmt && a->fn->stmt == b->fn->stmt);
    default: return false;
    }
}

const char *type_text(Elab *e, const Type *t)
{
    Buf b = buf_new(e->arena);
    type_print(&b, t, e->module->symbols.at);
    return b.data;
}

static void describe(Elab *e, const Val *v, Buf *b)
{
    switch (v->kind) {
    case V_ABSENT: buf_str(b, "nothing"); break;
    case V_NONE: buf_str(b, "none"); break;
    case V_POISON: buf_str(b, "a value in error"); break;
    case V_TENSOR: buf_printf(b, "a tensor %s", type_text(e, &v->node->type)); break;
    case V_INT: buf_printf(b, "the integer %lld", (long long)v->i); break;
    case V_FLOAT:
        buf_str(b, "the number ");
        buf_double(b, v->f);
        break;
    case V_BOOL: buf_str(b, v->b ? "true" : "false"); break;
    case V_STRING: buf_printf(b, "the string \"%s\"", v->s); break;
    case V_LIST: buf_printf(b, "a list of %u", v->seq->n); break;
    case V_TUPLE: buf_printf(b, "a tuple of %u", v->seq->n); break;
    case V_RANGE:
        buf_printf(b, "the range %lld..%lld", (long long)v->range.lo, (long long)v->range.hi);
        break;
    case V_FN: {
        const char *lack = fn_lack(e, v->fn);
        if (lack)
            buf_printf(b, "the function '%s', which %s", v->fn->name, lack);
        else
            buf_printf(b, "the function '%s'", v->fn->name);
        break;
    }
    case V_DTYPE: buf_printf(b, "the type %s", dtype_info[v->dtype].name); break;
    case V_CELL:
        buf_printf(b, "'%s', %s", v->cell->cell.name, type_text(e, &v->cell->cell.type));
        break;
    case V_FILE: buf_printf(b, "the file '%s'", v->file->name); break;
    }
}

const char *val_text(Elab *e, const Val *v)
{
    Buf b = buf_new(e->arena);
    describe(e, v, &b);
    return b.data;
}

const char *val_source(Elab *e, const Val *v, Span span)
{
    const Source *src = &e->diags->sources.at[span.source];
    Buf b = buf_new(e->arena);
    double number;
    if (val_number(v, &number)) {
        buf_printf(&b, "%.6g", number);
    } else if (v->kind == V_FN && v->fn->bound) {
        buf_printf(&b, "%s(", v->fn->name);
        for (int i = 0, n = 0; i < v->fn->sig->n; i++)
            if (v->fn->bound[i].kind != V_ABSENT)
                buf_printf(&b, "%s%s", n++ ? ", " : "", val_source(e, &v->fn->bound[i], span));
        buf_char(&b, ')');
    } else if (v->kind == V_FN) {
        buf_str(&b, v->fn->name);
    } else {
        buf_str(&b, text_on_one_line(e->arena, src->text + span.begin, span.end - span.begin));
    }
    return b.data;
}

void at_span(Elab *e, Span span)
{
    e->g->loc = loc_add(e->diags, span, e->frame ? e->frame->call : 0, NULL);
    e->g->scope = e->frame ? scope_path(e, e->frame->scope) : NULL;
}

static Diag *report(Elab *e, Span span, const char *fmt, va_list args)
{
    const char *text = arena_vprintf(e->arena, fmt, args);
    Loc loc = loc_add(e->diags, span, e->frame ? e->frame->call : 0, NULL);
    return diag_error(e->diags, loc, "%s", text);
}

Diag *error_at(Elab *e, Span span, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    Diag *d = report(e, span, fmt, args);
    va_end(args);
    return d;
}

Val fail(Elab *e, Span span, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    report(e, span, fmt, args);
    va_end(args);
    return val_poison();
}

bool seq_length(const Val *v, uint32_t *n)
{
    if (v->kind == V_LIST || v->kind == V_TUPLE) return *n = v->seq->n, true;
    if (v->kind == V_RANGE) {
        *n = v->range.hi > v->range.lo ? (uint32_t)(v->range.hi - v->range.lo) : 0;
        return true;
    }
    return false;
}

Val seq_item(Elab *e, const Val *v, uint32_t i)
{
    (void)e;
    if (v->kind == V_RANGE) return val_int(v->range.lo + i);
    return v->seq->at[i];
}
