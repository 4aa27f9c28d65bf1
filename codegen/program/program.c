// Access to a Program as data: look-ups and the readable plan.
#include "codegen/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "ir/module.h"

static const struct {
    const char *name;
    int bytes;
} dtypes[PD_COUNT] = {
    [PD_BOOL] = {"bool", 1}, [PD_U8] = {"u8", 1},   [PD_I32] = {"i32", 4},
    [PD_U32] = {"u32", 4},   [PD_I64] = {"i64", 8}, [PD_BF16] = {"bf16", 2},
    [PD_F16] = {"f16", 2},   [PD_F32] = {"f32", 4}, [PD_F64] = {"f64", 8},
};

int prog_dtype_bytes(ProgDType t)
{
    return (unsigned)t < PD_COUNT ? dtypes[t].bytes : 0;
}

const char *prog_dtype_name(ProgDType t)
{
    return (unsigned)t < PD_COUNT ? dtypes[t].name : "?";
}

int64_t prog_type_bytes(const ProgType *t)
{
    int64_t n = prog_dtype_bytes(t->dtype);
    if (t->rank < 0 || t->rank > PROG_MAX_RANK) return -1;
    for (int i = 0; i < t->rank; i++)
        if (t->dim[i] < 0 || __builtin_mul_overflow(n, t->dim[i], &n)) return -1;
    return n;
}

bool prog_type_equal(const ProgType *a, const ProgType *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           !memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim);
}

void prog_type_text(char *out, size_t n, const ProgType *t)
{
    size_t at = (size_t)snprintf(out, n, "%s[", prog_dtype_name(t->dtype));
    for (int i = 0; i < t->rank && i < PROG_MAX_RANK && at < n; i++) {
        const char *comma = i ? ", " : "";
        at += (size_t)(t->dim[i] < 0 ? snprintf(out + at, n - at, "%s*", comma)
                                     : snprintf(out + at, n - at, "%s%" PRId64, comma, t->dim[i]));
    }
    if (at < n) snprintf(out + at, n - at, "]");
}

void prog_store(ProgDType t, void *at, double v)
{
    switch (t) {
    case PD_BOOL: *(uint8_t *)at = v != 0; break;
    case PD_U8: *(uint8_t *)at = (uint8_t)v; break;
    case PD_I32: *(int32_t *)at = (int32_t)v; break;
    case PD_U32: *(uint32_t *)at = (uint32_t)v; break;
    case PD_I64: *(int64_t *)at = (int64_t)v; break;
    case PD_BF16: *(uint16_t *)at = half_bits(v, HALF_BF16); break;
    case PD_F16: *(uint16_t *)at = half_bits(v, HALF_F16); break;
    case PD_F32: *(float *)at = (float)v; break;
    case PD_F64: *(double *)at = v; break;
    case PD_COUNT: break;
    }
}

double prog_load(ProgDType t, const void *at)
{
    switch (t) {
    case PD_BOOL:
    case PD_U8: return *(const uint8_t *)at;
    case PD_I32: return *(const int32_t *)at;
    case PD_U32: return *(const uint32_t *)at;
    case PD_I64: return (double)*(const int64_t *)at;
    case PD_BF16: return half_value(*(const uint16_t *)at, HALF_BF16);
    case PD_F16: return half_value(*(const uint16_t *)at, HALF_F16);
    case PD_F32: return *(const float *)at;
    case PD_F64: return *(const double *)at;
    case PD_COUNT: break;
    }
    return 0;
}

bool prog_epilogue_bias(ProgEpilogue e)
{
    return e == PE_BIAS || e == PE_RELU_BIAS || e == PE_GELU_BIAS || e == PE_GELU_AUX_BIAS;
}

bool prog_epilogue_aux(ProgEpilogue e)
{
    return e == PE_GELU_AUX_BIAS || e == PE_GELU_AUX || e == PE_DGELU;
}

int prog_gemm_args(const ProgGemm *g)
{
    return 3 + g->residual + prog_epilogue_bias(g->epilogue) + prog_epilogue_aux(g->epilogue) +
           (g->workspace > 0);
}

int prog_conv_operand(const ProgConv *c, char of)
{
    switch (c->kind) {
    case PV_INPUT: return of == 'y' ? 0 : of == 'w' ? 1 : 2;
    case PV_WEIGHT: return of == 'y' ? 0 : of == 'x' ? 1 : 2;
    default: return of == 'x' ? 0 : of == 'w' ? 1 : 2;
    }
}

static bool conv_elements(const ProgConv *c, int operand, int64_t *out)
{
    const bool x = operand == prog_conv_operand(c, 'x'), w = operand == prog_conv_operand(c, 'w');
    const int64_t *sizes = x ? c->image : w ? c->size : c->places;
    int64_t n = operand == 2 ? c->parts : 1;
    bool over = __builtin_mul_overflow(n, x || w ? c->channels : c->results, &n) ||
                __builtin_mul_overflow(n, w ? c->results : c->images, &n);
    for (int i = 0; i < c->axes; i++) over = over || __builtin_mul_overflow(n, sizes[i], &n);
    *out = n;
    return !over;
}

bool prog_gemm_elements(const ProgGemm *g, int operand, int64_t *out)
{
    const int64_t ld[] = {g->lda, g->ldb, g->ldc},
                  stride[] = {g->stride_a, g->stride_b, g->stride_c};
    const bool turned = operand == 0 ? g->trans_a : operand == 1 && g->trans_b;
    const int64_t high = operand == 1 ? g->k : g->m, wide = operand == 0 ? g->k : g->n;
    int64_t rows, batch;
    if (g->conv.kind) return conv_elements(&g->conv, operand, out);
    return !__builtin_mul_overflow((turned ? wide : high) - 1, ld[operand], &rows) &&
           !__builtin_add_overflow(rows, turned ? high : wide, &rows) &&
           !__builtin_mul_overflow(g->batch - 1, stride[operand], &batch) &&
           !__builtin_add_overflow(rows, batch, out);
}

const ProgEntry *program_entry(const Program *p, const char *name)
{
    for (int32_t i = 0; i < p->nentries; i++)
        if (!strcmp(p->entries[i].name, name)) return &p->entries[i];
    return NULL;
}

int prog_image_axes(const ProgMap *m)
{
    return !m->image[0] ? 0 : m->image[2] ? 3 : 2;
}

bool prog_arg_same(const ProgArg *a, const ProgArg *b)
{
    bool same = a->kind == b->kind && a->index == b->index && a->value == b->value;
    for (int d = 0; d < PROG_MAX_LOOP_DEPTH; d++) same = same && a->stride[d] == b->stride[d];
    return same;
}

void program_written(const Program *p, const ProgEntry *e, bool *written)
{
    for (int32_t i = 0; i < p->ncells; i++) written[i] = false;
    for (int32_t i = 0; i < e->nsteps; i++)
        for (int32_t k = 0; k < e->steps[i].nargs; k++) {
            const ProgArg *a = &e->steps[i].args[k];
            const ProgBuffer *b = a->kind == PA_BUFFER ? &e->buffers[a->index] : NULL;
            if (b && b->region == PR_CELL && a->written) written[b->index] = true;
        }
}

bool program_told(const ProgCell *c)
{
    return c->kind == PC_CONTROL &&
           (!strcmp(c->name, CELL_TOTAL) || !strcmp(c->name, CELL_EPOCH_STEPS));
}

bool program_derives(const ProgEntry *e)
{
    return program_is_hidden(e) && !program_prepares(e) && !program_reads_first(e);
}

bool program_reads_first(const ProgEntry *e)
{
    return e->kind == PK_INIT && !strcmp(e->name, PROG_FIRST_BATCH);
}

enum { PREFIX = 8 }; // of "prepare."

bool program_prepares(const ProgEntry *e)
{
    return e->kind == PK_INIT && !strncmp(e->name, "prepare.", PREFIX);
}

int program_preparing(const Program *p, const ProgEntry *e)
{
    for (int i = 0; i < p->nentries; i++)
        if (program_prepares(&p->entries[i]) && !strcmp(p->entries[i].name + PREFIX, e->name))
            return i;
    return -1;
}

bool program_is_hidden(const ProgEntry *e)
{
    return e->kind == PK_INIT && strcmp(e->name, "init") != 0;
}

// -- the readable plan ----------------------------------------------------------------------------

static const char *text(const char *s)
{
    return s ? s : "";
}

static void print_type(Buf *b, const ProgType *t)
{
    char type[240];
    prog_type_text(type, sizeof type, t);
    buf_str(b, type);
}

// Prints a size with three digits: "602 KB".
static void print_bytes(Buf *b, int64_t n)
{
    static const char *const unit[] = {"B", "KB", "MB", "GB", "TB"};
    double v = (double)n;
    int u = 0;
    for (; v >= 1000 && u < 4; u++) v /= 1000;
    buf_printf(b, u && v < 10 ? "%.2f %s" : u && v < 100 ? "%.1f %s" : "%.0f %s", v, unit[u]);
}

static void print_arg(Buf *b, const ProgEntry *e, const ProgArg *a)
{
    if (a->kind == PA_LOOP_INDEX) {
        buf_printf(b, "iteration %d", (int)a->index);
        return;
    }
    if (a->kind == PA_INT) {
        buf_printf(b, "%" PRId64, a->value);
        return;
    }
    const ProgBuffer *f = &e->buffers[a->index];
    buf_printf(b, "%s%s", a->written ? ">" : "", text(f->name));
    buf_printf(b, "#%d", (int)a->index);
    for (int d = 0; d < PROG_MAX_LOOP_DEPTH; d++)
        if (a->stride[d]) buf_printf(b, "+i%d*%" PRId64, d, a->stride[d]);
    if (a->value) buf_printf(b, "+%" PRId64, a->value);
}

static void print_buffer(Buf *b, const ProgEntry *e, int32_t i)
{
    static const char *const region[] = {"temp",  "cell",  "input", "output",
                                         "const", "error", "rows"};
    const ProgBuffer *f = &e->buffers[i];
    size_t from = b->len;
    buf_printf(b, "    #%-4d %-6s ", (int)i, region[f->region]);
    if (f->region == PR_ARENA)
        buf_printf(b, "at %-10" PRId64 " steps %d..%d ", f->offset, (int)f->first, (int)f->last);
    buf_pad(b, 46 - (int)(b->len - from), ' ');
    print_bytes(b, f->bytes);
    buf_pad(b, 56 - (int)(b->len - from), ' ');
    print_type(b, &f->type);
    buf_printf(b, "  %s", text(f->name));
    if (f->loc && *f->loc) buf_printf(b, "  %s", f->loc);
    buf_char(b, '\n');
}

// "28x28"
static void print_sizes(Buf *b, const int64_t *sizes, int n)
{
    for (int i = 0; i < n; i++) buf_printf(b, "%s%" PRId64, i ? "x" : "", sizes[i]);
}

void prog_conv_print(const ProgConv *c, Buf *out)
{
    static const char *const kind[] = {"", "", "gradient of images, ", "gradient of weights, "};
    buf_printf(out, "%s%" PRId64 " images ", kind[c->kind], c->images);
    print_sizes(out, c->image, c->axes);
    buf_printf(out, "x%" PRId64 ", windows ", c->channels);
    print_sizes(out, c->size, c->axes);
    buf_printf(out, ", %" PRId64 " results at ", c->results);
    print_sizes(out, c->places, c->axes);
    buf_str(out, " places");
}

static void print_matmul(Buf *b, const ProgGemm *g)
{
    static const char *const epilogue[] = {[PE_NONE] = "",
                                           [PE_BIAS] = "bias",
                                           [PE_RELU] = "relu",
                                           [PE_RELU_BIAS] = "relu, bias",
                                           [PE_GELU] = "gelu",
                                           [PE_GELU_BIAS] = "gelu, bias",
                                           [PE_GELU_AUX_BIAS] = "gelu, aux, bias",
                                           [PE_DGELU] = "gelu gradient",
                                           [PE_GELU_AUX] = "gelu, aux"};
    buf_printf(b, "%s%s x %s%s -> %s  m %" PRId64 " n %" PRId64 " k %" PRId64,
               prog_dtype_name(g->a_type), g->trans_a ? "^T" : "", prog_dtype_name(g->b_type),
               g->trans_b ? "^T" : "", prog_dtype_name(g->c_type), g->m, g->n, g->k);
    buf_printf(b, "  ld %" PRId64 " %" PRId64 " %" PRId64, g->lda, g->ldb, g->ldc);
    if (g->batch != 1)
        buf_printf(b, "  batch %" PRId64 " (%" PRId64 ", %" PRId64 ", %" PRId64 ")", g->batch,
                   g->stride_a, g->stride_b, g->stride_c);
    if (g->residual) buf_str(b, "  residual");
    if (g->epilogue) buf_printf(b, "  epilogue %s", epilogue[g->epilogue]);
}

static void print_gemm(Buf *b, const ProgGemm *g)
{
    if (g->conv.kind) {
        buf_printf(b, "%s  ", prog_dtype_name(g->a_type));
        prog_conv_print(&g->conv, b);
    } else {
        print_matmul(b, g);
    }
    if (g->tf32) buf_str(b, "  tf32");
    if (g->follower) buf_str(b, "  and what follows it");
    if (g->kernel) buf_str(b, "  or a generated kernel");
    buf_printf(b, "  %.3g MFLOP",
               2e-6 * (double)g->m * (double)g->n * (double)g->k * (double)g->batch);
}

static void print_step(Buf *b, const Program *p, const ProgEntry *e, int32_t i)
{
    const ProgStep *s = &e->steps[i];
    buf_printf(b, "    %4d  ", (int)i);
    buf_pad(b, 2 * s->depth, ' ');
    switch (s->kind) {
    case PS_KERNEL: buf_printf(b, "kernel %s", p->kernels[s->index].name); break;
    case PS_GEMM:
        buf_printf(b, "%s %s  ", p->gemms[s->index].conv.kind ? "convolution" : "matmul",
                   text(s->name));
        print_gemm(b, &p->gemms[s->index]);
        break;
    case PS_COPY: buf_printf(b, "copy %s, ", text(s->name)), print_bytes(b, s->bytes); break;
    case PS_ZERO: buf_printf(b, "zero %s, ", text(s->name)), print_bytes(b, s->bytes); break;
    case PS_EXCHANGE:
        buf_printf(b, "exchange %s, ", text(s->name)), print_bytes(b, s->bytes);
        buf_str(b, s->count ? " of each part" : "");
        break;
    case PS_AGREE: buf_str(b, "agree whether a check failed"); break;
    case PS_SKIP: buf_str(b, "skip this iteration unless"); break;
    case PS_LOOP:
        buf_printf(b, "loop %s, %" PRId64 " times%s, steps %d..%d", text(s->name), s->count,
                   s->reverse ? " backwards" : "", (int)s->first_step, (int)s->last_step - 1);
        break;
    }
    if (s->nargs) {
        buf_str(b, "  (");
        for (int32_t k = 0; k < s->nargs; k++) {
            if (k) buf_str(b, ", ");
            print_arg(b, e, &s->args[k]);
        }
        buf_char(b, ')');
    }
    if (s->commits) buf_str(b, "  commits");
    if (s->loc && *s->loc) buf_printf(b, "  %s", s->loc);
    buf_char(b, '\n');
}

static void print_entry(Buf *b, const Program *p, const ProgEntry *e)
{
    static const char *const kind[] = {"init", "train", "eval", "model"};
    int32_t counts[PS_SKIP + 1] = {0};
    for (int32_t i = 0; i < e->nsteps; i++) counts[e->steps[i].kind]++;
    buf_printf(b, "\nentry %s (%s)", e->name, kind[e->kind]);
    for (int32_t i = 0; i < e->ndims; i++)
        buf_printf(b, "  %s = %" PRId64, e->dims[i].name, e->dims[i].value);
    buf_printf(b, "\n  %d kernels, %d matmuls, %d copies, %d zeroed, %d loops\n", counts[PS_KERNEL],
               counts[PS_GEMM], counts[PS_COPY], counts[PS_ZERO], counts[PS_LOOP]);
    buf_str(b, "  temporaries ");
    print_bytes(b, e->arena_bytes);
    buf_printf(b, " (%" PRId64 "), most live at once %" PRId64 ", ratio %.3f\n", e->arena_bytes,
               e->peak_bytes, e->peak_bytes ? (double)e->arena_bytes / (double)e->peak_bytes : 1.0);
    for (int32_t i = 0; i < e->ninputs; i++) {
        buf_printf(b, "  input %s: ", e->inputs[i].name);
        print_type(b, &e->inputs[i].type);
        if (e->inputs[i].has_range)
            buf_printf(b, " in %" PRId64 "..%" PRId64, e->inputs[i].low, e->inputs[i].high);
        buf_str(b, e->inputs[i].data ? "  data" : "");
        buf_str(b, e->inputs[i].data && e->rows ? ", through the row table\n" : "\n");
    }
    for (int32_t i = 0; i < e->noutputs; i++) {
        buf_printf(b, "  output %s: ", e->outputs[i].name);
        print_type(b, &e->outputs[i].type);
        buf_str(b, e->outputs[i].tap ? "  tap\n" : "\n");
    }
    buf_str(b, "  buffers\n");
    for (int32_t i = 0; i < e->nbuffers; i++) print_buffer(b, e, i);
    buf_str(b, "  steps\n");
    for (int32_t i = 0; i < e->nsteps; i++) print_step(b, p, e, i);
    for (int32_t i = 0; i < e->nchecks; i++) {
        const ProgCheck *c = &e->checks[i];
        buf_printf(b, "  check %d: %s", (int)i + 1, text(c->message));
        if (c->kind == CHECK_INDEX) buf_printf(b, " in 0..%" PRId64, c->bound);
        buf_printf(b, "  %s\n", text(c->loc));
    }
}

void program_print(const Program *p, Buf *b)
{
    buf_printf(b, "program %s for %s: %d cells, %d entries, %d kernels, %d matmuls, %d constants\n",
               text(p->model), text(p->target), (int)p->ncells, (int)p->nentries, (int)p->nkernels,
               (int)p->ngemms, (int)p->nconsts);
    static const char *const kind[] = {"param",   "state",   "scratch",
                                       "setting", "control", "prepared"};
    int64_t total = 0;
    for (int32_t i = 0; i < p->ncells; i++) {
        const ProgCell *c = &p->cells[i];
        buf_printf(b, "  %-8s%s: ", kind[c->kind], c->name);
        print_type(b, &c->type);
        buf_str(b, " = ");
        buf_double(b, c->initial);
        buf_str(b, c->frozen ? "  frozen" : c->optimizer ? "  optimizer" : "");
        if (c->first_batch) buf_str(b, "  of the first batch");
        buf_char(b, '\n');
        total += prog_type_bytes(&c->type);
    }
    buf_str(b, "  cells take ");
    print_bytes(b, total);
    buf_char(b, '\n');
    for (int32_t i = 0; i < p->nentries; i++) print_entry(b, p, &p->entries[i]);
    if (p->nkernels) buf_str(b, "\nkernels\n");
    for (int32_t i = 0; i < p->nkernels; i++) {
        const ProgKernel *k = &p->kernels[i];
        buf_printf(b, "  %s\n    reads ", k->name);
        print_bytes(b, k->bytes_read);
        buf_str(b, ", writes ");
        print_bytes(b, k->bytes_written);
        buf_printf(b, ", %.3g MFLOP, floor %.3g us", (double)k->flops * 1e-6,
                   k->floor_seconds * 1e6);
        if (p->cuda)
            buf_printf(b, "; grid %u %u %u, block %u %u %u, shared %u", k->grid[0], k->grid[1],
                       k->grid[2], k->block[0], k->block[1], k->block[2], k->shared_bytes);
        buf_char(b, '\n');
        if (k->schedule && *k->schedule) buf_printf(b, "    %s\n", k->schedule);
    }
    if (p->choices && *p->choices) buf_printf(b, "\nchoices\n%s", p->choices);
}
