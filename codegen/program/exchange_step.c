// Steps between the devices that share the work of an entry.
#include "codegen/program/gen.h"

// The stored value of which the operand is a view of all elements in their order.
static const Node *stored(const Graph *g, const Node *n)
{
    while (!g->fusion->group_of[n->id] && node_keeps_all(n)) n = n->args[0];
    return n;
}

bool frame_exchange(Frame *f, const Group *gr)
{
    const Node *x = gr->anchor;
    const ProgArg from = frame_memory(f, stored(f->g, x->args[0])), to = frame_memory(f, x);
    if ((int)from.kind == PLACE_NONE || (int)to.kind == PLACE_NONE) {
        gen_internal(f->e->gen, x->loc, "an exchange of a value without memory");
        return false;
    }
    ProgStep *s = gen_step(f->e, PS_EXCHANGE, 2, f->depth, x->name ? x->name : "exchange", x->loc);
    s->args[0] = from;
    s->args[0].written = false;
    s->args[1] = to;
    s->args[1].written = true;
    s->bytes = type_bytes(&x->type) / attr_int(x, ATTR_devices, 1);
    s->count = attr_int(x, ATTR_each, 0);
    return true;
}

void frame_agree(Frame *f)
{
    GenEntry *e = f->e;
    if (e->gen->options->devices < 2 || !e->checked) return;
    ProgStep *s = gen_step(e, PS_AGREE, 1, f->depth, "agree", f->g->loc);
    s->args[0] = gen_arg(e->error_buffer - 1);
    s->args[0].written = s->args[0].joins = true;
}
