// Windows and what is made of them: convolutions, and their gradients through kind_grad.
#include <math.h>
#include <string.h>

#include "ir/axes.h"
#include "tests/fuzz/programs/programs.h"

typedef struct Choice { // of one windowed axis
    int64_t size, stride, dilation;
} Choice;

static Choice choice_of(const Statement *s, int axis, int64_t extent)
{
    static const int64_t sizes[] = {1, 2, 2, 3, 3, 3, 5, 4}, steps[] = {1, 1, 1, 1, 2, 2, 3, 5};
    Random r = {hash_axis(s->raw[0], axis)};
    Choice c = {sizes[random_below(&r, 8)], steps[random_below(&r, 8)], steps[random_below(&r, 6)]};
    if (random_below(&r, 6) == 0) c.stride = c.size;
    if (c.size > extent) c.size = extent;
    if ((c.size - 1) * c.dilation >= extent) c.dilation = 1;
    return c;
}

static bool fits_rank(const Statement *s, const void *most)
{
    return class_of(s) == CLASS_FLOAT && s->type.rank >= 1 && s->type.rank <= *(const int *)most;
}

// -- windows --------------------------------------------------------------------------------------

static bool windows_axis(const Statement *s, const Type *x, int i)
{
    return i == (int)(s->raw[1] % x->rank) || (s->raw[2] >> i & 3) == 3;
}

static bool choose_window(Maker *m, Statement *s)
{
    const int most = 4;
    for (int i = 0; i < RAW; i++) s->raw[i] = (uint32_t)random_next(&m->random);
    s->n = 1;
    s->arg[0] = pick(m, fits_rank, &most);
    return s->arg[0] >= 0;
}

static bool derive_window(const Draft *d, Statement *s)
{
    const Type *x = &operand(d, s, 0)->type;
    int last = -1, n = 0;
    int64_t size[MAX_RANK];
    s->type = *x;
    for (int i = 0; i < x->rank; i++) {
        if (!windows_axis(s, x, i)) continue;
        Choice c = choice_of(s, i, x->dim[i]);
        s->type.dim[i] = window_places(x->dim[i], c.size, c.stride, c.dilation);
        size[n++] = c.size;
        last = i;
    }
    if (!n || x->rank + n > 6) return false;
    memmove(s->type.dim + last + 1 + n, s->type.dim + last + 1,
            (size_t)(x->rank - last - 1) * sizeof *size);
    memcpy(s->type.dim + last + 1, size, (size_t)n * sizeof *size);
    s->type.rank = (uint8_t)(x->rank + n);
    derive_same(d, s);
    return true;
}

static void print_choices(const Statement *s, const Type *x, int field, Buf *out)
{
    int64_t v[MAX_RANK];
    int n = 0;
    for (int i = 0; i < x->rank; i++) {
        Choice c = choice_of(s, i, x->dim[i]);
        if (windows_axis(s, x, i))
            v[n++] = field == 0 ? i : field == 1 ? c.size : field == 2 ? c.stride : c.dilation;
    }
    print_list(v, n, out);
}

static void print_window(const Draft *d, const Statement *s, Buf *out)
{
    const Type *x = &operand(d, s, 0)->type;
    buf_printf(out, "    v%d = window(", number_of(d, s));
    print_operand(d, s, 0, out);
    for (int field = 0; field < 4; field++) {
        buf_str(out, ", ");
        print_choices(s, x, field, out);
    }
    buf_str(out, ")\n");
}

// -- convolutions ---------------------------------------------------------------------------------

static int64_t groups_of(const Statement *s, int64_t channels, int64_t out)
{
    int64_t wanted[] = {1, 1, 1, 2, channels};
    int64_t g = wanted[s->raw[1] % 5];
    return channels % g || out % g ? 1 : g;
}

static int64_t padding_of(const Statement *s) // -1: "same"
{
    return (int64_t)(s->raw[3] % 4) - 1;
}

static bool is_image(const Statement *s, const void *most)
{
    return fits_rank(s, most) && s->type.rank >= 3 && s->type.dim[s->type.rank - 1] <= 256;
}

static bool choose_convolve(Maker *m, Statement *s)
{
    const int most = 4;
    for (int i = 0; i < RAW; i++) s->raw[i] = (uint32_t)random_next(&m->random);
    s->n = 2;
    s->arg[0] = pick(m, is_image, &most);
    if (s->arg[0] < 0) {
        int64_t dim[] = {2, some_dim(m), 5, some_dim(m)};
        s->arg[0] = append_leaf(m, DT_F32, 4, dim);
        if (s->arg[0] < 0) return false;
    }
    const Type x = m->d->at[s->arg[0]].type;
    int64_t channels = x.dim[x.rank - 1], out = s->raw[2] % 2 ? channels : 1 + s->raw[2] % 9;
    Type w = type_make(x.dtype, x.rank, x.dim);
    w.dim[0] = out;
    for (int i = 1; i < x.rank - 1; i++) w.dim[i] = choice_of(s, i, x.dim[i]).size;
    w.dim[x.rank - 1] = channels / groups_of(s, channels, out);
    s->arg[1] = append_leaf(m, x.dtype, x.rank, w.dim);
    return s->arg[1] >= 0;
}

static bool derive_convolve(const Draft *d, Statement *s)
{
    const Statement *x = operand(d, s, 0), *w = operand(d, s, 1);
    const int rank = x->type.rank;
    const int64_t channels = x->type.dim[rank - 1], out = w->type.dim[0];
    double terms = (double)w->type.dim[rank - 1];
    if (rank < 3 || w->type.rank != rank || class_of(x) != CLASS_FLOAT ||
        !dtype_join(x->type.dtype, w->type.dtype, &s->type.dtype) ||
        w->type.dim[rank - 1] * groups_of(s, channels, out) != channels)
        return false;
    s->type = type_make(s->type.dtype, rank, x->type.dim);
    s->type.dim[rank - 1] = out;
    for (int i = 1; i < rank - 1; i++) {
        Choice c = choice_of(s, i, x->type.dim[i]);
        int64_t p = padding_of(s), extent = x->type.dim[i] + 2 * (p < 0 ? 0 : p);
        if (w->type.dim[i] != c.size) return false;
        s->type.dim[i] = p < 0 ? (extent + c.stride - 1) / c.stride
                               : window_places(extent, c.size, c.stride, c.dilation);
        if (s->type.dim[i] < 1) return false;
        terms *= (double)c.size;
    }
    for (int k = 0; k < SAMPLES; k++)
        s->sample[k] = x->sample[k] * w->sample[(k + 3) % SAMPLES] * sqrt(terms);
    s->smooth = x->smooth | w->smooth | 1ull << number_of(d, s);
    return true;
}

static void print_convolve(const Draft *d, const Statement *s, Buf *out)
{
    const Type *x = &operand(d, s, 0)->type, *w = &operand(d, s, 1)->type;
    int64_t v[2][MAX_RANK];
    int n = x->rank - 2;
    for (int i = 0; i < n; i++) {
        Choice c = choice_of(s, i + 1, x->dim[i + 1]);
        v[0][i] = c.stride;
        v[1][i] = c.dilation;
    }
    buf_printf(out, "    v%d = convolve(", number_of(d, s));
    print_operand(d, s, 0, out);
    buf_str(out, ", ");
    print_operand(d, s, 1, out);
    buf_str(out, ", stride = ");
    print_list(v[0], n, out);
    buf_str(out, ", dilation = ");
    print_list(v[1], n, out);
    if (padding_of(s) >= 0) buf_printf(out, ", padding = %lld", (long long)padding_of(s));
    buf_printf(out, ", groups = %lld)\n", (long long)groups_of(s, x->dim[x->rank - 1], w->dim[0]));
}

const Kind kind_window = {"window", 4, choose_window, derive_window, print_window};
const Kind kind_convolve = {"convolve", 3, choose_convolve, derive_convolve, print_convolve};
