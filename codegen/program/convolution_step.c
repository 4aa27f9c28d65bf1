// The step of a convolution that a library may compute faster than the generated kernel. Unlike a
// product of matrices, it is fused as if there were no library, since that may be absent: the
// kernel computes the whole group. The other candidate is the library's call and, if the group
// stores more than its result, a kernel that computes the rest from that.
#include "codegen/program/gen.h"

#include <string.h>

// The most that a library may use: as much as for a product of matrices.
enum { WORKSPACE = 32 << 20 };

static const char *key_of(const Gen *gen, const ProgGemm *g)
{
    static const char *const kinds[] = {"", "forward", "input", "weight"};
    const ProgConv *c = &g->conv;
    Buf b = buf_new(gen->arena);
    buf_printf(&b, "conv %s %s %lld %lld %lld", kinds[c->kind], prog_dtype_name(g->a_type),
               (long long)c->images, (long long)c->channels, (long long)c->results);
    for (int i = 0; i < c->axes; i++)
        buf_printf(&b, " %lld/%lld/%lld*%lld+%lld+%lld", (long long)c->image[i],
                   (long long)c->size[i], (long long)c->step[i], (long long)c->dilation[i],
                   (long long)c->before[i], (long long)c->after[i]);
    if (c->parts > 1) buf_printf(&b, " parts %lld", (long long)c->parts);
    if (g->tf32) buf_str(&b, " tf32");
    return b.data;
}

static const char *name_of(const Gen *gen, const Node *named, const ConvMatch *m)
{
    if (named->name) return named->name;
    if (!m->a->name || !m->b->name) return "convolution";
    return arena_printf(gen->arena, "%s_%s", m->a->name, m->b->name);
}

static bool stores(const Group *gr, const Node *n)
{
    for (uint32_t i = 0; i < gr->outs.n; i++)
        if (gr->outs.at[i] == n) return true;
    return false;
}

// A kernel that computes the rest of the group from the stored result of its contraction. NULL:
// more than one would be needed.
static LoweredKernel *lower_rest(Frame *f, const Group *gr)
{
    LowerCtx *c = &f->e->lower;
    LoweredKernel *rest = NULL;
    Group *map = NEW(f->e->gen->arena, Group);
    *map = *gr;
    map->kind = GROUP_MAP;
    map->anchor = NULL;
    map->ninner = 0;
    map->inner = NEW_ARRAY(f->e->gen->arena, Node *, (uint32_t)gr->ninner + 1);
    for (int i = 0; i < gr->ninner; i++)
        if (gr->inner[i] != gr->anchor) map->inner[map->ninner++] = gr->inner[i];
    memset(&map->outs, 0, sizeof map->outs);
    for (uint32_t i = 0; i < gr->outs.n; i++) // (the library stores the contraction itself)
        if (gr->outs.at[i] != gr->anchor) vec_push(f->e->gen->arena, &map->outs, gr->outs.at[i]);
    // The contraction counts as stored by another group while this one is lowered.
    uint32_t *stored = &f->g->fusion->group_of[gr->anchor->id], before = *stored;
    Repeats *repeats = c->repeats;
    *stored = gr->id ? 1 : 2;
    c->repeats = NULL;
    const int n = lower_launch(c, f->g, &map, 1, &rest);
    c->repeats = repeats;
    *stored = before;
    return n == 1 && !rest->commits ? rest : NULL;
}

// The image as a node of a graph of its own, and its pixels by classes: (images, places..., classes
// along each axis with a step..., channels).
static Node *by_classes(Graph *g, const ConvMatch *m, const Type *stored, Node **image)
{
    const ProgConv *c = &m->gemm.conv;
    int64_t dim[MAX_RANK], perm[MAX_RANK], within[PROG_MAX_IMAGE_AXES];
    int rank = 0, places = 0, classes = 0;
    Type t = {.dtype = stored->dtype, .rank = 2 + c->axes};
    t.dim[0] = c->images;
    t.dim[1 + c->axes] = c->channels;
    memcpy(t.dim + 1, c->image, (size_t)c->axes * sizeof *c->image);
    *image = graph_input(g, "image", &t, "arg");
    dim[rank++] = c->images;
    perm[places++] = 0;
    for (int i = 0; i < c->axes; i++) {
        perm[places++] = rank;
        dim[rank++] = m->of_class[i];
        if (c->step[i] == 1) continue;
        within[classes++] = rank;
        dim[rank++] = c->step[i];
    }
    memcpy(perm + places, within, (size_t)classes * sizeof *within);
    perm[places + classes] = rank;
    dim[rank++] = c->channels;
    Node *y = *image;
    for (int i = 0; i < c->axes; i++) y = graph_resized(g, y, i + 1, m->of_class[i] * c->step[i]);
    y = graph_permute(g, graph_reshape(g, y, rank, dim), perm);
    return graph_reshape(g, y, stored->rank, stored->dim);
}

// Memory for the library's image, whose elements are of the type of [stored].
static ProgArg image_temp(Frame *f, const ConvMatch *m, const Node *stored)
{
    int64_t n = 0;
    prog_gemm_elements(&m->gemm, 2, &n);
    const Type t = type_make(stored->type.dtype, 1, &n);
    return gen_temp(f->e, &t, "image", stored->loc);
}

// A kernel that stores the library's image by classes, from its argument that it only reads. NULL:
// more than one would be needed.
static LoweredKernel *lower_by_classes(Frame *f, const ConvMatch *m, const Node *stored)
{
    Arena *a = f->e->gen->arena;
    LowerCtx *c = &f->e->lower;
    Graph *g = graph_new(a, f->g->diags, f->g->symbols);
    g->loc = stored->loc;
    Node *image, *out = graph_unary(g, OP_stop_gradient, by_classes(g, m, &stored->type, &image));
    Group *map = NEW(a, Group);
    map->kind = GROUP_MAP;
    vec_push(a, &map->outs, out);
    g->fusion = NEW(a, Fusion);
    vec_push(a, &g->fusion->groups, *map);
    g->fusion->launches = 1;
    g->fusion->group_of = NEW_ARRAY(a, uint32_t, g->nodes.n + 1);
    g->fusion->group_of[out->id] = 1;
    Repeats *repeats = c->repeats;
    const uint8_t *commits = c->commits;
    LoweredKernel *k = NULL;
    c->repeats = NULL;
    c->commits = NULL;
    const int n = lower_launch(c, g, &map, 1, &k);
    c->repeats = repeats;
    c->commits = commits;
    return n == 1 && k->nargs == 2 ? k : NULL;
}

// Adds it to the program; its arguments: the library's image, and the place of what is stored.
static int32_t add_by_classes(Frame *f, const LoweredKernel *k, ProgArg image, ProgArg place,
                              ProgArg *args)
{
    for (int i = 0; i < k->nargs; i++) {
        args[i] = k->args[i].written ? place : image;
        args[i].written = k->args[i].written;
    }
    return gen_kernel(f->e->gen, &k->prog, NULL) + 1;
}

// Whether one kernel stores values of the contraction's size, none of them in a cell or as a part
// of a larger one.
static bool is_plain(const Frame *f, const Item *it)
{
    if (it->groups.n != 1 || it->groups.at[0]->kind != GROUP_DOT || it->nkernels != 1 ||
        it->checks || it->kernels[0].commits || f->depth > 0)
        return false;
    for (uint32_t i = 0; i < it->sinks.n; i++)
        if (f->sinks.at[it->sinks.at[i]].commit) return false;
    const Group *gr = it->groups.at[0];
    for (uint32_t i = 0; i < gr->outs.n; i++) {
        const Node *n = gr->outs.at[i], *v = node_class(n) == CLS_ROOT ? n->args[0] : n;
        if (type_count(&v->type) != type_count(&gr->anchor->type)) return false;
    }
    for (int i = 0; i < it->kernels[0].nargs; i++) {
        const KernelArg *a = &it->kernels[0].args[i];
        if (a->written && (a->kind != KA_NODE || frame_assembles(f, a->node))) return false;
    }
    return true;
}

// Adds the kernel that computes the item and the one that follows the library's call (NULL: none),
// with their arguments behind the call's [n]. Returns the number of all arguments.
static int add_kernels(Frame *f, const Item *it, const ConvMatch *m, LoweredKernel *follower,
                       ProgGemm *g, ProgArg *args, int n)
{
    const Node *dot = it->groups.at[0]->anchor;
    IdMap scratch = idmap_new(f->e->gen->arena);
    ProgArg *place = &f->place[dot->id], before = *place;
    const ProgArg result = {.kind = PA_BUFFER, .index = args[2].index, .value = args[2].value};
    g->kernel = frame_step_kernel(f, it->kernels, args + n, &scratch);
    g->kernel_args = it->kernels[0].nargs;
    n += g->kernel_args;
    if (!follower) return n;
    if (m->classes) {
        g->follower = add_by_classes(f, follower, result,
                                     f->place[it->groups.at[0]->outs.at[0]->id], args + n);
    } else {
        *place = result;
        g->follower = frame_step_kernel(f, follower, args + n, &scratch);
        *place = before;
    }
    g->follower_args = follower->nargs;
    return n + follower->nargs;
}

// Whether operands and result have as many elements as the convolution's.
static bool covers(const ConvMatch *m, const Node *dot)
{
    const int64_t have[] = {type_count(&m->a->type), type_count(&m->b->type),
                            type_count(&dot->type)};
    for (int i = 0; i < (m->classes ? 2 : 3); i++) {
        int64_t n;
        if (!prog_gemm_elements(&m->gemm, i, &n) || n != have[i]) return false;
    }
    return true;
}

bool frame_convolution(Frame *f, const Item *it)
{
    enum { OWN = 4 }; // arguments of the library's call
    GenEntry *e = f->e;
    ConvMatch m;
    bool stored;
    const GemmFrom from = frame_gemms(f);
    if (!is_plain(f, it) || !conv_match(&from, it->groups.at[0], &m, &stored) ||
        !covers(&m, it->groups.at[0]->anchor) || !candidate_convolution(e->gen->target, &m.gemm))
        return false;
    const Group *gr = it->groups.at[0];
    const Node *dot = gr->anchor, *named = stored ? gr->outs.at[0] : dot;
    LoweredKernel *follower = !stored     ? lower_rest(f, gr)
                              : m.classes ? lower_by_classes(f, &m, named)
                                          : NULL;
    ProgArg args[PROG_MAX_GEMM_ARGS] = {frame_memory(f, m.a), frame_memory(f, m.b)};
    if ((!follower && (!stored || m.classes)) || (int)args[0].kind != PA_BUFFER ||
        (int)args[1].kind != PA_BUFFER || it->kernels[0].nargs > PROG_MAX_KERNEL_ARGS ||
        (follower && follower->nargs > PROG_MAX_KERNEL_ARGS))
        return false;
    args[2] = !stored && !stores(gr, dot) ? gen_temp(e, &dot->type, "convolution", dot->loc)
              : m.classes                 ? image_temp(f, &m, named)
                                          : f->place[named->id];
    args[3] = gen_bytes(e, WORKSPACE, "convolution workspace");
    args[2].written = args[3].written = true;
    ProgGemm *g = &m.gemm;
    g->workspace = WORKSPACE;
    g->name = name_of(e->gen, named, &m);
    g->loc = loc_text(e->gen->diags, dot->loc);
    g->choice_key = key_of(e->gen, g);
    const int n = add_kernels(f, it, &m, follower, g, args, OWN);
    if (!g->kernel || (follower && !g->follower)) return false;
    frame_product_step(f, g, args, OWN, n, dot->loc);
    return true;
}
