// Data sets: named files and arrays, read in the form that the model's inputs require.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "lib/lib.h"
#include "runtime/host/file.h"

netc_status netc_dataset_create(netc_context *c, netc_dataset **out, netc_error **err)
{
    netc_dataset *d = calloc(1, sizeof *d);
    if (!d) return OUT_OF_MEMORY(err);
    d->context = c;
    *out = d;
    return NETC_OK;
}

static void free_item(DataItem *it)
{
    if (it->loaded && !it->borrowed) rt_array_free(&it->array);
    rt_files_free(it->files);
    free(it->input);
    free(it->path);
    free(it->part);
}

void netc_dataset_free(netc_dataset *d)
{
    if (!d) return;
    for (int i = 0; i < d->n; i++) free_item(&d->item[i]);
    for (ImageSet *s = d->sets, *next; s; s = next) {
        next = s->next;
        rt_images_free(s->images);
        free(s->path), free(s);
    }
    free(d->item);
    free(d);
}

static netc_status add(netc_dataset *d, const char *input, DataItem **out, netc_error **err)
{
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->item[i].input, input))
            return lib_fail(err, NETC_INVALID,
                            "data for input '%s' was given twice; join files with commas", input);
    if (d->n == d->cap) {
        int cap = d->cap ? 2 * d->cap : 8;
        DataItem *more = realloc(d->item, (size_t)cap * sizeof *more);
        if (!more) return OUT_OF_MEMORY(err);
        d->item = more;
        d->cap = cap;
    }
    DataItem *it = &d->item[d->n];
    *it = (DataItem){.input = strdup(input)};
    if (!it->input) return OUT_OF_MEMORY(err);
    d->n++;
    *out = it;
    return NETC_OK;
}

netc_status netc_dataset_add_file(netc_dataset *d, const char *input, const char *path,
                                  const char *part, netc_error **err)
{
    DataItem *it;
    netc_status status = add(d, input, &it, err);
    if (status != NETC_OK) return status;
    it->path = strdup(path);
    it->part = part ? strdup(part) : NULL;
    it->of_images = (!part || strcmp(part, "raw")) && rt_images_named(path);
    it->files = it->of_images ? NULL : rt_files_new(path);
    if (!it->path || (part && !it->part) || (!it->files && !it->of_images)) {
        free_item(it);
        d->n--;
        return OUT_OF_MEMORY(err);
    }
    if (it->of_images) return NETC_OK; // (other files may be)
    if (d->random) rt_files_anywhere(it->files);
    rt_files_begin(it->files); // reading begins while the device is opened and the model compiled
    return NETC_OK;
}

netc_status netc_dataset_add_array(netc_dataset *d, const char *input, const netc_tensor *t,
                                   netc_error **err)
{
    ProgType type;
    netc_status status = tensor_type("the array given as data", t, &type, err);
    if (status != NETC_OK) return status;
    if (t->rank && !t->dim[0])
        return lib_fail(err, NETC_INVALID, "the data hold no examples: '%s' has none", input);
    if (t->on_device || t->rank < 1)
        return lib_fail(err, NETC_INVALID,
                        "data for '%s' must be a host array with its examples along axis 0", input);
    status = aligned(input, t, &type, err);
    if (status != NETC_OK) return status;
    if (d->random)
        return lib_fail(err, NETC_INVALID, "random windows are read from files; '%s' is an array",
                        input);
    DataItem *it;
    status = add(d, input, &it, err);
    if (status != NETC_OK) return status;
    it->borrowed = it->loaded = true;
    it->array.type = type;
    it->array.bytes = (size_t)prog_type_bytes(&it->array.type);
    it->array.data = t->data;
    return NETC_OK;
}

netc_status netc_dataset_random_windows(netc_dataset *d, netc_error **err)
{
    bool late = d->used;
    for (int i = 0; i < d->n; i++) late |= d->item[i].loaded || d->item[i].of_images;
    if (late)
        return lib_fail(err, NETC_INVALID,
                        "random windows are read from files and must be requested before the "
                        "data are used");
    d->random = true;
    for (int i = 0; i < d->n; i++) rt_files_anywhere(d->item[i].files);
    return NETC_OK;
}

int64_t dataset_step(const netc_dataset *d)
{
    const RtSource *source = d->n ? d->item[0].array.source : NULL;
    return source && source->step ? source->step : 1;
}

const RtArray *dataset_find(const netc_dataset *d, const char *input)
{
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->item[i].input, input)) return &d->item[i].array;
    return NULL;
}

static const InputDecl *declaration(const netc_program *p, const char *input)
{
    const FileDecls *f = p->decls;
    const InputDecl *found = NULL;
    for (uint32_t i = 0; i < f->inputs.n; i++) {
        const InputDecl *in = &f->inputs.at[i];
        if (strcmp(in->name, input)) continue;
        // If models have inputs of the same name, that of the only requested model is used,
        // otherwise that of the trained one.
        const char *only = p->settings.nentries == 1 ? p->settings.entries[0] : NULL;
        const char *of = only && strcmp(only, "train") && strcmp(only, "eval") ? only : f->trains;
        if (!found || (of && !strcmp(in->model, of))) found = in;
    }
    return found;
}

static netc_status unknown_input(const netc_program *p, const char *input, netc_error **err)
{
    const FileDecls *f = p->decls;
    const char *names[64];
    size_t n = 0;
    for (uint32_t i = 0; i < f->inputs.n && n < 64; i++) names[n++] = f->inputs.at[i].name;
    return lib_fail(err, NETC_INVALID, "%s has no input '%s'%s", p->name, input,
                    advise(input, names, n).text);
}

static netc_status of_input(const DataItem *it, const RtError *e, netc_error **err)
{
    RtError named = {0};
    rt_fail(&named, e->code, "input '%s': %s", it->input, e->text);
    return lib_fail_rt(err, &named);
}

// -- images ---------------------------------------------------------------------------------------
netc_status netc_dataset_images(netc_dataset *d, bool resize, bool skip_bad, netc_error **err)
{
    if (d->used)
        return lib_fail(err, NETC_INVALID,
                        "how images are read must be set before the data set is used: give other "
                        "settings to a new one");
    d->resize = resize;
    d->skip_bad = skip_bad;
    return NETC_OK;
}

static netc_status open_set(netc_dataset *d, DataItem *it, netc_error **err)
{
    ImageSet *s = d->sets;
    RtError e = {0};
    if (it->set) return NETC_OK;
    while (s && strcmp(s->path, it->path)) s = s->next;
    if (!s) {
        s = calloc(1, sizeof *s);
        if (!s || !(s->path = strdup(it->path))) return free(s), OUT_OF_MEMORY(err);
        if (rt_images_open(it->path, d->resize, d->skip_bad, &s->images, &e)) {
            free(s->path), free(s);
            return of_input(it, &e, err);
        }
        s->next = d->sets;
        d->sets = s;
    }
    it->set = s;
    return NETC_OK;
}

// Images may take half of the free memory; larger sets are read from their files when needed.
static netc_status load_images(netc_dataset *d, DataItem *it, const ProgType *wanted,
                               netc_error **err)
{
    size_t free_bytes = (size_t)8 << 30, total;
    const char *first;
    RtError e = {0};
    netc_status status = open_set(d, it, err);
    if (status != NETC_OK) return status;
    rt_host_memory(&free_bytes, &total);
    if (rt_images_array(it->set->images, it->part, wanted, free_bytes / 2, &it->array, &e))
        return of_input(it, &e, err);
    int64_t bad = rt_images_bad(it->set->images, &first);
    if (bad && !it->set->told)
        lib_log(d->context, "note: %" PRId64 " image%s of %s %s skipped; the first: %s", bad,
                bad > 1 ? "s" : "", it->path, bad > 1 ? "are" : "is", first ? first : "");
    it->set->told = true;
    return NETC_OK;
}

netc_status dataset_agrees(const netc_dataset *a, const netc_dataset *b, netc_error **err)
{
    RtError e = {0};
    for (const ImageSet *x = a ? a->sets : NULL; x; x = x->next)
        for (const ImageSet *y = b ? b->sets : NULL; y; y = y->next)
            if (rt_images_agree(x->images, x->path, y->images, y->path, &e))
                return lib_fail_rt(err, &e);
    return NETC_OK;
}

static ProgType example_of(const InputDecl *decl)
{
    ProgType t = {.dtype = (ProgDType)decl->dtype, .rank = decl->rank ? decl->rank - 1 : 0};
    for (int k = 0; k < t.rank; k++) t.dim[k] = decl->dim[k + 1];
    return t;
}

// f32 of the caller's memory is rounded for a 16-bit float, as that of files: a copy of it.
static netc_status narrow(DataItem *it, const netc_program *p, netc_error **err)
{
    const InputDecl *decl = p->decls ? declaration(p, it->input) : NULL;
    const bool half = decl && (decl->dtype == DT_F16 || decl->dtype == DT_BF16);
    if (!half || !it->borrowed || it->array.type.dtype != PD_F32) return NETC_OK;
    const ProgDType to = (ProgDType)decl->dtype;
    const int64_t n = (int64_t)(it->array.bytes / sizeof(float));
    float *copy = malloc(it->array.bytes + 1);
    if (!copy) return OUT_OF_MEMORY(err);
    memcpy(copy, it->array.data, it->array.bytes);
    int64_t bad = half_narrow(copy, n, to == PD_F16 ? HALF_F16 : HALF_BF16);
    if (bad >= 0) {
        free(copy);
        return lib_fail(err, NETC_INVALID,
                        "input '%s': example %" PRId64 " holds a number that is too large for %s",
                        it->input, bad / (n / it->array.type.dim[0]), prog_dtype_name(to));
    }
    it->array.data = copy;
    it->array.type.dtype = to;
    it->array.bytes /= 2;
    it->borrowed = false;
    return NETC_OK;
}

static netc_status load_item(netc_dataset *d, DataItem *it, netc_program *p, netc_error **err)
{
    const InputDecl *decl = p->decls ? declaration(p, it->input) : NULL;
    if (p->decls && !decl) return unknown_input(p, it->input, err);
    RtError e = {0};
    if (!it->loaded) {
        ProgType wanted = decl ? example_of(decl) : (ProgType){0}, own;
        // If the file contains its shape, it sets the model's dimensions, overriding their
        // defaults.
        if (decl && !it->of_images && rt_files_type(it->files, it->part, &own) &&
            own.rank == decl->rank)
            for (int k = 1; k < own.rank; k++)
                if (decl->dim_name[k]) wanted.dim[k - 1] = own.dim[k];
        if (it->of_images) {
            netc_status status = load_images(d, it, decl ? &wanted : NULL, err);
            if (status != NETC_OK) return status;
        } else if (rt_files_array(it->files, it->part, decl ? &wanted : NULL, &it->array, &e)) {
            return of_input(it, &e, err);
        }
        rt_files_free(it->files);
        it->files = NULL;
        it->loaded = true;
    }
    if (decl && decl->has_range &&
        rt_array_check_range(&it->array, it->path ? it->path : it->input, decl->low, decl->high,
                             &e) != RT_OK)
        return of_input(it, &e, err);
    return NETC_OK;
}

netc_status dataset_load(netc_dataset *d, netc_program *p, netc_error **err)
{
    d->used = true;
    netc_status status = NETC_OK;
    for (int i = 0; i < d->n && status == NETC_OK; i++) {
        status = load_item(d, &d->item[i], p, err);
        if (status == NETC_OK) status = narrow(&d->item[i], p, err);
    }
    return status;
}

static bool some_input_has_rank(const netc_program *p, const char *input, int rank)
{
    const FileDecls *f = p->decls;
    for (uint32_t i = 0; i < f->inputs.n; i++)
        if (f->inputs.at[i].rank == rank && !strcmp(f->inputs.at[i].name, input)) return true;
    return false;
}

static netc_status wrong_rank(Arena *a, const InputDecl *decl, const ProgType *t, netc_error **err)
{
    Buf want = buf_new(a);
    char have[160];
    for (int k = 0; k < decl->rank; k++) {
        if (decl->dim_name[k])
            buf_printf(&want, "%s%s", k ? ", " : "", decl->dim_name[k]);
        else
            buf_printf(&want, "%s%" PRId64, k ? ", " : "", decl->dim[k]);
    }
    prog_type_text(have, sizeof have, t);
    return lib_fail(err, NETC_INVALID, "input '%s' of '%s' is %s[%s], the data given for it are %s",
                    decl->name, decl->model, prog_dtype_name((ProgDType)decl->dtype),
                    want.data ? want.data : "", have);
}

// The type of the array. If possible, reads only the beginning of the file.
static netc_status item_type(netc_dataset *d, DataItem *it, netc_program *p, const InputDecl *decl,
                             ProgType *type, netc_error **err)
{
    int rank = decl->rank;
    if (!it->loaded && it->of_images) {
        ProgType wanted = example_of(decl);
        RtError e = {0};
        netc_status status = open_set(d, it, err);
        if (status == NETC_OK && rt_images_type(it->set->images, it->part, &wanted, type, &e))
            status = of_input(it, &e, err);
        return status;
    }
    if (!it->loaded && rt_files_type(it->files, it->part, type) && type->rank == rank)
        return NETC_OK;
    netc_status status = load_item(d, it, p, err);
    *type = it->array.type;
    return status;
}

// The size of a dimension, as found in the data of an input.
typedef struct Found {
    const char *dim, *input;
    int64_t size;
} Found;

// Adds a definition; reports an error if it contradicts that of another input.
static netc_status agree(Found *found, int n, Found f, netc_error **err)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(found[i].dim, f.dim) && found[i].size != f.size)
            return lib_fail(err, NETC_INVALID,
                            "the data disagree: %s is %" PRId64 " in '%s' and %" PRId64 " in '%s'",
                            f.dim, found[i].size, found[i].input, f.size, f.input);
    found[n] = f;
    return NETC_OK;
}

netc_status dataset_defines(netc_dataset *d, netc_program *p, bool whole, Arena *a,
                            const char ***out, int *n, bool *differ, netc_error **err)
{
    *differ = false;
    d->used = true;
    *out = NEW_ARRAY(a, const char *, d->n *MAX_RANK + 1);
    *n = 0;
    Found *found = NEW_ARRAY(a, Found, d->n * MAX_RANK + 1);
    if (!p->decls) return dataset_load(d, p, err);
    for (int i = 0; i < d->n; i++) {
        const InputDecl *decl = declaration(p, d->item[i].input);
        if (!decl) return unknown_input(p, d->item[i].input, err);
        ProgType t;
        netc_status status = item_type(d, &d->item[i], p, decl, &t, err);
        if (status != NETC_OK) return status;
        if (t.rank != decl->rank && !some_input_has_rank(p, decl->name, t.rank))
            return wrong_rank(a, decl, &t, err);
        if (t.rank != decl->rank) continue; // an input of another model
        // Axis 0 of a data set is its number of examples, which does not determine the batch.
        for (int k = whole ? 0 : 1; k < decl->rank; k++)
            if (decl->dim_name[k]) {
                Found f = {decl->dim_name[k], decl->name, t.dim[k]};
                status = agree(found, *n, f, err);
                if (status != NETC_OK) return status;
                (*out)[(*n)++] = arena_printf(a, "%s=%" PRId64, decl->dim_name[k], t.dim[k]);
                *differ = *differ || decl->dim[k] != t.dim[k];
            }
    }
    return NETC_OK;
}

int64_t dataset_examples(const netc_dataset *d, const ProgEntry *e)
{
    for (int i = 0; d && i < d->n; i++)
        for (int k = 0; k < e->ninputs; k++) {
            const DataItem *it = &d->item[i];
            ProgType t = it->array.type;
            bool known = it->loaded;
            if (!known && it->files) known = rt_files_type(it->files, it->part, &t);
            // With another rank, it is either tokens, which are cut into windows, or an error.
            if (known && !strcmp(it->input, e->inputs[k].name) && t.rank == e->inputs[k].type.rank)
                return t.dim[0];
        }
    return 0;
}

netc_status netc_array_read(const char *path, netc_tensor *t, netc_error **err)
{
    RtArray a = {0};
    RtError e = {0};
    if (rt_array_read(path, NULL, NULL, &a, &e)) return lib_fail_rt(err, &e);
    *t = tensor_of(&a.type, malloc(a.bytes ? a.bytes : 1));
    if (t->data) memcpy(t->data, a.data, a.bytes);
    rt_array_free(&a);
    return t->data ? NETC_OK : OUT_OF_MEMORY(err);
}

netc_status netc_array_write(const char *path, const netc_tensor *t, netc_error **err)
{
    ProgType type;
    netc_status status = tensor_type("the array to write", t, &type, err);
    if (status != NETC_OK) return status;
    RtError e = {0};
    RtTensor one = {"arr_0", type, t->data};
    RtCode code = rt_csv_named(path)   ? rt_csv_write(path, &type, t->data, &e)
                  : rt_npz_named(path) ? rt_npz_write(path, &one, 1, &e)
                                       : rt_npy_write(path, &type, t->data, &e);
    return code ? lib_fail_rt(err, &e) : NETC_OK;
}

netc_status netc_arrays_write(const char *path, const char *const *names, const netc_tensor *t,
                              int n, netc_error **err)
{
    netc_status status = options_names("names", names, n, err);
    if (status != NETC_OK) return status;
    RtTensor *all = calloc((size_t)n + 1, sizeof *all);
    if (!all) return OUT_OF_MEMORY(err);
    for (int i = 0; i < n && status == NETC_OK; i++) {
        all[i].name = names[i];
        all[i].data = t[i].data;
        status = tensor_type(names[i], &t[i], &all[i].type, err);
    }
    RtError e = {0};
    if (status == NETC_OK && rt_npz_write(path, all, n, &e)) status = lib_fail_rt(err, &e);
    free(all);
    return status;
}

netc_status netc_dataset_array(netc_dataset *d, netc_program *p, const char *input, netc_tensor *t,
                               netc_error **err)
{
    for (int i = 0; i < d->n; i++) {
        DataItem *it = &d->item[i];
        if (strcmp(it->input, input)) continue;
        netc_status status = load_item(d, it, p, err);
        if (status != NETC_OK) return status;
        if (it->array.source)
            return lib_fail(err, NETC_INVALID,
                            "the data for input '%s' are too large to be held in memory at once; "
                            "netc predict reads them batch by batch",
                            input);
        *t = tensor_of(&it->array.type, it->array.data);
        return NETC_OK;
    }
    return lib_fail(err, NETC_INVALID, "no data were given for '%s'", input);
}
