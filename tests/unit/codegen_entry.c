// Small graphs through the passes and codegen on the CPU target: how many steps come out, what is
// updated in place, what waits for the checks, how loops are laid out.
#include "tests/unit/codegen_world.h"

static World world(Arena *a, bool library)
{
    return world_on(a, target_cpu(2, library));
}

static int count(const Program *p, ProgStepKind kind)
{
    return count_steps(&p->entries[0], kind);
}

static int committed_copies(const Program *p)
{
    int n = 0;
    for (int i = 0; i < p->entries[0].nsteps; i++)
        n += p->entries[0].steps[i].kind == PS_COPY && p->entries[0].steps[i].commits;
    return n;
}

static void show(Arena *a, const Program *p)
{
    Buf b = buf_new(a);
    program_print(p, &b);
    printf("%s\n", b.data);
}

static Node *linear(World *w, Node *x, int64_t in, int64_t out, const char *name)
{
    Node *weight = cell(w, OP_param, arena_printf(w->a, "%s.weight", name), f32(2, out, in));
    Node *bias = cell(w, OP_param, arena_printf(w->a, "%s.bias", name), f32(1, out, 0));
    Node *y = graph_matmul(w->g, x, graph_permute(w->g, weight, (int64_t[]){1, 0}));
    return graph_binary(w->g, OP_add, y, graph_broadcast_to(w->g, bias, &y->type));
}

// One step of a two-layer perceptron with momentum-free SGD, reading its data through the row
// table.
static void perceptron(Arena *a, bool library, bool print)
{
    World w = world(a, library);
    Type cursor_type = type_scalar(DT_I64);
    Node *cursor = cell(&w, OP_state, CELL_CURSOR, cursor_type);
    Type image_type = type_make(DT_U8, 2, (int64_t[]){128, 784});
    Type label_type = type_make(DT_U8, 1, (int64_t[]){128});
    Node *image = graph_input(w.g, "image", &image_type, "data");
    Node *label = graph_input(w.g, "label", &label_type, "data");
    Node *x = graph_cast(w.g, image, DT_F32);
    x = graph_binary(w.g, OP_div, x, graph_full_like(w.g, x, 255));
    Node *h = linear(&w, x, 784, 128, "fc1");
    h = graph_binary(w.g, OP_maximum, h, graph_full_like(w.g, h, 0));
    Node *logits = linear(&w, h, 128, 10, "fc2");
    logits->name = "logits";
    int64_t last[] = {1};
    Node *top = graph_reduce(w.g, OP_max, logits, last, 1, true);
    Node *s = graph_binary(w.g, OP_sub, logits, graph_broadcast_to(w.g, top, &logits->type));
    Node *sum = graph_reduce(w.g, OP_sum, graph_unary(w.g, OP_exp, s), last, 1, true);
    Node *lse = graph_unary(w.g, OP_log, sum);
    Node *lp = graph_binary(w.g, OP_sub, s, graph_broadcast_to(w.g, lse, &s->type));
    Node *classes, *hot;
    Attrs at = {0};
    attr_set_ints(w.g, &at, ATTR_shape, (int64_t[]){128, 10}, 2);
    attr_set_int(&at, ATTR_dtype, DT_I32);
    attr_set_int(&at, ATTR_axis, 1);
    classes = graph_node(w.g, OP_iota, NULL, 0, &at);
    Node *wide = graph_reshape(w.g, graph_cast(w.g, label, DT_I32), 2, (int64_t[]){128, 1});
    hot = graph_binary(w.g, OP_eq, classes, graph_broadcast_to(w.g, wide, &classes->type));
    Node *picked = graph_select(w.g, hot, lp, graph_full_like(w.g, lp, 0));
    Node *loss = graph_reduce(w.g, OP_sum, picked, (int64_t[]){0, 1}, 2, false);
    loss = graph_binary(w.g, OP_mul, loss, graph_const(w.g, DT_F32, -1.0 / 128));
    loss->name = "loss";
    graph_root(w.g, OP_output, loss, "loss");
    graph_root(w.g, OP_assert, graph_unary(w.g, OP_isfinite, loss), "the loss is not finite");
    const char *names[] = {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"};
    for (int i = 0; i < 4; i++) {
        Type t = module_cell(w.m, names[i])->type;
        Node *p = cell(&w, OP_param, names[i], t);
        w.g->role = ROLE_UPDATE;
        Node *grad = graph_node(w.g, OP_grad, (Node *[]){loss, p}, 2, NULL);
        Node *next = graph_binary(w.g, OP_sub, p,
                                  graph_binary(w.g, OP_mul, grad, graph_full_like(w.g, p, 0.1)));
        graph_root(w.g, OP_assign, next, names[i]);
    }
    Node *moved = graph_binary(w.g, OP_add, cursor, graph_const_int(w.g, DT_I64, 128));
    graph_root(w.g, OP_assign, moved, CELL_CURSOR);
    Program *p = compile_on(&w, "train", ENTRY_TRAIN, CELL_CURSOR);
    if (!p) return;
    if (print) show(a, p);
    const ProgEntry *e = &p->entries[0];
    // One forward (the other has ten columns), two for the weights, one for the hidden layer.
    CHECK_MSG(count(p, PS_GEMM) == (library ? 4 : 0), "%d matmuls", count(p, PS_GEMM));
    CHECK_MSG(count(p, PS_KERNEL) <= (library ? 8 : 13), "%d kernels", count(p, PS_KERNEL));
    CHECK_MSG(count(p, PS_COPY) == 0, "%d copies", count(p, PS_COPY)); // all updates in place
    CHECK(e->nchecks == 1 && e->ninputs == 2 && e->noutputs == 1 && e->rows);
    CHECK(e->arena_bytes <= e->peak_bytes * 1.02);
    int last_check = -1, first_commit = 1 << 30;
    for (int i = 0; i < e->nsteps; i++) {
        const ProgStep *st = &e->steps[i];
        if (st->commits && i < first_commit) first_commit = i;
        for (int k = 0; k < st->nargs; k++)
            if (st->args[k].kind == PA_BUFFER && st->args[k].written &&
                e->buffers[st->args[k].index].region == PR_ERROR)
                last_check = i;
    }
    CHECK_MSG(last_check >= 0 && last_check < first_commit, "check %d, commit %d", last_check,
              first_commit);
}

// a <- b, b <- a, and c is given out before it changes.
static void swap(Arena *a)
{
    World w = world(a, false);
    Node *x = cell(&w, OP_state, "a", f32(1, 100, 0)), *y = cell(&w, OP_state, "b", f32(1, 100, 0));
    Node *c = cell(&w, OP_state, "c", f32(1, 100, 0));
    graph_root(w.g, OP_assign, y, "a");
    graph_root(w.g, OP_assign, x, "b");
    graph_root(w.g, OP_output, c, "before");
    graph_root(w.g, OP_assign, graph_binary(w.g, OP_add, c, x), "c");
    Program *p = compile_on(&w, "swap", ENTRY_MODEL, NULL);
    if (!p) return;
    // Play the steps on named values.
    const ProgEntry *e = &p->entries[0];
    const char *value[64] = {0};
    for (int i = 0; i < e->nbuffers; i++)
        if (e->buffers[i].region == PR_CELL) value[i] = p->cells[e->buffers[i].index].name;
    for (int i = 0; i < e->nsteps; i++) {
        const ProgStep *s = &e->steps[i];
        if (s->kind == PS_COPY) value[s->args[1].index] = value[s->args[0].index];
        if (s->kind == PS_KERNEL)
            for (int k = 0; k < s->nargs; k++)
                if (s->args[k].kind == PA_BUFFER && s->args[k].written)
                    value[s->args[k].index] = "c+a";
    }
    for (int i = 0; i < e->nbuffers; i++) {
        const ProgBuffer *b = &e->buffers[i];
        const char *cell = b->region == PR_CELL ? p->cells[b->index].name : "";
        if (!strcmp(cell, "a")) CHECK(!strcmp(value[i], "b"));
        if (!strcmp(cell, "b")) CHECK(!strcmp(value[i], "a"));
        if (!strcmp(cell, "c")) CHECK(!strcmp(value[i], "c+a"));
        if (b->region == PR_OUTPUT) CHECK(value[i] && !strcmp(value[i], "c"));
    }
}

// A value read elsewhere after its update, or shifted against itself, is not updated in place.
static void not_in_place(Arena *a)
{
    World w = world(a, false);
    Node *s = cell(&w, OP_state, "s", f32(1, 100, 0));
    Attrs axes = {0};
    attr_set_ints(w.g, &axes, ATTR_axes, (int64_t[]){0}, 1);
    Node *back = graph_node(w.g, OP_reverse, &s, 1, &axes);
    graph_root(w.g, OP_assign, graph_binary(w.g, OP_add, s, back), "s");
    Program *p = compile_on(&w, "e", ENTRY_MODEL, NULL);
    if (p) CHECK(count(p, PS_KERNEL) == 1 && count(p, PS_COPY) == 1 && committed_copies(p) == 1);

    World v = world(a, false);
    s = cell(&v, OP_state, "s", f32(1, 100, 0));
    graph_root(v.g, OP_assign, graph_binary(v.g, OP_add, s, graph_full_like(v.g, s, 1)), "s");
    p = compile_on(&v, "e", ENTRY_MODEL, NULL);
    if (p) CHECK(count(p, PS_KERNEL) == 1 && count(p, PS_COPY) == 0);
}

// On a GPU copies that commit look at the error record: they are one kernel, after the check.
static void gated_copies(Arena *a)
{
    World w = world(a, false);
    w.target = target_cuda(90, true);
    Node *x = cell(&w, OP_state, "a", f32(1, 100, 0)), *y = cell(&w, OP_state, "b", f32(1, 100, 0));
    graph_root(w.g, OP_assign, y, "a");
    graph_root(w.g, OP_assign, x, "b");
    Node *sum = graph_reduce(w.g, OP_sum, x, (int64_t[]){0}, 1, false);
    graph_root(w.g, OP_assert, graph_unary(w.g, OP_isfinite, sum), "a is not finite");
    Program *p = compile_on(&w, "swap", ENTRY_MODEL, NULL);
    if (!p) return;
    const ProgEntry *e = &p->entries[0];
    const ProgStep *last = &e->steps[e->nsteps - 1];
    CHECK(committed_copies(p) == 0);
    CHECK(last->kind == PS_KERNEL && last->commits && last->nargs == 5);
    CHECK(strstr(p->kernels[last->index].text, "if (*error) return;") != NULL);
    CHECK(e->buffers[last->args[4].index].region == PR_ERROR && !last->args[4].written);
    CHECK(e->buffers[last->args[0].index].region == PR_CELL && last->args[0].written);
}

// A library call does not look at the error record: in an entry that checks, its result reaches the
// cell by a copy that does; without a check the call writes the cell itself.
static void gemm_into_cell(Arena *a)
{
    for (int checks = 0; checks < 2; checks++) {
        World w = world(a, true);
        w.target = target_cuda(90, true);
        Type t = f32(2, 1024, 1024);
        Node *x = graph_input(w.g, "x", &t, "arg"), *y = graph_input(w.g, "y", &t, "arg");
        cell(&w, OP_state, "s", t);
        graph_root(w.g, OP_assign, graph_matmul(w.g, x, y), "s");
        Node *sum = graph_reduce(w.g, OP_sum, x, (int64_t[]){0, 1}, 2, false);
        if (checks)
            graph_root(w.g, OP_assert, graph_unary(w.g, OP_isfinite, sum), "x is not finite");
        Program *p = compile_on(&w, "store", ENTRY_MODEL, NULL);
        if (!p) return;
        const ProgEntry *e = &p->entries[0];
        int direct = 0;
        for (int i = 0; i < e->nsteps; i++)
            for (int k = 0; e->steps[i].kind == PS_GEMM && k < e->steps[i].nargs; k++)
                direct += e->steps[i].args[k].written &&
                          e->buffers[e->steps[i].args[k].index].region == PR_CELL;
        CHECK(count(p, PS_GEMM) == 1);
        CHECK_MSG(direct == !checks, "%d cells written by a matmul", direct);
        const ProgStep *last = &e->steps[e->nsteps - 1];
        if (checks)
            CHECK(last->kind == PS_KERNEL && last->commits &&
                  strstr(p->kernels[last->index].text, "if (*error) return;"));
    }
}

// relu(x v) w: the second product reads a result, so it fetches w before it waits for the first
// one, and nothing else; the first one fetches nothing: w may be what the execution before writes.
static void fetched_ahead(Arena *a)
{
    World w = world(a, true);
    w.target = target_cuda(90, true);
    Type t = f32(2, 64, 128);
    Node *v = cell(&w, OP_param, "v", f32(2, 128, 64)),
         *u = cell(&w, OP_param, "w", f32(2, 64, 32));
    Node *h = graph_matmul(w.g, graph_input(w.g, "x", &t, "arg"), v);
    h = graph_binary(w.g, OP_maximum, h, graph_full_like(w.g, h, 0));
    graph_root(w.g, OP_output, graph_matmul(w.g, h, u), "y");
    Program *p = compile_on(&w, "products", ENTRY_MODEL, NULL);
    CHECK(p && p->nkernels == 2 && count(p, PS_GEMM) == 0);
    for (int i = 0; p && i < p->nkernels; i++) {
        const char *text = p->kernels[i].text, *wait = strstr(text, "nc_follow();");
        CHECK(wait && !strstr(wait, "nc_prefetch<"));
        bool ahead = strstr(text, "nc_prefetch<") != NULL;
        CHECK_MSG(ahead == (p->entries[0].steps[1].index == i), "kernel %d:\n%s", i, text);
        const char *load = strstr(text, "nc_load<");
        CHECK(load > wait);
    }
}

// The kernel that a product of bf16 brings along, or NULL.
static const ProgKernel *candidate(Arena *a, int arch, int64_t m, int64_t n, int64_t k, bool relu)
{
    World w = world(a, true);
    w.target = target_cuda(arch, true);
    Type x = type_make(DT_BF16, 2, (int64_t[]){m, k}), y = type_make(DT_BF16, 2, (int64_t[]){k, n});
    Node *p = graph_dot(w.g, graph_input(w.g, "x", &x, "arg"), graph_input(w.g, "y", &y, "arg"),
                        NULL, NULL, 0, (int64_t[]){1}, (int64_t[]){0}, 1, DT_BF16);
    if (relu) p = graph_binary(w.g, OP_maximum, p, graph_full_like(w.g, p, 0));
    graph_root(w.g, OP_output, p, "p");
    Program *prog = compile_on(&w, "product", ENTRY_MODEL, NULL);
    CHECK(prog && prog->ngemms == 1);
    return prog && prog->ngemms == 1 && prog->gemms[0].kernel
               ? &prog->kernels[prog->gemms[0].kernel - 1]
               : NULL;
}

// A second candidate beside the library costs a compilation: it comes where the library may have
// nothing, and where a long product may be faster by it.
static void candidates(Arena *a)
{
    const ProgKernel *k = candidate(a, 80, 8192, 2048, 2048, false);
    CHECK(k && !strncmp(k->schedule, "tile", 4));
    CHECK(candidate(a, 80, 8192, 2048, 2048, true));
    CHECK(!candidate(a, 80, 512, 512, 512, false));      // done before it matters
    CHECK(!candidate(a, 100, 32768, 4096, 4096, false)); // mma.sync is a fraction of what it can do
    CHECK(candidate(a, 90, 64, 100, 72, false));         // rows of 200 bytes
    CHECK(!candidate(a, 90, 64, 104, 72, false));
}

// The gradient of x = sin(x) + x, n times: how often the kernels compute a sine or cosine, and the
// longest kernel.
static int text_of_chain(Arena *a, int n, size_t *longest)
{
    World w = world(a, true);
    w.target = target_cuda(90, true);
    Node *x = cell(&w, OP_param, "x", f32(1, 4, 0)), *p = x;
    for (int i = 0; i < n; i++) x = graph_binary(w.g, OP_add, graph_unary(w.g, OP_sin, x), x);
    Node *loss = graph_reduce(w.g, OP_sum, x, (int64_t[]){0}, 1, false);
    Node *grad = graph_node(w.g, OP_grad, (Node *[]){loss, p}, 2, NULL);
    graph_root(w.g, OP_output, grad, "grad");
    Program *prog = compile_on(&w, "chain", ENTRY_MODEL, NULL);
    int calls = 0;
    *longest = 0;
    for (int i = 0; prog && i < prog->entries[0].nsteps; i++) {
        const ProgStep *step = &prog->entries[0].steps[i];
        if (step->kind != PS_KERNEL) continue;
        const char *t = prog->kernels[step->index].text;
        if (strlen(t) > *longest) *longest = strlen(t);
        for (const char *s = t; (s = strstr(s, " nc_sin(")) != NULL; s++) calls++;
        for (const char *s = t; (s = strstr(s, " nc_cos(")) != NULL; s++) calls++;
    }
    return calls;
}

// A kernel's compiler takes long over one long kernel, and longer over what is written many times.
static void long_chain(Arena *a)
{
    size_t shorter, longer;
    int once = text_of_chain(a, 250, &shorter), twice = text_of_chain(a, 500, &longer);
    CHECK_MSG(once >= 500 && once <= 250 * 3, "%d functions in 250 rounds", once);
    CHECK_MSG(twice <= once * 2 + once / 2, "%d functions, then %d", once, twice);
    CHECK_MSG(longer < 24 << 10, "a kernel of %zu characters", longer);
}

// h = tanh(x_t W + h), stacked; the sum of everything.
static void recurrence(Arena *a, bool library)
{
    World w = world(a, library);
    Type xs = type_make(DT_F32, 3, (int64_t[]){7, 4, 16});
    Node *x = graph_input(w.g, "x", &xs, "arg");
    Node *weight = cell(&w, OP_param, "w", f32(2, 16, 16));
    Type ht = f32(2, 4, 16);
    Node *h0 = graph_input(w.g, "h0", &ht, "arg");
    Graph *r = graph_new(a, w.d, NULL);
    Type types[] = {type_scalar(DT_I64), ht, ht, weight->type};
    Node *params[4];
    for (int i = 0; i < 4; i++) params[i] = graph_region_param(r, &types[i]);
    Node *z = graph_matmul(r, params[2], params[3]);
    Node *h = graph_unary(r, OP_tanh, graph_binary(r, OP_add, z, params[1]));
    vec_push(a, &r->results, h);
    vec_push(a, &r->results, h);
    Attrs at = {0};
    attr_set_int(&at, ATTR_count, 7);
    attr_set_int(&at, ATTR_carried, 1);
    attr_set_int(&at, ATTR_scanned, 1);
    Node *loop = graph_region_node(w.g, OP_loop, (Node *[]){h0, x, weight}, 3, &at, &r, 1);
    graph_root(w.g, OP_output, graph_result(w.g, loop, 0), "last");
    graph_root(
        w.g, OP_output,
        graph_reduce(w.g, OP_sum, graph_result(w.g, loop, 1), (int64_t[]){0, 1, 2}, 3, false),
        "total");
    Program *p = compile_on(&w, "rnn", ENTRY_MODEL, NULL);
    if (!p) return;
    const ProgEntry *e = &p->entries[0];
    CHECK(count(p, PS_LOOP) == 1);
    bool slides = false, stacks = false;
    for (int i = 0; i < e->nsteps; i++)
        for (int k = 0; k < e->steps[i].nargs; k++) {
            const ProgArg *g = &e->steps[i].args[k];
            if (g->kind != PA_BUFFER || g->stride[0] != 4 * 16 * 4) continue;
            if (g->written)
                stacks = true;
            else
                slides = true;
        }
    CHECK(slides && stacks);
    CHECK(e->arena_bytes <= e->peak_bytes * 1.02);
}

int main(int argc, char **argv)
{
    Arena *a = arena_new();
    jmp_buf oom;
    if (setjmp(oom)) return 2;
    arena_on_oom(a, &oom);
    bool print = argc > 1 && !strcmp(argv[1], "-p");
    perceptron(a, true, print);
    perceptron(a, false, false);
    swap(a);
    not_in_place(a);
    gated_copies(a);
    long_chain(a);
    gemm_into_cell(a);
    fetched_ahead(a);
    candidates(a);
    recurrence(a, true);
    recurrence(a, false);
    arena_free(a);
    return unit_done();
}
