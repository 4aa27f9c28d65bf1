// A function of single examples, computed for many: a loop over them, which the pass vectorize
// computes for all at once.
#include "base/plain.h"
#include "lib/lib.h"

// The input, with the calls as axis 0.
static Node *many(Graph *g, const Node *input, int64_t calls)
{
    Attrs at = attrs_copy(input->attrs);
    int64_t dim[MAX_RANK + 1] = {calls};
    const Type *t = &input->type;
    for (int i = 0; i < t->rank; i++) dim[i + 1] = t->dim[i];
    attr_set_ints(g, &at, ATTR_shape, dim, t->rank + 1);
    attr_set_str(g, &at, ATTR_kind, "arg");
    graph_stamp(g, input, NULL);
    return graph_node(g, OP_input, NULL, 0, &at);
}

static bool is_mapped(const Settings *s, const Node *n)
{
    if (n->op != OP_input) return false;
    for (int i = 0; i < s->nmapped; i++)
        if (plain_match(s->mapped[i], attr_str(n, ATTR_name))) return true;
    return false;
}

typedef struct Mapping {
    const Settings *s;
    const Graph *src;
    Graph *dst, *body;
    Remap r;     // from src to body
    Node **leaf; // of dst, by id in src
    Node **args; // of the loop
    int nargs;
} Mapping;

// The leaves of the function, in their order.
static void copy_leaves(Mapping *m)
{
    for (uint32_t i = 0; i < m->src->nodes.n; i++) {
        Node *n = m->src->nodes.at[i];
        if (!node_in_memory(n)) continue;
        graph_stamp(m->dst, n, NULL);
        m->leaf[i] = is_mapped(m->s, n) ? many(m->dst, n, m->s->calls)
                                        : graph_node(m->dst, n->op, NULL, 0, n->attrs);
    }
}

// Parameters of the body: slices of what is mapped; others.
static void add_params(Mapping *m, bool mapped)
{
    for (uint32_t i = 0; i < m->src->nodes.n; i++) {
        Node *n = m->src->nodes.at[i];
        if (!m->leaf[i] || is_mapped(m->s, n) != mapped) continue;
        m->args[m->nargs++] = m->leaf[i];
        graph_stamp(m->body, n, NULL);
        m->r.map[i] = graph_region_param(m->body, &n->type);
    }
}

Graph *mapped_graph(const Settings *s, Graph *src)
{
    Mapping m = {.s = s, .src = src, .dst = graph_beside(src), .body = graph_inside(src)};
    const Type counter = type_scalar(DT_I64);
    Attrs at = {0};
    m.r = remap_begin(src, m.body);
    m.args = NEW_ARRAY(src->arena, Node *, src->nodes.n + 1);
    m.leaf = NEW_ARRAY(src->arena, Node *, src->nodes.n + 1);
    copy_leaves(&m);
    graph_region_param(m.body, &counter);
    add_params(&m, true);
    const int scanned = m.nargs;
    add_params(&m, false);
    for (uint32_t i = 0; i < src->nodes.n; i++)
        if (!m.r.map[i] && node_class(src->nodes.at[i]) != CLS_ROOT)
            remap_node(&m.r, src->nodes.at[i]);
    for (uint32_t i = 0; i < src->roots.n; i++)
        vec_push(m.body->arena, &m.body->results, m.r.map[src->roots.at[i]->args[0]->id]);
    attr_set_int(&at, ATTR_count, s->calls);
    attr_set_int(&at, ATTR_carried, 0);
    attr_set_int(&at, ATTR_scanned, scanned);
    Node *loop = graph_region_node(m.dst, OP_loop, m.args, m.nargs, &at, &m.body, 1);
    for (uint32_t i = 0; i < src->roots.n; i++) {
        const Node *root = src->roots.at[i];
        Node *all = graph_result(m.dst, loop, (int)i);
        graph_stamp(m.dst, root, NULL);
        graph_node(m.dst, root->op, &all, 1, root->attrs);
    }
    return m.dst;
}
