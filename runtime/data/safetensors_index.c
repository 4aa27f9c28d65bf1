// Checkpoints of several files: reads them as one, through a Hugging Face index, and lists the
// parts that an index names.
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/map.h"
#include "runtime/data/data_read.h"
#include "runtime/host/parse.h"

// -- reading --------------------------------------------------------------------------------------
// Appends the tensors of another file.
static RtCode add_file(Arena *a, const char *path, RtTensors *all, RtError *e)
{
    RtBytes b;
    RtTensors one = {.arena = a};
    void **more = realloc(all->owned, (size_t)(all->nowned + 1) * sizeof *more);
    if (!more) return rt_fail(e, RT_OOM, "out of memory");
    all->owned = more;
    if (rt_bytes_read_raw(path, &b, e)) return e->code;
    all->owned[all->nowned++] = b.at;
    if (rt_safetensors_parse(a, path, b.at, b.n, &one, e)) return e->code;
    RtTensor *at = NEW_ARRAY(a, RtTensor, all->n + one.n + 1);
    if (all->n) memcpy(at, all->at, (size_t)all->n * sizeof *at);
    if (one.n) memcpy(at + all->n, one.at, (size_t)one.n * sizeof *at);
    all->at = at;
    all->n += one.n;
    if (all->nowned > 1) return RT_OK;
    all->nmeta = one.nmeta;
    all->meta_keys = one.meta_keys;
    all->meta_values = one.meta_values;
    return RT_OK;
}

// Checks that each tensor is in the file given by the index, and that no others are.
static RtCode check_index(Arena *a, const char *path, const JsonValue *map, const RtTensors *t,
                          const StrMap *first, RtError *e)
{
    StrMap seen = strmap_new(a);
    for (int i = 0; i < t->n; i++) {
        if (strmap_has(&seen, t->at[i].name))
            return rt_fail(e, RT_USER, "%s: two of its files hold '%s'", path, t->at[i].name);
        strmap_set(&seen, t->at[i].name, (void *)&t->at[i]);
    }
    for (const JsonValue *v = map->child; v; v = v->next) {
        const RtTensor *x = strmap_get(&seen, v->key);
        const int *place = strmap_get(first, v->string); // range of the tensors in this file
        if (!x || x < &t->at[place[0]] || x >= &t->at[place[1]])
            return rt_fail(e, RT_USER, "%s: '%s' is not in %s, where it should be", path, v->key,
                           v->string);
    }
    return RT_OK;
}

static RtCode read_index(Arena *a, const char *path, RtTensors *out, RtError *e)
{
    void *bytes;
    size_t n;
    const char *wrong, *slash = strrchr(path, '/');
    if (rt_file_read(a, path, &bytes, &n, e)) return e->code;
    const JsonValue *v = json_parse(a, bytes, n, &wrong),
                    *map = v ? json_get(v, "weight_map") : NULL;
    if (!map || map->kind != JSON_OBJECT)
        return rt_fail(e, RT_USER, "%s is not an index of safetensors files: %s", path,
                       v ? "it has no weight_map" : wrong);
    StrMap files = strmap_new(a);
    for (const JsonValue *k = map->child; k; k = k->next) {
        if (k->kind != JSON_STRING || strchr(k->string, '/'))
            return rt_fail(e, RT_USER, "%s: '%s' must be in a file in the same folder", path,
                           k->key);
        if (strmap_has(&files, k->string)) continue;
        int *place = NEW_ARRAY(a, int, 2);
        place[0] = out->n;
        const char *file =
            slash ? arena_printf(a, "%.*s/%s", (int)(slash - path), path, k->string) : k->string;
        if (add_file(a, file, out, e)) return e->code;
        place[1] = out->n;
        strmap_set(&files, k->string, place);
    }
    return check_index(a, path, map, out, &files, e);
}

static bool there(const char *path, bool folder)
{
    struct stat st;
    return !stat(path, &st) && (S_ISDIR(st.st_mode) != 0) == folder;
}

bool rt_names_index(const char *path)
{
    size_t n = strlen(path);
    return n > 5 && !strcmp(path + n - 5, ".json");
}

RtCode rt_safetensors_read(Arena *a, const char *path, RtTensors *out, RtError *e)
{
    *out = (RtTensors){.arena = a};
    if (there(path, true)) {
        const char *index = arena_printf(a, "%s/model.safetensors.index.json", path);
        path = there(index, false) ? index : arena_printf(a, "%s/model.safetensors", path);
    }
    RtCode code = rt_names_index(path) ? read_index(a, path, out, e) : add_file(a, path, out, e);
    if (code) rt_tensors_free(out);
    return code;
}

void rt_tensors_free(RtTensors *t)
{
    for (int i = 0; i < t->nowned; i++) free(t->owned[i]);
    free(t->owned);
    *t = (RtTensors){0};
}

// -- writing --------------------------------------------------------------------------------------

// The files that the existing index names; none if there is no index.
static StrMap files_of(Arena *a, const char *index)
{
    StrMap files = strmap_new(a);
    RtError e = {0};
    void *bytes;
    size_t n;
    const char *wrong;
    if (!there(index, false) || rt_file_read(a, index, &bytes, &n, &e)) return files;
    const JsonValue *v = json_parse(a, bytes, n, &wrong),
                    *map = v ? json_get(v, "weight_map") : NULL;
    if (!map || map->kind != JSON_OBJECT) return files;
    for (const JsonValue *k = map->child; k; k = k->next)
        if (k->kind == JSON_STRING) strmap_set(&files, k->string, (void *)k);
    return files;
}

// For "dir/model.safetensors.index.json": "dir/model"; *folder: length of the folder in it.
static const char *stem_of(Arena *a, const char *index, size_t *folder)
{
    static const char *const ends[] = {".safetensors.index.json", ".index.json", ".json"};
    size_t n = strlen(index);
    const char *slash = strrchr(index, '/');
    *folder = slash ? (size_t)(slash + 1 - index) : 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t end = strlen(ends[i]);
        if (n > *folder + end && !strcmp(index + n - end, ends[i]))
            return arena_strndup(a, index, n - end);
    }
    return index;
}

// Whether the file is "model-00001-of-00003.safetensors" or "model-b-00001-of-00003.safetensors"
// for the stem "model".
static bool is_part(const char *file, const char *stem)
{
    size_t n = strlen(stem);
    int part, of, end = 0;
    if (strncmp(file, stem, n)) return false;
    file += n;
    if (file[0] == '-' && file[1] >= 'b' && file[1] <= 'z') file += 2;
    sscanf(file, "-%5d-of-%5d.safetensors%n", &part, &of, &end);
    return end && !file[end];
}

const char **rt_index_parts(Arena *a, const char *index, int n)
{
    size_t folder;
    const char *stem = stem_of(a, index, &folder);
    StrMap old = files_of(a, index);
    const char **paths = NEW_ARRAY(a, const char *, n + 1);
    bool taken = true;
    for (char set = 'a'; taken && set <= 'z'; set++) {
        taken = false;
        const char *mark = set == 'a' ? "" : arena_printf(a, "-%c", set);
        for (int i = 0; i < n; i++) {
            paths[i] = arena_printf(a, "%s%s-%05d-of-%05d.safetensors", stem, mark, i + 1, n);
            taken = taken || strmap_has(&old, paths[i] + folder);
        }
    }
    return paths;
}

// Removes what killed saves have left of parts, in the folder of the index.
static void sweep_parts(const char *folder, const char *stem)
{
    DIR *d = opendir(*folder ? folder : ".");
    for (struct dirent *e; d && (e = readdir(d));) {
        char *dot = strrchr(e->d_name, '.'), *path = NULL;
        if (!dot) continue;
        *dot = 0;
        if (!is_part(e->d_name, stem) || asprintf(&path, "%s%s", folder, e->d_name) < 0) continue;
        rt_file_sweep(path);
        free(path);
    }
    if (d) closedir(d);
}

void rt_checkpoint_sweep(const char *path)
{
    rt_file_sweep(path);
    Arena *a = rt_names_index(path) ? arena_new() : NULL;
    jmp_buf oom;
    if (a && !setjmp(oom)) {
        size_t folder;
        arena_on_oom(a, &oom);
        const char *stem = stem_of(a, path, &folder);
        sweep_parts(arena_strndup(a, path, folder), stem + folder);
    }
    arena_free(a);
}

typedef struct Index {
    const char *path;
    const RtIndexed *t;
    int n;
    const char *const *parts;
    int nparts;
    RtError *e;
} Index;

static RtCode write_index(Arena *a, const void *what)
{
    const Index *x = what;
    Buf text = buf_new(a);
    Json j = json_writer(&text);
    StrMap old = files_of(a, x->path), kept = strmap_new(a);
    size_t folder;
    const char *stem = stem_of(a, x->path, &folder) + folder;
    int64_t total = 0;
    for (int i = 0; i < x->n; i++) total += x->t[i].bytes;
    json_object(&j);
    json_key(&j, "metadata");
    json_object(&j);
    json_key(&j, "total_size");
    json_int(&j, total);
    json_end(&j);
    json_key(&j, "weight_map");
    json_object(&j);
    for (int i = 0; i < x->n; i++) {
        json_key(&j, x->t[i].name);
        json_string(&j, x->parts[x->t[i].part] + folder);
    }
    json_end(&j);
    json_end(&j);
    if (rt_file_write(x->path, text.data, text.len, x->e)) return x->e->code;
    for (int i = 0; i < x->nparts; i++) strmap_set(&kept, x->parts[i] + folder, (void *)x);
    for (uint32_t i = 0; i < old.n; i++) {
        const char *file = old.entry[i].key;
        if (!strmap_has(&kept, file) && is_part(file, stem))
            unlink(arena_printf(a, "%.*s%s", (int)folder, x->path, file));
    }
    return RT_OK;
}

RtCode rt_index_write(const char *index, const RtIndexed *t, int n, const char *const *parts,
                      int nparts, RtError *e)
{
    Index x = {index, t, n, parts, nparts, e};
    return rt_file_compose(index, write_index, &x, e);
}
