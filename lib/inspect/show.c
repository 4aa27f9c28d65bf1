// netc show: describes a file of tensors, of data or of a compiled model. Nothing in it is run.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/plain.h"
#include "lib/inspect/inspect.h"
#include "runtime/data/images.h"
#include "runtime/data/tokens.h"

typedef struct Show {
    Arena *arena;
    const char *path;
    Buf text;
    netc_error **err;
    netc_status status;
} Show;

// A text from the file, on one line and without control characters.
static const char *plain(const Show *s, const char *text)
{
    return text_on_one_line(s->arena, text, strlen(text));
}

static const char *type_text(Arena *a, const ProgType *t)
{
    char text[240];
    prog_type_text(text, sizeof text, t);
    return arena_strdup(a, text);
}

// Describes values: "-0.5 to 2, mean 0.1, deviation 0.3; 2 not finite".
static const char *values_text(Arena *a, const ProgType *t, const void *data)
{
    int64_t bytes = prog_type_bytes(t), width = prog_dtype_bytes(t->dtype);
    double least = INFINITY, most = -INFINITY, sum = 0, squares = 0;
    int64_t n = width ? bytes / width : 0, finite = 0;
    for (int64_t i = 0; i < n; i++) {
        double v = prog_load(t->dtype, (const char *)data + i * width);
        if (!isfinite(v)) continue;
        finite++;
        least = v < least ? v : least;
        most = v > most ? v : most;
        sum += v;
        squares += v * v;
    }
    Buf b = buf_new(a);
    if (finite == 1 && n == 1) {
        buf_printf(&b, "%.6g", sum);
    } else if (finite) {
        double mean = sum / (double)finite, variance = squares / (double)finite - mean * mean;
        buf_printf(&b, "%.6g to %.6g, mean %.4g, deviation %.4g", least, most, mean,
                   sqrt(variance > 0 ? variance : 0));
    }
    if (finite < n) buf_printf(&b, "%s%s not finite", finite ? "; " : "", grouped(a, n - finite));
    return b.len ? b.data : "";
}

static void show_tensors(Show *s)
{
    RtTensors t = {0};
    RtError e = {0};
    bool npz = rt_npz_named(s->path);
    if (npz ? rt_npz_read(s->arena, s->path, &t, &e)
            : rt_safetensors_read(s->arena, s->path, &t, &e)) {
        s->status = lib_fail_rt(s->err, &e);
        return;
    }
    int64_t elements = 0, bytes = 0;
    int name = 4, type = 4;
    for (int i = 0; i < t.n; i++) {
        int64_t n = prog_type_bytes(&t.at[i].type);
        int wide = buf_columns(plain(s, t.at[i].name)),
            wider = (int)strlen(type_text(s->arena, &t.at[i].type));
        bytes += n;
        elements += n / prog_dtype_bytes(t.at[i].type.dtype);
        name = wide > name ? wide : name;
        type = wider > type ? wider : type;
    }
    buf_printf(&s->text, "%s: %s, %d tensor%s, %s elements, %s bytes\n", s->path,
               npz ? "npz" : "safetensors", t.n, t.n == 1 ? "" : "s", grouped(s->arena, elements),
               grouped(s->arena, bytes));
    for (int i = 0; i < t.nmeta; i++) {
        const char *value = plain(s, t.meta_values[i]);
        buf_printf(&s->text, "  %s: %.100s%s\n", plain(s, t.meta_keys[i]), value,
                   strlen(value) > 100 ? " ..." : "");
    }
    for (int i = 0; i < t.n; i++) {
        const char *shown = plain(s, t.at[i].name);
        buf_str(&s->text, shown);
        buf_pad(&s->text, name - buf_columns(shown), ' ');
        buf_printf(&s->text, "  %-*s  %s\n", type, type_text(s->arena, &t.at[i].type),
                   values_text(s->arena, &t.at[i].type, t.at[i].data));
    }
    rt_tensors_free(&t);
}

static void show_entries(Show *s, const RtSection *section)
{
    const char *why = NULL;
    const Program *p = program_read(s->arena, section->bytes, section->size, &why);
    if (!p) {
        s->status =
            lib_fail(s->err, NETC_INVALID, "%s is damaged: %s: %s", s->path, section->name, why);
        return;
    }
    for (int i = 0; i < p->nentries; i++) {
        const ProgEntry *e = &p->entries[i];
        if (e->kind == PK_INIT) continue;
        buf_printf(&s->text, "  %s(", e->name);
        for (int k = 0; k < e->ninputs; k++)
            buf_printf(&s->text, "%s%s: %s", k ? ", " : "", e->inputs[k].name,
                       type_text(s->arena, &e->inputs[k].type));
        buf_printf(&s->text, ") ->");
        for (int k = 0; k < e->noutputs; k++)
            buf_printf(&s->text, "%s %s: %s", k ? "," : "", e->outputs[k].name,
                       type_text(s->arena, &e->outputs[k].type));
        buf_printf(&s->text, "\n");
    }
}

static void show_model(Show *s)
{
    RtSection *at = NULL;
    RtError e = {0};
    int n = 0, images = 0;
    int64_t image_bytes = 0;
    bool entries = false;
    if (rt_container_read(s->arena, s->path, &at, &n, &e)) {
        s->status = lib_fail_rt(s->err, &e);
        return;
    }
    buf_printf(&s->text, "%s: a compiled model\n", s->path);
    for (int i = 0; i < n && s->status == NETC_OK; i++) {
        const char *name = at[i].name;
        if (!strcmp(name, "info")) {
            for (const char *l = at[i].bytes, *end = l + at[i].size; l < end;) {
                size_t len = strcspn(l, "\n");
                len = len < (size_t)(end - l) ? len : (size_t)(end - l);
                buf_printf(&s->text, "  %s\n", text_on_one_line(s->arena, l, len));
                l += len + 1;
            }
        } else if (!strncmp(name, "image ", 6)) {
            images++;
            image_bytes += (int64_t)at[i].size;
        } else {
            buf_printf(&s->text, "%s: %s bytes\n", plain(s, name),
                       grouped(s->arena, (int64_t)at[i].size));
            if (!strncmp(name, "program ", 8) && !entries) show_entries(s, &at[i]);
            entries |= !strncmp(name, "program ", 8);
        }
    }
    if (images)
        buf_printf(&s->text, "machine code: %d image%s, %s bytes\n", images, images > 1 ? "s" : "",
                   grouped(s->arena, image_bytes));
}

// Shows an array from any file that data can be read from; its format is found from its contents.
static void show_array(Show *s)
{
    RtArray a = {0};
    RtError e = {0};
    if (rt_array_read(s->path, NULL, NULL, &a, &e)) {
        s->status = lib_fail_rt(s->err, &e);
        return;
    }
    buf_printf(&s->text, "%s: %s", s->path, type_text(s->arena, &a.type));
    if (a.data) buf_printf(&s->text, ", %s", values_text(s->arena, &a.type, a.data));
    buf_printf(&s->text, "\n");
    rt_array_free(&a);
}

// Prints "u.bin: 15 tokens of 16 bits, 72 to 2817, the first 72 101".
static void show_tokens(Show *s, bool wide)
{
    enum { FIRST = 12 };
    ProgType wanted = {.dtype = PD_U32};
    RtArray a = {0};
    RtError e = {0};
    if (rt_array_read(s->path, NULL, &wanted, &a, &e)) {
        s->status = lib_fail_rt(s->err, &e);
        return;
    }
    const uint32_t *token = a.data;
    int64_t n = (int64_t)(a.bytes / sizeof *token);
    uint32_t least = UINT32_MAX, most = 0;
    for (int64_t i = 0; i < n; i++) {
        least = token[i] < least ? token[i] : least;
        most = token[i] > most ? token[i] : most;
    }
    buf_printf(&s->text, "%s: %s token%s of %d bits", s->path, grouped(s->arena, n),
               n == 1 ? "" : "s", wide ? 32 : 16);
    if (n) buf_printf(&s->text, ", %" PRIu32 " to %" PRIu32 ", the first", least, most);
    for (int64_t i = 0; i < n && i < FIRST; i++) buf_printf(&s->text, " %" PRIu32, token[i]);
    buf_printf(&s->text, "%s\n", n > FIRST ? " ..." : "");
    rt_array_free(&a);
}

// Whether the path is a folder or an archive as a data set of images is, not a published model's.
static bool holds_images(const char *path)
{
    static const char *const of_a_model[] = {"model.safetensors", "model.safetensors.index.json"};
    char file[4096];
    struct stat st;
    for (size_t i = 0; i < sizeof of_a_model / sizeof *of_a_model; i++) {
        snprintf(file, sizeof file, "%s/%s", path, of_a_model[i]);
        if (!stat(file, &st)) return false;
    }
    return !stat(path, &st) && rt_images_named(path);
}

static void show_images(Show *s)
{
    RtListing l = {0};
    RtError e = {0};
    struct stat st;
    const bool folder = !stat(s->path, &st) && S_ISDIR(st.st_mode);
    if (folder ? rt_list_folder(&l, s->path, &e) : rt_list_tar(&l, s->path, &e)) {
        s->status = folder && !l.n
                        ? lib_fail(s->err, NETC_INVALID,
                                   "%s holds no model.safetensors, no .npy files and no PNG or "
                                   "JPEG images: name a file in it",
                                   s->path)
                        : lib_fail_rt(s->err, &e);
        rt_list_free(&l);
        return;
    }
    buf_printf(&s->text, "%s: %s image%s", s->path, grouped(s->arena, l.n), l.n == 1 ? "" : "s");
    if (l.nclasses)
        buf_printf(&s->text, ", whose labels are their folders:\n");
    else
        buf_printf(&s->text, "%s labels\n", l.labels ? " with" : " without");
    int64_t *of = NEW_ARRAY(s->arena, int64_t, l.nclasses + 1);
    for (int64_t i = 0; i < l.n && l.nclasses; i++) of[l.image[i].label]++;
    for (int i = 0; i < l.nclasses; i++)
        buf_printf(&s->text, "  %d  %s  %s\n", i, plain(s, l.classes[i]), grouped(s->arena, of[i]));
    rt_list_free(&l);
}

// What netc train --log writes: an object on each line, the first of which begins with the step.
static const char log_begins[] = "{\"step\":";

static void show_log(Show *s)
{
    void *bytes = NULL;
    size_t n = 0;
    RtError e = {0};
    if (rt_file_read(s->arena, s->path, &bytes, &n, &e)) {
        s->status = lib_fail_rt(s->err, &e);
        return;
    }
    const char *text = bytes, *last = text;
    int64_t lines = 0;
    for (const char *at = text; at < text + n; lines++) {
        const char *end = memchr(at, '\n', (size_t)(text + n - at));
        last = at;
        at = end ? end + 1 : text + n;
    }
    size_t len = (size_t)(text + n - last);
    while (len && last[len - 1] == '\n') len--;
    buf_printf(&s->text, "%s: the log of a training, %s line%s of JSON, the last:\n  %s\n", s->path,
               grouped(s->arena, lines), plural(lines), text_on_one_line(s->arena, last, len));
}

static bool holds_tensors(const char *path, const unsigned char *head, size_t n)
{
    struct stat st;
    uint64_t length = 0;
    if (rt_npz_named(path)) return true;
    if (rt_folder_of_arrays(path)) return false;
    if (rt_names_index(path) || (!stat(path, &st) && S_ISDIR(st.st_mode))) return true;
    for (int i = 7; i >= 0 && n > 8; i--) length = length << 8 | head[i];
    return n > 8 && head[8] == '{' && length < 1u << 30;
}

static void show(void *arg)
{
    Show *s = arg;
    unsigned char head[16];
    size_t n = 0;
    FILE *f = fopen(s->path, "rb");
    if (f) {
        n = fread(head, 1, sizeof head, f);
        fclose(f);
    }
    s->text = buf_new(s->arena);
    if (f && names_source(s->path))
        s->status =
            lib_fail(s->err, NETC_INVALID,
                     "%s is a model's text: netc inspect shows what it compiles to", s->path);
    else if (n && rt_container_recognise(head, n))
        show_model(s);
    else if (n >= sizeof log_begins - 1 && !memcmp(head, log_begins, sizeof log_begins - 1))
        show_log(s);
    else if (rt_token_recognise(head, n))
        show_tokens(s, rt_token_wide(head));
    else if (holds_images(s->path))
        show_images(s);
    else if (holds_tensors(s->path, head, n))
        show_tensors(s);
    else
        show_array(s);
}

netc_status netc_show(const char *path, char **text, netc_error **err)
{
    Show s = {.arena = arena_new(), .path = path, .err = err};
    *text = NULL;
    if (!s.arena) return OUT_OF_MEMORY(err);
    if (!lib_guarded(s.arena, show, &s)) s.status = OUT_OF_MEMORY(err);
    if (s.status == NETC_OK && !(*text = strdup(s.text.data))) s.status = OUT_OF_MEMORY(err);
    arena_free(s.arena);
    return s.status;
}
