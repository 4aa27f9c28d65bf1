// Advice for a name that is not defined: a similar name, or what to write instead of it.
#include <string.h>

#include "base/embedded.h"
#include "base/names.h"
#include "frontend/elab.h"

typedef VEC(const char *) Names;

static void add_keys(Elab *e, Names *out, const StrMap *m)
{
    for (uint32_t i = 0; i < m->n; i++) vec_push(e->arena, out, m->entry[i].key);
}

static void add_sizes(Elab *e, Names *out, const EFile *f)
{
    for (uint32_t i = 0; i < f->globals.n; i++) {
        const Global *g = f->globals.entry[i].value;
        if (g->stmt->kind == STMT_DIM || g->stmt->kind == STMT_CONST)
            vec_push(e->arena, out, f->globals.entry[i].key);
    }
}

// All names that are visible here; size: only those that may be a size.
static Names in_sight(Elab *e, bool size)
{
    enum { MOST_BUILTIN = 4096 };
    Names names = {0};
    const EFile *f = e->frame->file;
    add_keys(e, &names, &e->frame->vars);
    for (uint32_t i = 0; i <= f->uses.n; i++) {
        const EFile *in = i ? f->uses.at[i - 1] : f;
        if (size)
            add_sizes(e, &names, in);
        else
            add_keys(e, &names, &in->globals);
    }
    if (size) return names;
    if (e->core) add_keys(e, &names, &e->core->globals);
    const char **builtin = NEW_ARRAY(e->arena, const char *, MOST_BUILTIN);
    uint32_t n = 0;
    builtin_names(e, builtin, &n, MOST_BUILTIN);
    for (uint32_t i = 0; i < n; i++) vec_push(e->arena, &names, builtin[i]);
    return names;
}

// The definitions of the standard library: name -> name of its file. The library is parsed only for
// this.
static StrMap standard_names(Elab *e)
{
    StrMap names = strmap_new(e->arena);
    Diags *quiet = diags_new(e->arena);
    for (const EmbeddedFile *f = std_files; f->name; f++) {
        File *ast =
            parse_source(e->arena, quiet, source_add(quiet, f->name, f->text, f->len, true));
        char *file = arena_strndup(e->arena, f->name, strlen(f->name) - strlen(".net"));
        for (uint32_t i = 0; i < ast->stmts.n; i++) {
            const Stmt *s = ast->stmts.at[i];
            if ((s->kind == STMT_FN || s->kind == STMT_CONST) && !strmap_has(&names, s->name))
                strmap_set(&names, s->name, file);
        }
    }
    return names;
}

static Val unknown_size(Elab *e, const char *name, Span span)
{
    Names names = in_sight(e, true);
    Advice near = advise_near(name, names.at, names.n);
    Diag *d = error_at(e, span, "unknown size '%s'%s", name, near.text);
    if (!*near.text)
        diag_note(
            e->diags, d,
            "declare it at the top of the file, as in 'dim %s = 16'; the data or -D %s=… give "
            "it another value",
            name, name);
    return val_poison();
}

// Whether an error about this name was reported before: only its first use is reported.
static bool is_said(const Elab *e, const char *name, Span span)
{
    const char *what[] = {"unknown name", "unknown size"};
    for (uint32_t i = 0; i < e->diags->list.n; i++) {
        const Diag *d = &e->diags->list.at[i];
        for (int k = 0; k < 2; k++) {
            const char *begin = arena_printf(e->arena, "%s '%s'", what[k], name);
            if (d->span.source == span.source && !strncmp(d->text, begin, strlen(begin)))
                return true;
        }
    }
    return false;
}

// Names in other languages and libraries, and what they are called in this language.
const char *foreign_name(const char *name, bool member)
{
    static const char *const known[][2] = {
        {"True", "write 'true'"},
        {"False", "write 'false'"},
        {"None", "write 'none'"},
        {"range", "a range is written 0..n"},
        {"print", "write 'tap x as name' and look at it with --watch name"},
        {"float", "write 'cast(x, f32)'"},
        {"int", "write 'cast(x, i32)'"},
        {"float16", "the type is 'f16'"},
        {"float32", "the type is 'f32'"},
        {"float64", "the type is 'f64'"},
        {"double", "the type is 'f64'"},
        {"bfloat16", "the type is 'bf16'"},
        {"int32", "the type is 'i32'"},
        {"int64", "the type is 'i64'"},
        {"uint8", "the type is 'u8'"},
        {"uint32", "the type is 'u32'"},
        {"newaxis", "write 'none'"},
        {"jit", "leave it out: every model is compiled"},
        {"vmap", "leave it out: functions accept tensors with additional axes"},
        {"scan", "write 'loop i in 0..n carry s over x = xs { ... }'"},
        {"arange", "write 'iota(n)', integers from 0 on"},
        {"linspace", "write 'low + (high - low) / (n - 1) * cast(iota(n), f32)'"},
        {"zeros_like", "write 'zeros(shape(x))'"},
        {"ones_like", "write 'ones(shape(x))'"},
        {"full_like", "write 'full(shape(x), value)'"},
        {"tril", "write 'where(iota(n)[:, none] >= iota(n), x, 0)'"},
        {"triu", "write 'where(iota(n)[:, none] <= iota(n), x, 0)'"},
        {"diag", "for a matrix write 'sum(x * eye(n), -1)', for a vector 'x[:, none] * eye(n)'"},
        {"trace", "write 'sum(x * eye(n))'"},
        {"outer", "write 'x[:, none] * y'"},
        {"dot", "write 'matmul(x, y)'"},
        {"mm", "write 'matmul(x, y)'"},
        {"bmm", "write 'matmul(x, y)'"},
        {"view", "write 'reshape(x, shape)'"},
        {"permute", "write 'transpose(x, axes)'"},
        {"swapaxes", "write 'transpose(x, axes)', or 'transpose(x)' for the last two"},
        {"unsqueeze", "write 'expand(x, axis)', or 'x[:, none]'"},
        {"expand_dims", "write 'expand(x, axis)', or 'x[:, none]'"},
        {"squeeze", "write 'x[:, 0]' for the axis, or 'reshape(x, shape)'"},
        {"cat", "write 'concat(list, axis)'"},
        {"concatenate", "write 'concat(list, axis)'"},
        {"chunk", "write 'split(x, parts, axis)'"},
        {"unbind", "write 'for i in 0..dim(x, 0)' and 'x[i]', or 'loop' with 'over'"},
        {"flip", "write 'reverse(x, axis)'"},
        {"repeat", "write 'broadcast(x, shape)' along an axis of size 1"},
        {"tile", "write 'concat([x, x], axis)'"},
        {"topk", "write 'sort(x, descending = true)[..., :k]', and argsort for the indices"},
        {"clip", "write 'clamp(x, low, high)'"},
        {"amax", "write 'max(x, axis)'"},
        {"amin", "write 'min(x, axis)'"},
        {"var", "write 'variance(x, axis)'"},
        {"std", "write 'sqrt(variance(x, axis))'"},
        {"norm", "write 'sqrt(sum(x * x, axis))'"},
        {"isnan", "write 'x != x'"},
        {"isinf", "write 'abs(x) == inf'"},
        {"power", "write 'x ** y'"},
        {"exp2", "write '2.0 ** x'"},
        {"log2", "write 'log(x) / log(2)'"},
        {"log10", "write 'log(x) / log(10)'"},
        {"fmod", "write 'x % y', which has the sign of y"},
        {"logaddexp", "write 'logsumexp(stack([x, y]), 0)' with 'use nn'"},
        {"swish", "write 'silu(x)' with 'use nn'"},
        {"mse_loss", "write 'mse(x, y)' with 'use nn'"},
        {"l1_loss", "write 'l1(x, y)' with 'use nn'"},
        {"huber_loss", "write 'huber(x, y)' with 'use nn'"},
        {"smooth_l1", "write 'huber(x, y)' with 'use nn'"},
        {"smooth_l1_loss", "write 'huber(x, y)' with 'use nn'"},
        {"nll_loss", "write 'cross_entropy(logits, label)' with 'use nn', which takes logits"},
        {"rand", "write 'uniform(shape, 0, 1)'"},
        {"randn", "write 'normal(shape, 1)'"},
        {"randint", "write 'cast(floor(uniform(shape, low, high)), i32)'"},
        {"randperm", "write 'argsort(uniform([n], 0, 1))'"},
        {"empty", "write 'zeros(shape)'"},
        {"detach", "write 'stop_gradient(x)'"},
        {"no_grad", "write 'stop_gradient(x)'"},
        {"masked_fill", "write 'where(mask, value, x)'"},
        {"index_select", "write 'x[index]', or 'gather(x, index, axis)'"},
        {"index_add", "write 'scatter_add(x, index, values, axis)'"},
        {"segment_sum", "write 'scatter_add(zeros([n]), index, values)'"},
        {"segment_max", "write 'scatter_max(full([n], -inf), index, values)'"},
        {"scatter_reduce", "write 'scatter_add', 'scatter_max' or 'scatter_min'"},
        {"index_put", "write 'scatter(x, [i, j], values)', for a state 'x[i, j] <- values'"},
        {"inv", "write 'solve(a, eye(n))' with 'use linalg'"},
        {"inverse", "write 'solve(a, eye(n))' with 'use linalg'"},
        {"det", "write 's * exp(l)' for 's, l = slogdet(a)' with 'use linalg'"},
        {"cdist", "write 'sqrt(sum(square(x[:, none] - y), -1))'"},
        {"meshgrid", "write 'x[:, none]' and 'y', which broadcast"},
        {"kl_div", "write 'sum(p * (log(p) - logq), -1)'"},
        {"jacobian", "write 'loop i in 0..n { emit j = grad(f(x)[i], x) }'"},
        {"hessian", "write 'loop i in 0..n { emit h = grad(grad(f(x), x)[i], x) }'"},
        {"jvp", "write 'grad(sum(grad(sum(y * u), x) * v), u)' for 'u = zeros(shape(y))'"},
        {"gumbel_softmax",
         "write 'softmax((x - log(-log(uniform(shape(x), 1e-7, 1)))) / tau)' with 'use nn'"},
        {"adaptive_avg_pool2d", "write 'adaptive_avg_pool(x, size)' with 'use conv'"},
        {"PixelShuffle", "write 'pixel_shuffle(x, factor)' with 'use conv'"},
        {"grid_sample", "write 'sample(x, row, col)' with 'use augment', in pixels"},
        {"box_iou", "write 'iou(a[:, none], b)' with 'use detection'"},
        {"generalized_box_iou", "write 'giou(a[:, none], b)' with 'use detection'"},
        {"sigmoid_focal_loss", "write 'focal_loss(logits, target)' with 'use detection'"},
        {"scaled_dot_product_attention", "write 'attention(q, k, v, mask)' with 'use nn'"},
        {"MultiheadAttention", "write 'multi_head(heads = 8)(x)' with 'use transformer'"},
        {"sequence_mask", "write 'iota(n) < length[:, none]'"},
        {"while_loop", "write 'loop i in 0..n carry x while x > 1 { … }'"},
        {"fori_loop", "write 'loop i in 0..n carry x { … }'"},
        {"register_buffer", "write 'state name: f32[3] = value'"},
        {"lerp", "write 'x + share * (y - x)'"},
        {"binary_cross_entropy", "write 'bce_with_logits(logits, target)' with 'use nn'"},
        {"max_pool2d", "write 'max_pool(x, size)' with 'use conv'"},
        {"avg_pool2d", "write 'avg_pool(x, size)' with 'use conv'"},
        {"interpolate", "write 'resize(x, size)' with 'use conv'"},
        {"dropout2d", "write 'dropout_channels(x, p)' with 'use conv'"},
        {"unfold", "write 'window(x, axes, sizes, stride)'"},
        {"narrow", "write 'x[:, start:start + length]'"},
        {"swapdims", "write 'transpose(x, axes)'"},
        {"movedim", "write 'transpose(x, axes)'"},
        {"repeat_interleave", "write 'gather(x, iota(n * dim(x, axis)) // n, axis)'"},
        {"median", "write 'sort(x)[..., (n - 1) // 2]' for 'n = dim(x, -1)'"},
        {"nanmean", "write 'masked_mean(x, x == x)' with 'use nn'"},
        {"nan_to_num", "write 'where(x == x, x, 0)'"},
        {"count_nonzero", "write 'sum(x != 0, axis)'"},
        {"nonzero", "the size of its result would depend on the data; write 'where(mask, x, 0)'"},
        {"argwhere", "the size of its result would depend on the data; write 'where(mask, x, 0)'"},
        {"unique", "the size of its result would depend on the data"},
        {"bincount", "write 'scatter_add(zeros([n], i32), x, 1)'"},
        {"scatter_mean", "divide 'scatter_add' of the values by 'scatter_add' of 1"},
        {"searchsorted", "write 'sum(edges < x[..., none], -1)'"},
        {"bucketize", "write 'sum(edges < x[..., none], -1)'"},
        {"multinomial", "write 'argmax(logits - log(-log(uniform(shape(logits), 1e-7, 1))))'"},
        {"categorical", "write 'argmax(logits - log(-log(uniform(shape(logits), 1e-7, 1))))'"},
        {"logcumsumexp",
         "write 'associative_scan(f, x, axis)' with f(a, b) = logsumexp(stack([a, b]), 0)"},
        {"logit", "write 'log(x / (1 - x))'"},
        {"hypot", "write 'sqrt(x * x + y * y)'"},
        {"hardtanh", "write 'clamp(x, -1, 1)'"},
        {"remainder", "write 'x % y'"},
        {"kron", "write 'reshape(einsum(\"ij,kl->ikjl\", a, b), shape)'"},
        {"pinverse", "write 'solve(matmul(transpose(a), a), transpose(a))' with 'use linalg'"},
        {"lstsq",
         "write 'solve(matmul(transpose(a), a), matmul(transpose(a), b))' with 'use linalg'"},
        {"svd", "'eigh(matmul(transpose(x), x))' of 'use linalg' gives the values' squares"},
        {"fft", "write 'matmul(x, cos(w))' and 'matmul(x, sin(w))', w[t, k] = 2 * pi * t * k / n"},
        {"rfft", "write 'matmul(x, cos(w))' and 'matmul(x, sin(w))', w[t, k] = 2 * pi * t * k / n"},
        {"gammaln", "write 'lgamma(x)'"},
        {"polygamma", "'digamma(x)' and 'trigamma(x)' are the first two"},
    };
    static const char *const members[][2] = {
        {"T", "write 'transpose(x)'"},
        {"mT", "write 'transpose(x)'"},
        {"size", "write 'shape(x)', or 'dim(x, axis)'"},
        {"ndim", "write 'rank(x)'"},
        {"astype", "write 'cast(x, type)'"},
        {"to", "write 'cast(x, type)'"},
        {"half", "write 'cast(x, f16)'"},
        {"long", "write 'cast(x, i64)'"},
        {"contiguous", "leave it out: there are no strides"},
        {"item", "leave it out: a tensor without axes is a number"},
        {"grad", "write 'grad(loss, x)'"},
        {"at", "for a state write 'x[i] <- value', for a value 'scatter(x, index, values)'"},
    };
    for (size_t i = 0; member && i < sizeof members / sizeof *members; i++)
        if (!strcmp(members[i][0], name)) return members[i][1];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i][0], name)) return known[i][1];
    return NULL;
}

// The first parameter of the layers that a call with this name created; NULL: there is none.
static const char *layer_of(const Elab *e, const char *name)
{
    size_t n = strlen(name);
    for (uint32_t i = 0; i < e->cell_list.n; i++) {
        const Cell *c = &e->cell_list.at[i]->cell;
        if (c->kind == CELL_PARAM && !strncmp(c->name, name, n) && c->name[n] == '.')
            return c->name;
    }
    return NULL;
}

Val name_unknown(Elab *e, const char *name, Span span, bool size)
{
    if (is_said(e, name, span)) return val_poison();
    for (const Region *r = e->region; r; r = r->up)
        for (uint32_t i = 0; i < r->emit_name.n; i++)
            if (!strcmp(r->emit_name.at[i], name))
                return fail(e, span,
                            "unknown name '%s'; it is the values of all iterations, which there "
                            "are after the loop: to read that of this one, define it before, "
                            "'%s = …', and write 'emit %s'",
                            name, name, name);
    const char *instead = foreign_name(name, false);
    if (instead) return fail(e, span, "unknown name '%s'; %s", name, instead);
    const char *first = layer_of(e, name);
    if (first)
        return fail(e, span,
                    "unknown name '%s'; layers have this name: one of their parameters is %s, all "
                    "are params(\"%s.*\")",
                    name, first, name);
    StrMap standard = standard_names(e);
    const char *file = strmap_get(&standard, name);
    if (file)
        return fail(e, span,
                    "unknown name '%s'; it is in the standard library: write 'use %s' at "
                    "the top of the file",
                    name, file);
    if (size) return unknown_size(e, name, span);
    Names names = in_sight(e, false);
    uint32_t seen = names.n;
    add_keys(e, &names, &standard);
    const char *near = suggest(name, names.at, names.n);
    bool used = false;
    for (uint32_t i = 0; near && i < seen; i++) used = used || names.at[i] == near;
    if (near && !used)
        return fail(e, span, "unknown name '%s'; did you mean '%s'? Write 'use %s' for it", name,
                    near, (const char *)strmap_get(&standard, near));
    return fail(e, span, "unknown name '%s'%s", name, advise_near(name, names.at, seen).text);
}
