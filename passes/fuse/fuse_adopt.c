// Outputs that a row kernel computes anyway are stored by it.
//
// An output that is a free value would be a map of its own, which reads again what the row kernel
// has read: in `s = x + g; y = layer_norm(s)` the sum is one more store of the kernel for y. Only
// where the value has all rows and columns of a reduction over the last axes, so that its elements
// are computed in memory order. Outputs have no readers, so this adds no dependence between groups.
#include "passes/fuse/fuse.h"

static bool takes_outputs(const Cluster *c)
{
    return c->kind == GROUP_ROW && c->trailing && c->open;
}

void fuse_adopt(Fuse *f)
{
    Graph *g = f->g;
    // By id of a free value: the cluster, index + 1, that computes it element by element.
    uint32_t *reader = NEW_ARRAY(f->a, uint32_t, g->nodes.n + 1);
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        Node *n = g->nodes.at[i];
        if (!f->live[i]) continue;
        OpClass class = node_class(n);
        uint32_t c = fuse_cluster(f, n);
        if (!c && !f->mat[i] && (class == CLS_ELEMENTWISE || node_keeps_all(n))) c = reader[i];
        if (!c || !takes_outputs(&f->clusters.at[c - 1])) continue;
        const Cluster *k = &f->clusters.at[c - 1];
        if (class != CLS_ELEMENTWISE && class != CLS_REDUCE && !node_keeps_all(n)) continue;
        for (uint32_t j = 0; j < n->nargs; j++) {
            const Node *a = n->args[j];
            if (type_count(&a->type) == k->rows * k->cols && !f->mat[a->id] && !fuse_cluster(f, a))
                reader[a->id] = c;
        }
    }
    for (uint32_t i = 0; i < g->roots.n; i++) {
        Node *r = g->roots.at[i];
        const Node *a = r->args[0];
        if (r->op != OP_output || !f->live[r->id] || !f->mat[r->id] || f->cluster[r->id] ||
            !reader[a->id] || f->checked[a->id] || node_class(a) != CLS_ELEMENTWISE)
            continue;
        f->cluster[r->id] = reader[a->id];
        f->pos[r->id] = POS_FULL;
        f->level[r->id] = f->clusters.at[reader[a->id] - 1].level;
    }
}
