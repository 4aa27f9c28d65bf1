// Checks everything that the runtime relies on in a Program from a file: afterwards no index, size
// or loop in it can lead outside. What kernels compute is trusted, as the code of any executable
// is.
#include <string.h>

#include "ir/target.h"
#include "base/map.h"
#include "codegen/program.h"

static const int64_t most_bytes = (int64_t)1 << 48; // limit of any size

typedef struct Validate {
    const Program *p;
    const ProgEntry *e;
    int64_t count[PROG_MAX_LOOP_DEPTH]; // iterations of the enclosing loops of the step
} Validate;

static bool sane_type(const ProgType *t)
{
    int64_t n = prog_type_bytes(t);
    if ((unsigned)t->dtype >= PD_COUNT || n < 0 || n > most_bytes) return false;
    for (int i = 0; i < t->rank; i++) // (n is 0 if one axis is empty, whatever the others)
        if (t->dim[i] > most_bytes) return false;
    return true;
}

// Adds up memory that is allocated as one block; false: it cannot be addressed.
static bool add_bytes(int64_t *total, const ProgType *t)
{
    *total += prog_type_bytes(t);
    return *total <= most_bytes;
}

static bool named(const char *s)
{
    return s && *s;
}

static bool identifier(const char *s)
{
    if (!named(s)) return false;
    for (const char *c = s; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_';
        if (!letter && !(c > s && *c >= '0' && *c <= '9')) return false;
    }
    return true;
}

static const ProgCell *find_cell(const Program *p, const char *name)
{
    for (int32_t i = 0; i < p->ncells; i++)
        if (!strcmp(p->cells[i].name, name)) return &p->cells[i];
    return NULL;
}

static const char *check_cells(const Program *p)
{
    StrMap seen = strmap_new(p->arena);
    int64_t total = 0;
    for (int32_t i = 0; i < p->ncells; i++) {
        const ProgCell *c = &p->cells[i];
        if (!named(c->name) || !sane_type(&c->type)) return "a cell without a name or a type";
        if (!add_bytes(&total, &c->type)) return "cells of an impossible size";
        if (strmap_has(&seen, c->name)) return "two cells with the same name";
        strmap_set(&seen, c->name, (void *)c);
    }
    return NULL;
}

static const char *check_buffer(const Program *p, const ProgEntry *e, const ProgBuffer *b)
{
    const ProgType *of = NULL;
    if (!sane_type(&b->type) || b->bytes < 0 || b->bytes > most_bytes) return "a buffer of no size";
    if (b->region != PR_ARENA && b->offset) return "an offset outside the arena";
    switch (b->region) {
    case PR_ARENA:
        if (b->offset < 0 || b->bytes > e->arena_bytes || b->offset > e->arena_bytes - b->bytes)
            return "a buffer outside the arena";
        if (b->offset % 16) return "a buffer that is not aligned";
        return NULL;
    case PR_CELL:
        if (b->index >= 0 && b->index < p->ncells) of = &p->cells[b->index].type;
        break;
    case PR_INPUT:
        if (b->index >= 0 && b->index < e->ninputs) of = &e->inputs[b->index].type;
        break;
    case PR_OUTPUT:
        if (b->index >= 0 && b->index < e->noutputs) of = &e->outputs[b->index].type;
        break;
    case PR_CONST:
        if (b->index >= 0 && b->index < p->nconsts) of = &p->consts[b->index].type;
        break;
    case PR_ERROR:
        return b->bytes == (int64_t)sizeof(ProgError) ? NULL : "an error record of another size";
    case PR_ROWS: return e->rows ? NULL : "a row table without rows";
    case PR_DEVICE:
        return p->devices > 1 && b->bytes == 8 ? NULL : "the number of a single device";
    default: return "a buffer of an unknown region";
    }
    if (!of) return "a buffer that refers to nothing";
    if (!prog_type_equal(of, &b->type) || b->bytes != prog_type_bytes(of))
        return "a buffer whose type differs from what it refers to";
    return NULL;
}

// Bytes from where the argument points in the last iterations of the loops to the end of the
// buffer; -1: it points outside.
static int64_t room(const Validate *v, const ProgArg *a, int32_t depth)
{
    const ProgBuffer *b = &v->e->buffers[a->index];
    int64_t furthest = a->value;
    if (a->value < 0) return -1;
    for (int d = 0; d < PROG_MAX_LOOP_DEPTH; d++) {
        int64_t step;
        if (!a->stride[d]) continue;
        if (d >= depth || a->stride[d] < 0) return -1;
        if (v->count[d] < 1) continue;
        if (__builtin_mul_overflow(a->stride[d], v->count[d] - 1, &step) ||
            __builtin_add_overflow(furthest, step, &furthest))
            return -1;
    }
    return furthest <= b->bytes ? b->bytes - furthest : -1;
}

// Whether the buffer is data or the row table, whose length depends on the bound data set. Only
// kernels, which read rows through the table, may access these.
static bool of_data_set(const ProgEntry *e, const ProgBuffer *b)
{
    return b->region == PR_ROWS || (b->region == PR_INPUT && e->rows && e->inputs[b->index].data);
}

static bool fits(const Validate *v, const ProgArg *a, int32_t depth, int64_t elements, ProgDType t)
{
    int64_t bytes;
    if (a->kind == PA_BUFFER && of_data_set(v->e, &v->e->buffers[a->index])) return false;
    return a->kind == PA_BUFFER && !__builtin_mul_overflow(elements, prog_dtype_bytes(t), &bytes) &&
           bytes <= room(v, a, depth);
}

static const char *check_conv(const ProgGemm *g)
{
    const ProgConv *c = &g->conv;
    if ((c->axes != 2 && c->axes != 3) || c->images < 1 || c->channels < 1 || c->results < 1 ||
        c->images > INT32_MAX || c->channels > INT32_MAX || c->results > INT32_MAX ||
        c->parts < 1 || c->parts > INT32_MAX)
        return "a convolution of an impossible size";
    for (int i = 0; i < c->axes; i++) {
        const int64_t positive[] = {c->image[i], c->size[i], c->places[i], c->step[i],
                                    c->dilation[i]};
        for (int k = 0; k < 5; k++)
            if (positive[k] < 1 || positive[k] > INT32_MAX)
                return "a convolution of an impossible size";
        if (c->before[i] < 0 || c->after[i] < 0 || c->before[i] > INT32_MAX ||
            c->after[i] > INT32_MAX)
            return "a convolution of an impossible size";
        const int64_t last = c->image[i] + c->before[i] + c->after[i] -
                             c->dilation[i] * (c->size[i] - 1) - 1; // where a window can begin
        if (last < 0 || last / c->step[i] + 1 != c->places[i])
            return "a convolution whose windows do not fit its images";
    }
    const bool narrow = g->a_type == PD_BF16 || g->a_type == PD_F16;
    if ((g->a_type != PD_F32 && !narrow) || g->b_type != g->a_type || g->c_type != g->a_type ||
        g->compute != PD_F32 || (narrow && c->parts > 1))
        return "a convolution of types that no library multiplies";
    if (!g->workspace || !g->kernel || g->epilogue != PE_NONE || g->residual || g->batch != 1)
        return "a convolution without a kernel";
    return NULL;
}

static const char *check_gemm(const ProgGemm *g)
{
    const int64_t positive[] = {g->m, g->n, g->k, g->batch};
    for (int i = 0; i < 4; i++)
        if (positive[i] < 1 || positive[i] > INT32_MAX) return "a matmul of an impossible size";
    const int64_t strides[] = {g->stride_a, g->stride_b, g->stride_c, g->workspace};
    for (int i = 0; i < 4; i++)
        if (strides[i] < 0 || strides[i] > most_bytes) return "a matmul with an impossible stride";
    if (g->lda < (g->trans_a ? g->m : g->k) || g->ldb < (g->trans_b ? g->k : g->n) ||
        g->ldc < g->n || g->lda > INT32_MAX || g->ldb > INT32_MAX || g->ldc > INT32_MAX)
        return "a matmul whose rows overlap";
    if (g->compute != PD_F32 && g->compute != PD_F64)
        return "a matmul that computes in another type";
    const ProgDType t[] = {g->a_type, g->b_type, g->c_type};
    for (int i = 0; i < 3; i++)
        if (t[i] < PD_BF16 || t[i] >= PD_COUNT) return "a matmul whose type is not a float";
    if (g->batch > 1 && g->stride_c < g->m * g->n) return "a matmul whose results overlap";
    return g->conv.kind ? check_conv(g) : NULL;
}

static const char *check_gemm_step(const Validate *v, const ProgStep *s)
{
    const Program *p = v->p;
    if (s->index < 0 || s->index >= p->ngemms) return "a step that calls no matmul";
    const ProgGemm *g = &p->gemms[s->index];
    ProgEpilogue e = g->epilogue;
    bool aux = prog_epilogue_aux(e), bias = prog_epilogue_bias(e);
    if (g->kernel < 0 || g->kernel > p->nkernels || g->follower < 0 || g->follower > p->nkernels)
        return "a matmul with a kernel that does not exist";
    if (g->kernel_args < 0 || g->kernel_args > (g->kernel ? PROG_MAX_KERNEL_ARGS : 0) ||
        g->follower_args < 0 || g->follower_args > (g->follower ? PROG_MAX_KERNEL_ARGS : 0) ||
        s->nargs != prog_gemm_args(g) + g->kernel_args + g->follower_args)
        return "a matmul with the wrong arguments";
    for (int i = 0; i < prog_gemm_args(g); i++)
        if (s->args[i].kind != PA_BUFFER) return "an argument that is not a buffer";
    int64_t a, b, c;
    if (!prog_gemm_elements(g, 0, &a) || !prog_gemm_elements(g, 1, &b) ||
        !prog_gemm_elements(g, 2, &c))
        return "a matmul of an impossible size";
    if (!fits(v, &s->args[0], s->depth, a, g->a_type) ||
        !fits(v, &s->args[1], s->depth, b, g->b_type) ||
        !fits(v, &s->args[2], s->depth, c, g->c_type))
        return "a matmul that leaves its buffers";
    int32_t at = 3;
    if (g->residual && !fits(v, &s->args[at++], s->depth, c, g->c_type))
        return "a matmul whose residual is too short";
    if (bias && !fits(v, &s->args[at++], s->depth, g->n, g->c_type))
        return "a matmul whose bias is too short";
    if (aux && !fits(v, &s->args[at++], s->depth, g->m * g->n, g->c_type))
        return "a matmul whose auxiliary tensor is too short";
    if (g->workspace > 0 && !fits(v, &s->args[at], s->depth, g->workspace, PD_U8))
        return "a matmul whose workspace is too small";
    return NULL;
}

static const char *check_args(const Validate *v, const ProgStep *s)
{
    if (s->nargs < 0 || (s->nargs && !s->args)) return "a step without its arguments";
    for (int32_t i = 0; i < s->nargs; i++) {
        const ProgArg *a = &s->args[i];
        switch (a->kind) {
        case PA_BUFFER:
            if (a->index < 0 || a->index >= v->e->nbuffers)
                return "an argument that is not a buffer";
            if (room(v, a, s->depth) < 0) return "an argument that leaves its buffer";
            if (a->written && (v->e->buffers[a->index].region == PR_CONST ||
                               v->e->buffers[a->index].region == PR_INPUT ||
                               v->e->buffers[a->index].region == PR_ROWS ||
                               v->e->buffers[a->index].region == PR_DEVICE))
                return "a step that writes read-only memory";
            break;
        case PA_LOOP_INDEX:
            if (a->index < 0 || a->index >= s->depth) return "an iteration number outside its loop";
            break;
        case PA_INT: break;
        default: return "an argument of an unknown kind";
        }
        if (a->kind != PA_BUFFER && s->kind != PS_KERNEL && s->kind != PS_GEMM)
            return "an argument that is not a buffer";
    }
    return NULL;
}

static const char *check_exchange(const Validate *v, const ProgStep *s)
{
    const int64_t devices = v->p->devices;
    if (devices < 2) return "an exchange of a single device";
    if (s->nargs != 2 || s->bytes < 0 || s->bytes > most_bytes / devices || s->count < 0 ||
        s->count > 1 || s->args[0].written || !s->args[1].written)
        return "an exchange with the wrong arguments";
    return fits(v, &s->args[0], s->depth, s->count ? s->bytes * devices : s->bytes, PD_U8) &&
                   fits(v, &s->args[1], s->depth, s->bytes * devices, PD_U8)
               ? NULL
               : "an exchange that leaves its buffers";
}

static const char *check_step(const Validate *v, const ProgStep *s)
{
    const char *wrong = check_args(v, s);
    if (wrong) return wrong;
    switch (s->kind) {
    case PS_KERNEL:
        if (s->index < 0 || s->index >= v->p->nkernels) return "a step that calls no kernel";
        return NULL;
    case PS_GEMM: return check_gemm_step(v, s);
    case PS_COPY:
        if (s->nargs != 2 || s->bytes < 0 || s->args[0].written || !s->args[1].written)
            return "a copy with the wrong arguments";
        return fits(v, &s->args[0], s->depth, s->bytes, PD_U8) &&
                       fits(v, &s->args[1], s->depth, s->bytes, PD_U8)
                   ? NULL
                   : "a copy that leaves its buffers";
    case PS_ZERO:
        if (s->nargs != 1 || s->bytes < 0 || !s->args[0].written)
            return "a clearing with the wrong arguments";
        return fits(v, &s->args[0], s->depth, s->bytes, PD_U8)
                   ? NULL
                   : "a clearing that leaves its buffer";
    case PS_EXCHANGE: return check_exchange(v, s);
    case PS_AGREE:
        if (v->p->devices < 2 || s->nargs != 1 ||
            v->e->buffers[s->args[0].index].region != PR_ERROR)
            return "an agreement about no error record";
        return NULL;
    case PS_SKIP:
        if (!s->depth || s->nargs != 1 || s->args[0].written)
            return "a skip with the wrong arguments";
        return fits(v, &s->args[0], s->depth, 1, PD_BOOL) ? NULL : "a skip without a bool";
    case PS_LOOP:
        if (s->nargs || s->count < 0 || s->count > most_bytes) return "a loop that cannot run";
        return NULL;
    }
    return "a step of an unknown kind";
}

static const char *check_steps(Validate *v)
{
    const ProgEntry *e = v->e;
    int32_t end[PROG_MAX_LOOP_DEPTH + 1] = {e->nsteps}, depth = 0;
    for (int32_t i = 0; i < e->nsteps; i++) {
        const ProgStep *s = &e->steps[i];
        while (depth && i >= end[depth]) depth--;
        if (s->depth != depth) return "a step at the wrong depth of loops";
        const char *wrong = check_step(v, s);
        if (wrong) return wrong;
        if (s->kind != PS_LOOP) continue;
        if (depth == PROG_MAX_LOOP_DEPTH || s->first_step != i + 1 || s->last_step <= i + 1 ||
            s->last_step > end[depth])
            return "a loop that is not nested";
        v->count[depth] = s->count;
        end[++depth] = s->last_step;
    }
    return NULL;
}

static const char *check_entry(const Program *p, const ProgEntry *e)
{
    if (!named(e->name)) return "an entry without a name";
    if ((unsigned)e->kind > PK_MODEL) return "an entry of an unknown kind";
    if (e->arena_bytes < 0 || e->arena_bytes > most_bytes || e->peak_bytes < 0 || e->batch < 0)
        return "an entry of an impossible size";
    if (e->ninputs < 0 || e->noutputs < 0 || e->nbuffers < 0 || e->nsteps < 0 || e->ndims < 0 ||
        e->nchecks < 0)
        return "an entry with a negative count";
    StrMap seen = strmap_new(p->arena);
    for (int32_t i = 0; i < e->ninputs; i++) {
        const ProgInput *in = &e->inputs[i];
        if (!named(in->name) || !sane_type(&in->type)) return "an input without a name or a type";
        if (in->data && in->type.rank < 1) return "an input of examples without an axis for them";
        if (in->batch_axis_micro < 1) return "an input without micro-batches";
        for (int32_t k = 0; k < in->noutputs; k++)
            if (in->outputs[k] < 0 || in->outputs[k] >= e->noutputs)
                return "an input needed for an output that does not exist";
        if (strmap_has(&seen, in->name)) return "two inputs with the same name";
        strmap_set(&seen, in->name, (void *)in);
    }
    seen = strmap_new(p->arena);
    int64_t total = 0;
    for (int32_t i = 0; i < e->noutputs; i++) {
        const ProgOutput *out = &e->outputs[i];
        if (!named(out->name) || !sane_type(&out->type))
            return "an output without a name or a type";
        if (!add_bytes(&total, &out->type)) return "outputs of an impossible size";
        if (strmap_has(&seen, out->name)) return "two outputs with the same name";
        strmap_set(&seen, out->name, (void *)out);
    }
    if (e->cursor) {
        const ProgCell *c = find_cell(p, e->cursor);
        if (!c || c->type.dtype != PD_I64 || c->type.rank != 0)
            return "an entry whose cursor is not an i64 cell";
    }
    for (int32_t i = 0; i < e->nbuffers; i++) {
        const char *wrong = check_buffer(p, e, &e->buffers[i]);
        if (wrong) return wrong;
    }
    Validate v = {.p = p, .e = e};
    const char *wrong = check_steps(&v);
    return wrong;
}

// For windows: checks the limits of a tensor map, and that positions can be numbered.
static bool check_windows(const ProgMap *m)
{
    const int64_t most = 1 << 30;
    const int axes = prog_image_axes(m), corner = target_most_corner(axes);
    if (!axes) return true;
    for (int i = 0; i < axes; i++) {
        if (m->image[i] < 1 || m->image[i] > most ||
            m->image_pitch[i] < (i ? m->image_pitch[i - 1] : m->cols) || m->places[i] < 1 ||
            m->step[i] < 1 || m->step[i] > PROG_MAX_STEP || m->first[i] < -corner ||
            m->first[i] >= corner)
            return false;
        int64_t last = m->first[i] + (m->places[i] - 1ll) * m->step[i] - (m->image[i] - 1);
        if (last < -corner || last >= corner) return false;
    }
    return m->pitch >= m->image_pitch[axes - 1] && m->apart == 1 && !m->planes[0];
}

// Bulk copies access all elements of a map, which must be inside the argument. (Its size is only
// known to the step; like all accesses of kernels, this is trusted.)
static bool check_maps(const ProgKernel *k)
{
    if (k->nmaps < 0 || k->nmaps > PROG_MAX_MAPS || k->nargs < 0 || k->nargs > PROG_MAX_MAP_ARGS)
        return false;
    for (int i = 0; i < k->nmaps; i++) {
        const ProgMap *m = &k->maps[i];
        if (m->arg < 0 || m->arg >= k->nargs || m->offset < 0 || m->rows < 1 || m->cols < 1 ||
            m->pitch < m->cols || m->box_rows < 1 || m->box_rows > (m->image[0] ? 1024 : 256) ||
            m->box_cols < 1 || m->box_cols > 256 || m->apart < 1 || m->apart > PROG_MAX_APART ||
            m->apart > m->rows)
            return false;
        if (m->planes[0] && (m->planes[0] < 0 || m->planes[1] < 1 || m->plane_pitch[0] < 1 ||
                             m->plane_pitch[1] < 1 || m->apart != 1))
            return false;
        if (!check_windows(m)) return false;
    }
    return true;
}

static const char *check_kernels(const Program *p)
{
    for (int32_t i = 0; i < p->nkernels; i++) {
        const ProgKernel *k = &p->kernels[i];
        if (!named(k->name) || !named(k->text) || !identifier(k->symbol))
            return "a kernel without a name or a text";
        if (!p->cuda) continue;
        uint64_t threads = 1;
        for (int d = 0; d < 3; d++) {
            if (k->grid[d] < 1 || k->grid[d] > INT32_MAX || k->block[d] < 1 || k->block[d] > 1024)
                return "a kernel with an impossible launch";
            threads *= k->block[d];
        }
        if (threads > 1024 || k->cluster > 16 || k->shared_bytes > 1 << 20 || !check_maps(k))
            return "a kernel with an impossible launch";
    }
    return NULL;
}

const char *program_validate(const Program *p)
{
    if (p->ncells < 0 || p->nentries < 0 || p->nkernels < 0 || p->ngemms < 0 || p->nconsts < 0)
        return "a negative count";
    if (p->devices < 0 || p->devices > PROG_MAX_DEVICES) return "an impossible number of devices";
    if (!p->model || !p->target || !p->prelude || !p->choices) return "a name is missing";
    const char *wrong = check_cells(p);
    if (!wrong) wrong = check_kernels(p);
    for (int32_t i = 0; i < p->ngemms && !wrong; i++) wrong = check_gemm(&p->gemms[i]);
    for (int32_t i = 0; i < p->nconsts && !wrong; i++)
        if (!sane_type(&p->consts[i].type) || !p->consts[i].data)
            wrong = "a constant without a value";
    if (wrong) return wrong;
    StrMap seen = strmap_new(p->arena);
    for (int32_t i = 0; i < p->nentries; i++) {
        wrong = check_entry(p, &p->entries[i]);
        if (wrong)
            return arena_printf(p->arena, "entry `%s`: %s",
                                p->entries[i].name ? p->entries[i].name : "", wrong);
        if (strmap_has(&seen, p->entries[i].name)) return "two entries with the same name";
        strmap_set(&seen, p->entries[i].name, (void *)&p->entries[i]);
    }
    return NULL;
}
