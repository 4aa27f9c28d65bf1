// Several tensors as one index, x[i, j]: the axes that they index are treated as one axis.
#include <string.h>

#include "frontend/elab.h"

Node *joint_index(Elab *e, Node *const *index, int n, const int64_t *size, Span span)
{
    Type all = index[0]->type;
    int64_t count = 1;
    if (n == 1) return index[0];
    for (int k = 0; k < n; k++) {
        Type so_far = all;
        if (!shape_broadcast(&so_far, &index[k]->type, &all)) {
            fail(e, span, "the indices are %s and %s, which do not broadcast",
                 type_text(e, &so_far), type_text(e, &index[k]->type));
            return NULL;
        }
        count *= size[k]; // does not overflow, since these are axes of one tensor
    }
    all.dtype = count <= INT32_MAX ? DT_I32 : DT_I64;
    at_span(e, span);
    Node *sum = NULL;
    for (int k = 0; k < n; k++) {
        Node *i = graph_place(e->g, index[k], size[k], all.dtype);
        if (sum) {
            Node *by = graph_const_int(e->g, all.dtype, size[k]);
            i = graph_binary(e->g, OP_add, graph_binary(e->g, OP_mul, sum, by), i);
        }
        sum = i;
    }
    return graph_broadcast_to(e->g, sum, &all);
}

void axes_joined(const Type *t, const int *axis, int n, Joined *out)
{
    bool beside = true, among[MAX_RANK] = {false};
    for (int k = 0; k < n; k++) among[axis[k]] = true;
    for (int k = 1; k < n; k++) beside &= axis[k] == axis[k - 1] + 1;
    int rank = 0, first = beside ? axis[0] : 0;
    for (int i = 0; i < first; i++) out->perm[rank++] = i;
    for (int k = 0; k < n; k++) out->perm[rank++] = axis[k];
    for (int i = first; i < t->rank; i++)
        if (!among[i]) out->perm[rank++] = i;
    out->axis = first;
    out->rank = 0;
    for (int i = 0; i < t->rank; i++) {
        int64_t size = t->dim[out->perm[i]];
        out->back[out->perm[i]] = i;
        out->apart[i] = size;
        if (i > first && i < first + n)
            out->dim[out->rank - 1] *= size;
        else
            out->dim[out->rank++] = size;
    }
}

Node *join_axes(Elab *e, Node *x, const Joined *j)
{
    return graph_reshape(e->g, graph_permute(e->g, x, j->perm), j->rank, j->dim);
}

static Node *part_axes(Elab *e, Node *x, const Joined *j, int rank)
{
    return graph_permute(e->g, graph_reshape(e->g, x, rank, j->apart), j->back);
}

Type joined_type(const Type *t, const Joined *j, const Type *index)
{
    Type out = {.dtype = t->dtype};
    for (int i = 0; i < j->rank; i++) {
        if (i != j->axis && out.rank < MAX_RANK) out.dim[out.rank++] = j->dim[i];
        for (int k = 0; i == j->axis && k < index->rank && out.rank < MAX_RANK; k++)
            out.dim[out.rank++] = index->dim[k];
    }
    return out;
}

Node *joined_scatter(Elab *e, Op op, Node *x, const Joined *j, Node *index, Node *v)
{
    int64_t places = type_count(&index->type), dim[MAX_RANK];
    memcpy(dim, j->dim, sizeof dim);
    dim[j->axis] = places;
    Attrs attrs = {0};
    attr_set_int(&attrs, ATTR_axis, j->axis);
    Node *args[] = {join_axes(e, x, j), graph_reshape(e->g, index, 1, &places),
                    graph_reshape(e->g, v, j->rank, dim)};
    return part_axes(e, graph_node(e->g, op, args, 3, &attrs), j, x->type.rank);
}
