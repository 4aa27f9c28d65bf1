// Tensors from and to other libraries: the DLPack 0.8 ABI (https://dmlc.github.io/dlpack).
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/lib.h"

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

typedef struct DlTensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; // strides: in elements; NULL: row-major
    uint64_t byte_offset;
} DlTensor;

typedef struct DlManaged {
    DlTensor tensor;
    void *manager;
    void (*deleter)(struct DlManaged *self);
} DlManaged;

static const struct {
    uint8_t code, bits;
} dl_type[] = {
    [NETC_BOOL] = {DL_BOOL, 8},  [NETC_U8] = {DL_UINT, 8},    [NETC_I32] = {DL_INT, 32},
    [NETC_U32] = {DL_UINT, 32},  [NETC_I64] = {DL_INT, 64},   [NETC_BF16] = {DL_BFLOAT, 16},
    [NETC_F16] = {DL_FLOAT, 16}, [NETC_F32] = {DL_FLOAT, 32}, [NETC_F64] = {DL_FLOAT, 64},
};

static netc_status check_strides(const DlTensor *t, const char *input, netc_error **err)
{
    int64_t want[8], stride = 1;
    bool dense = true;
    for (int i = t->ndim - 1; i >= 0; i--) {
        want[i] = stride;
        dense = dense && (!t->strides || t->strides[i] == stride || t->shape[i] == 1);
        stride *= t->shape[i];
    }
    if (dense) return NETC_OK;
    char text[256];
    size_t at = 0;
    for (int i = 0; i < t->ndim && at < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%" PRId64, i ? ", " : "", want[i]);
    return lib_fail(err, NETC_INVALID,
                    "the tensor for '%s' is not dense row-major; its strides must be (%s)", input,
                    text);
}

netc_status netc_bind_dlpack(netc_session *s, const char *entry, const char *input,
                             void *dl_managed_tensor, netc_error **err)
{
    DlManaged *m = dl_managed_tensor;
    const DlTensor *t = &m->tensor;
    if (t->ndim < 0 || t->ndim > 8)
        return lib_fail(err, NETC_INVALID, "'%s' has more than 8 axes", input);
    netc_status status = check_strides(t, input, err);
    if (status != NETC_OK) return status;
    netc_tensor out = {.rank = t->ndim, .data = t->data ? (char *)t->data + t->byte_offset : NULL};
    for (int i = 0; i < t->ndim; i++) out.dim[i] = t->shape[i];
    int type = 0;
    while (type <= NETC_F64 && (dl_type[type].code != t->code || dl_type[type].bits != t->bits))
        type++;
    if (type > NETC_F64 || t->lanes != 1)
        return lib_fail(
            err, NETC_INVALID,
            "'%s' has a DLPack type that netc does not know (code %d, %d bits, %d lanes)", input,
            t->code, t->bits, t->lanes);
    out.dtype = (netc_dtype)type;
    if (t->device_type != DL_CPU && t->device_type != DL_CUDA && t->device_type != DL_CUDA_HOST)
        return lib_fail(err, NETC_INVALID,
                        "'%s' is on a device that is neither the CPU nor a CUDA GPU", input);
    out.on_device = t->device_type == DL_CUDA;
    const Bound *before = bound_find(s, entry, input);
    if (before && before->dlpack == m) return NETC_OK; // it is bound already
    status = netc_bind(s, entry, input, &out, err);
    if (status != NETC_OK) return status;
    Bound *bound = bound_find(s, entry, input), ignored = {0};
    if (!bound) bound = &ignored; // (an input that the requested outputs do not need)
    bound->dlpack = m;
    if (bound == &ignored) dlpack_release(s, bound);
    return NETC_OK;
}

static bool is_bound(const netc_session *s, const DlManaged *m)
{
    for (const Bound *o = s->bound; o; o = o->next)
        if (o->dlpack == m) return true;
    return false;
}

void dlpack_settle(netc_session *s)
{
    for (int n = s->nretired; n > 0;) {
        DlManaged *m = s->retired[--n];
        s->nretired = n;
        if (!is_bound(s, m)) m->deleter(m);
    }
}

void dlpack_release(netc_session *s, Bound *b)
{
    DlManaged *m = b->dlpack;
    RtError ignored = {0};
    b->dlpack = NULL;
    if (!m || !m->deleter || is_bound(s, m)) return;
    if (!s->rt || !rt_device_is_cuda(s->device)) return m->deleter(m); // nothing is queued
    for (int i = 0; i < s->nretired; i++)
        if (s->retired[i] == m) return;
    // (without a wait the number of tensors that a caller keeps alive would have no limit)
    if (s->nretired == MOST_RETIRED && !rt_wait(s->rt, &ignored)) dlpack_settle(s);
    if (s->nretired == MOST_RETIRED) return m->deleter(m); // (not during a capture)
    s->retired[s->nretired++] = m;
}

typedef struct Exported {
    DlManaged managed;
    int64_t shape[8];
    _Alignas(64) unsigned char data[];
} Exported;

static void delete_exported(DlManaged *m)
{
    free(m->manager);
}

netc_status netc_read_dlpack(netc_session *s, const char *entry, const char *output,
                             void **dl_managed_tensor, netc_error **err)
{
    Loaded *l;
    const ProgType *type;
    netc_status status = session_output(s, entry, output, &l, &type, err);
    if (status != NETC_OK) return status;
    size_t whole = (sizeof(Exported) + (size_t)prog_type_bytes(type) + 63) / 64 * 64;
    Exported *x = aligned_alloc(64, whole);
    if (!x) return OUT_OF_MEMORY(err);
    memcpy(x->shape, type->dim, sizeof x->shape);
    x->managed = (DlManaged){.tensor = {.data = x->data,
                                        .device_type = DL_CPU,
                                        .ndim = type->rank,
                                        .code = dl_type[type->dtype].code,
                                        .bits = dl_type[type->dtype].bits,
                                        .lanes = 1,
                                        .shape = x->shape},
                             .manager = x,
                             .deleter = delete_exported};
    netc_tensor t = tensor_of(type, x->data);
    status = netc_read(s, entry, output, &t, err);
    if (status != NETC_OK)
        free(x);
    else
        *dl_managed_tensor = &x->managed;
    return status;
}
