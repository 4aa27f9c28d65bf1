// Program as bytes: little-endian, field by field. One description is used for writing and reading,
// so they cannot diverge. Reading trusts no length: every count is bounded by the remaining bytes,
// every enumeration and flag by its range; program_validate() does the rest.
#include <string.h>

#include "codegen/program.h"

typedef struct Io {
    Buf *out;          // when writing
    Arena *arena;      // when reading
    const uint8_t *at; // when reading: the rest of the data
    size_t left;
    const char *error;
} Io;

static const char magic[8] = {'n', 'e', 't', 'c', 'p', 'r', 'o', 'g'};

static void fail(Io *io, const char *why)
{
    if (!io->error) io->error = why;
}

static void io_bytes(Io *io, void *p, size_t n)
{
    if (io->out) {
        buf_bytes(io->out, p, n);
    } else if (io->error || n > io->left) {
        fail(io, "the program ends too early");
        memset(p, 0, n);
    } else {
        memcpy(p, io->at, n);
        io->at += n;
        io->left -= n;
    }
}

static void io_uint(Io *io, uint64_t *v, int bytes)
{
    uint8_t b[8];
    if (io->out)
        for (int i = 0; i < bytes; i++) b[i] = (uint8_t)(*v >> (8 * i));
    io_bytes(io, b, (size_t)bytes);
    if (io->out) return;
    *v = 0;
    for (int i = 0; i < bytes; i++) *v |= (uint64_t)b[i] << (8 * i);
}

static void io_u32(Io *io, uint32_t *v)
{
    uint64_t u = *v;
    io_uint(io, &u, 4);
    if (!io->out) *v = (uint32_t)u;
}

static void io_u64(Io *io, uint64_t *v)
{
    io_uint(io, v, 8);
}

static void io_i32(Io *io, int32_t *v)
{
    uint32_t u = (uint32_t)*v;
    io_u32(io, &u);
    if (!io->out) *v = (int32_t)u;
}

static void io_i64(Io *io, int64_t *v)
{
    uint64_t u = (uint64_t)*v;
    io_uint(io, &u, 8);
    if (!io->out) *v = (int64_t)u;
}

static void io_double(Io *io, double *v)
{
    uint64_t u;
    memcpy(&u, v, sizeof u);
    io_uint(io, &u, 8);
    if (!io->out) memcpy(v, &u, sizeof u);
}

static uint8_t io_small(Io *io, unsigned v, unsigned limit)
{
    uint64_t u = v;
    io_uint(io, &u, 1);
    if (u < limit) return (uint8_t)u;
    fail(io, "a kind or a flag is out of range");
    return 0;
}

// Enumerations and flags. When writing, the value is returned unchanged.
#define IO_ENUM(io, field, limit)                                                                  \
    do {                                                                                           \
        unsigned v_ = io_small((io), (unsigned)(field), (limit));                                  \
        if (!(io)->out) (field) = v_;                                                              \
    } while (0)
#define IO_BOOL(io, field) IO_ENUM(io, field, 2u)

// A NULL string is written as "".
static void io_str(Io *io, const char **s)
{
    uint32_t n = io->out && *s ? (uint32_t)strlen(*s) : 0;
    io_u32(io, &n);
    if (io->out) {
        buf_bytes(io->out, *s ? *s : "", n);
        return;
    }
    *s = "";
    if (io->error) return;
    if (n > io->left || memchr(io->at, 0, n)) {
        fail(io, n > io->left ? "a string runs past the end" : "a string holds a zero byte");
        return;
    }
    *s = arena_strndup(io->arena, (const char *)io->at, n);
    io->at += n;
    io->left -= n;
}

// Transfers the length of an array whose elements take at least [least] bytes each; when reading,
// allocates it.
static void *io_array(Io *io, int32_t *n, void *at, size_t size, size_t least)
{
    io_i32(io, n);
    if (io->out) return at;
    if (io->error || *n < 0 || (size_t)*n > io->left / least) {
        fail(io, "an array runs past the end");
        *n = 0;
    }
    return arena_array(io->arena, (size_t)*n + 1, size);
}
#define IO_ARRAY(io, n, array, least)                                                              \
    do {                                                                                           \
        void *at_ = io_array((io), &(n), (array), sizeof *(array), (least));                       \
        if (!(io)->out) (array) = at_; /* a program that is written may be shared */               \
    } while (0)

static void io_type(Io *io, ProgType *t)
{
    IO_ENUM(io, t->dtype, PD_COUNT);
    uint8_t rank = io_small(io, (unsigned)t->rank, PROG_MAX_RANK + 1);
    if (!io->out) t->rank = rank;
    for (int i = 0; i < rank; i++) io_i64(io, &t->dim[i]);
}

static void io_cell(Io *io, ProgCell *c)
{
    io_str(io, &c->name);
    IO_ENUM(io, c->kind, PC_PREPARED + 1u);
    io_type(io, &c->type);
    io_double(io, &c->initial);
    IO_BOOL(io, c->frozen);
    IO_BOOL(io, c->optimizer);
    IO_BOOL(io, c->first_batch);
}

static void io_arg(Io *io, ProgArg *a)
{
    IO_ENUM(io, a->kind, PA_INT + 1u);
    io_i32(io, &a->index);
    io_i64(io, &a->value);
    IO_BOOL(io, a->written);
    IO_BOOL(io, a->joins);
    uint8_t n = 0;
    for (int d = 0; d < PROG_MAX_LOOP_DEPTH; d++)
        if (a->stride[d]) n = (uint8_t)(d + 1);
    n = io_small(io, n, PROG_MAX_LOOP_DEPTH + 1);
    for (int d = 0; d < n; d++) io_i64(io, &a->stride[d]);
    if (n && !a->stride[n - 1]) fail(io, "an argument with an empty stride");
}

static void io_step(Io *io, ProgStep *s)
{
    IO_ENUM(io, s->kind, PS_SKIP + 1u);
    io_i32(io, &s->index);
    IO_ARRAY(io, s->nargs, s->args, 15);
    for (int32_t i = 0; i < s->nargs && !io->error; i++) io_arg(io, &s->args[i]);
    io_i64(io, &s->bytes);
    io_i64(io, &s->count);
    io_i32(io, &s->first_step);
    io_i32(io, &s->last_step);
    IO_BOOL(io, s->reverse);
    io_i32(io, &s->depth);
    IO_BOOL(io, s->commits);
    io_str(io, &s->name);
    io_str(io, &s->loc);
}

static void io_buffer(Io *io, ProgBuffer *b)
{
    io_str(io, &b->name);
    IO_ENUM(io, b->region, PR_DEVICE + 1u);
    io_i32(io, &b->index);
    io_i64(io, &b->offset);
    io_i64(io, &b->bytes);
    io_i32(io, &b->first);
    io_i32(io, &b->last);
    io_type(io, &b->type);
    io_str(io, &b->loc);
}

static void io_entry(Io *io, ProgEntry *e)
{
    io_str(io, &e->name);
    IO_ENUM(io, e->kind, PK_MODEL + 1u);
    IO_ARRAY(io, e->ninputs, e->inputs, 33);
    for (int32_t i = 0; i < e->ninputs && !io->error; i++) {
        ProgInput *in = &e->inputs[i];
        io_str(io, &in->name);
        io_type(io, &in->type);
        IO_BOOL(io, in->data);
        IO_BOOL(io, in->has_range);
        io_i64(io, &in->low);
        io_i64(io, &in->high);
        io_i32(io, &in->batch_axis_micro);
        IO_BOOL(io, in->always);
        IO_ARRAY(io, in->noutputs, in->outputs, 4);
        for (int32_t k = 0; k < in->noutputs && !io->error; k++) io_i32(io, &in->outputs[k]);
    }
    IO_ARRAY(io, e->noutputs, e->outputs, 7);
    for (int32_t i = 0; i < e->noutputs && !io->error; i++) {
        io_str(io, &e->outputs[i].name);
        io_type(io, &e->outputs[i].type);
        IO_BOOL(io, e->outputs[i].tap);
    }
    IO_ARRAY(io, e->nbuffers, e->buffers, 39);
    for (int32_t i = 0; i < e->nbuffers && !io->error; i++) io_buffer(io, &e->buffers[i]);
    IO_ARRAY(io, e->nsteps, e->steps, 47);
    for (int32_t i = 0; i < e->nsteps && !io->error; i++) io_step(io, &e->steps[i]);
    IO_ARRAY(io, e->ndims, e->dims, 13);
    for (int32_t i = 0; i < e->ndims && !io->error; i++) {
        io_str(io, &e->dims[i].name);
        io_i64(io, &e->dims[i].value);
        IO_BOOL(io, e->dims[i].batch);
    }
    IO_ARRAY(io, e->nchecks, e->checks, 17);
    for (int32_t i = 0; i < e->nchecks && !io->error; i++) {
        IO_ENUM(io, e->checks[i].kind, CHECK_ASSERT + 1u);
        io_str(io, &e->checks[i].message);
        io_str(io, &e->checks[i].loc);
        io_i64(io, &e->checks[i].bound);
    }
    IO_BOOL(io, e->rows);
    bool has_cursor = e->cursor != NULL;
    IO_BOOL(io, has_cursor);
    if (has_cursor) io_str(io, &e->cursor);
    io_i64(io, &e->batch);
    io_i64(io, &e->arena_bytes);
    io_i64(io, &e->peak_bytes);
}

static void io_map(Io *io, ProgMap *m)
{
    io_i32(io, &m->arg);
    int64_t *wide[] = {&m->offset, &m->rows, &m->cols, &m->pitch};
    for (int i = 0; i < 4; i++) io_i64(io, wide[i]);
    io_i32(io, &m->box_rows);
    io_i32(io, &m->box_cols);
    io_i32(io, &m->apart);
    for (int i = 0; i < 2; i++) io_i64(io, &m->planes[i]);
    for (int i = 0; i < 2; i++) io_i64(io, &m->plane_pitch[i]);
    for (int i = 0; i < PROG_MAX_IMAGE_AXES; i++) {
        io_i64(io, &m->image[i]);
        io_i64(io, &m->image_pitch[i]);
        io_i32(io, &m->first[i]);
        io_i32(io, &m->places[i]);
        io_i32(io, &m->step[i]);
    }
}

static void io_kernel(Io *io, ProgKernel *k)
{
    io_str(io, &k->name);
    io_u64(io, &k->identity);
    io_str(io, &k->text);
    io_str(io, &k->symbol);
    io_str(io, &k->annotated);
    for (int i = 0; i < 3; i++) io_u32(io, &k->grid[i]);
    for (int i = 0; i < 3; i++) io_u32(io, &k->block[i]);
    io_u32(io, &k->cluster);
    io_u32(io, &k->shared_bytes);
    io_i32(io, &k->nargs);
    io_i32(io, &k->nmaps);
    for (int i = 0; i < k->nmaps && i < PROG_MAX_MAPS; i++) io_map(io, &k->maps[i]);
    io_i64(io, &k->bytes_read);
    io_i64(io, &k->bytes_written);
    io_i64(io, &k->flops);
    io_i64(io, &k->product_flops);
    IO_ENUM(io, k->product_type, PD_COUNT);
    IO_BOOL(io, k->product_tf32);
    io_double(io, &k->floor_seconds);
    io_str(io, &k->schedule);
    io_str(io, &k->file);
}

static void io_conv(Io *io, ProgConv *c)
{
    IO_ENUM(io, c->kind, PV_WEIGHT + 1u);
    io_i32(io, &c->axes);
    int64_t *fields[] = {&c->images, &c->channels, &c->results, &c->parts};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) io_i64(io, fields[i]);
    int64_t *sizes[] = {c->image, c->size, c->places, c->step, c->dilation, c->before, c->after};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int k = 0; k < PROG_MAX_IMAGE_AXES; k++) io_i64(io, &sizes[i][k]);
}

static void io_gemm(Io *io, ProgGemm *g)
{
    io_str(io, &g->name);
    io_str(io, &g->loc);
    IO_ENUM(io, g->a_type, PD_COUNT);
    IO_ENUM(io, g->b_type, PD_COUNT);
    IO_ENUM(io, g->c_type, PD_COUNT);
    IO_ENUM(io, g->compute, PD_COUNT);
    IO_BOOL(io, g->tf32);
    IO_BOOL(io, g->trans_a);
    IO_BOOL(io, g->trans_b);
    int64_t *fields[] = {&g->m,     &g->n,        &g->k,        &g->lda,      &g->ldb,      &g->ldc,
                         &g->batch, &g->stride_a, &g->stride_b, &g->stride_c, &g->workspace};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) io_i64(io, fields[i]);
    io_conv(io, &g->conv);
    IO_ENUM(io, g->epilogue, PE_GELU_AUX + 1u);
    IO_BOOL(io, g->residual);
    io_str(io, &g->choice_key);
    io_i32(io, &g->kernel);
    io_i32(io, &g->kernel_args);
    io_i32(io, &g->follower);
    io_i32(io, &g->follower_args);
}

static void io_const(Io *io, ProgConst *c)
{
    io_type(io, &c->type);
    int64_t bytes = prog_type_bytes(&c->type);
    if (bytes < 0 || (!io->out && (uint64_t)bytes > io->left)) {
        fail(io, "a constant runs past the end");
        return;
    }
    if (io->out) {
        buf_bytes(io->out, c->data, (size_t)bytes);
        return;
    }
    void *data = arena_alloc(io->arena, (size_t)bytes + 1);
    io_bytes(io, data, (size_t)bytes);
    c->data = data;
}

static void io_program(Io *io, Program *p)
{
    io_str(io, &p->model);
    io_str(io, &p->target);
    IO_BOOL(io, p->cuda);
    io_i32(io, &p->devices);
    IO_ARRAY(io, p->ncells, p->cells, 16);
    for (int32_t i = 0; i < p->ncells && !io->error; i++) io_cell(io, &p->cells[i]);
    IO_ARRAY(io, p->nentries, p->entries, 55);
    for (int32_t i = 0; i < p->nentries && !io->error; i++) io_entry(io, &p->entries[i]);
    IO_ARRAY(io, p->nkernels, p->kernels, 101);
    for (int32_t i = 0; i < p->nkernels && !io->error; i++) io_kernel(io, &p->kernels[i]);
    IO_ARRAY(io, p->ngemms, p->gemms, 321);
    for (int32_t i = 0; i < p->ngemms && !io->error; i++) io_gemm(io, &p->gemms[i]);
    IO_ARRAY(io, p->nconsts, p->consts, 2);
    for (int32_t i = 0; i < p->nconsts && !io->error; i++) io_const(io, &p->consts[i]);
    io_str(io, &p->prelude);
    io_str(io, &p->choices);
}

void program_write(const Program *p, Buf *out)
{
    Io io = {.out = out};
    Program copy = *p; // io may modify what it transfers; when writing, it changes nothing
    uint32_t version = PROG_VERSION;
    buf_bytes(out, magic, sizeof magic);
    io_u32(&io, &version);
    io_program(&io, &copy);
}

Program *program_read(Arena *a, const void *bytes, size_t n, const char **error)
{
    Io io = {.arena = a, .at = bytes, .left = n};
    char head[sizeof magic];
    uint32_t version = 0;
    *error = NULL;
    io_bytes(&io, head, sizeof head);
    io_u32(&io, &version);
    if (io.error || memcmp(head, magic, sizeof magic) != 0) {
        *error = "this is not a compiled program";
        return NULL;
    }
    if (version != PROG_VERSION) {
        *error = arena_printf(a,
                              "the program has format %u, this netc reads format %u; compile the "
                              "model again",
                              version, (unsigned)PROG_VERSION);
        return NULL;
    }
    Program *p = NEW(a, Program);
    p->arena = a;
    io_program(&io, p);
    if (!io.error && io.left) fail(&io, "bytes are left over at the end");
    if (!io.error) io.error = program_validate(p);
    *error = io.error;
    return io.error ? NULL : p;
}
