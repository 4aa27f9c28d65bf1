// TensorBoard: scalars of reports and evaluations, histograms of watched values, images of taps
// that look like images, the graph and the configuration; and the scalars as a table, scalars.csv.
// An error in writing ends this output, not the training.
#include "cli/tensorboard.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/half.h"

enum { MOST_IMAGES = 4, MOST_BUCKETS = 64, SUMMARY = 5, GRAPH = 4 };

bool board_open(Board *b, const char *folder, bool more, int *code)
{
    if (!folder) return true;
    char path[4400];
    if (!events_open(&b->events, folder)) return *code = fail_to_write(folder), false;
    snprintf(path, sizeof path, "%s/scalars.csv", folder);
    b->table = fopen(path, "a");
    if (!b->table) {
        *code = fail_to_write(path);
        events_close(&b->events);
        return false;
    }
    b->more = more;
    b->folder = folder;
    return true;
}

bool board_close(Board *b)
{
    if (!b->folder) return true;
    bool whole = events_close(&b->events);
    if (b->table && fclose(b->table)) b->table_failed = true;
    b->table = NULL;
    if (whole && !b->table_failed) return true;
    fail("TensorBoard's files in %s could not be written completely%s%s", b->folder,
         whole ? "" : ": ", whole ? "" : strerror(b->events.why));
    return false;
}

// -- scalars --------------------------------------------------------------------------------------
static Message begin_value(const char *tag)
{
    Message value = {0};
    message_text(&value, 1, tag);
    return value;
}

static void put_value(Message *summary, Message *value)
{
    message_in(summary, 1, value);
}

static void put_scalar(Board *b, Message *summary, const netc_event *e, const char *name, double v)
{
    char tag[400];
    bool eval = !strncmp(name, "eval_", 5);
    snprintf(tag, sizeof tag, "%s/%s", eval ? "eval" : "train", eval ? name + 5 : name);
    Message value = begin_value(tag);
    message_float(&value, 2, (float)v);
    put_value(summary, &value);
    fprintf(b->table, "%" PRId64 ",%.6g,%.6g,%s,%.9g\n", e->step, e->epochs_done, e->seconds, tag,
            v);
}

static void put_scalars(Board *b, const netc_event *e)
{
    Message summary = {0};
    for (int i = 0; i < e->nmetrics; i++)
        put_scalar(b, &summary, e, e->metrics[i].name, e->metrics[i].value);
    if (e->kind == NETC_EVENT_PROGRESS) {
        put_scalar(b, &summary, e, "items_per_second", e->items_per_second);
        put_scalar(b, &summary, e, "epoch", e->epochs_done);
    }
    events_put(&b->events, e->step, SUMMARY, &summary);
    if (fflush(b->table) || ferror(b->table)) b->table_failed = true;
}

// -- tensors --------------------------------------------------------------------------------------
static double element(const netc_tensor *t, size_t i)
{
    const void *d = t->data;
    switch (t->dtype) {
    case NETC_F32: return ((const float *)d)[i];
    case NETC_F64: return ((const double *)d)[i];
    case NETC_F16: return half_value(((const uint16_t *)d)[i], HALF_F16);
    case NETC_BF16: return half_value(((const uint16_t *)d)[i], HALF_BF16);
    case NETC_I32: return ((const int32_t *)d)[i];
    case NETC_I64: return (double)((const int64_t *)d)[i];
    case NETC_U32: return ((const uint32_t *)d)[i];
    default: return ((const uint8_t *)d)[i];
    }
}

// Reads a parameter, a state, or an output or tap of the training entry. false: there is nothing to
// read.
static bool read_tensor(const Board *b, const char *name, netc_tensor *t)
{
    netc_port port;
    for (int i = 0; i < netc_state_count(b->session); i++) {
        if (netc_state_info(b->session, i, &port, NULL) != NETC_OK || strcmp(port.name, name))
            continue;
        *t = (netc_tensor){.dtype = port.dtype, .rank = port.rank};
        memcpy(t->dim, port.dim, sizeof t->dim);
        t->data = malloc(tensor_elements(t) * netc_dtype_size(t->dtype) + 1);
        return t->data && netc_state_read(b->session, name, t, NULL) == NETC_OK;
    }
    for (int i = 0; i < netc_output_count(b->program, "train"); i++) {
        if (netc_output_info(b->program, "train", i, &port, NULL) != NETC_OK ||
            strcmp(port.name, name))
            continue;
        *t = (netc_tensor){.dtype = port.dtype, .rank = port.rank};
        memcpy(t->dim, port.dim, sizeof t->dim);
        t->data = malloc(tensor_elements(t) * netc_dtype_size(t->dtype) + 1);
        return t->data && netc_read(b->session, "train", name, t, NULL) == NETC_OK;
    }
    return false;
}

// A histogram of the finite values, in buckets of equal width.
static Message histogram(const netc_tensor *t)
{
    size_t n = tensor_elements(t), num = 0;
    double low = INFINITY, high = -INFINITY, sum = 0, squares = 0, limit[MOST_BUCKETS];
    double count[MOST_BUCKETS] = {0};
    for (size_t i = 0; i < n; i++) {
        double v = element(t, i);
        if (!isfinite(v)) continue;
        low = fmin(low, v), high = fmax(high, v);
        sum += v, squares += v * v, num++;
    }
    if (!num) low = high = 0;
    double width = (high - low) / MOST_BUCKETS;
    int buckets = width > 0 ? MOST_BUCKETS : 1;
    for (int k = 0; k < buckets; k++) limit[k] = k + 1 < buckets ? low + width * (k + 1) : high;
    for (size_t i = 0; i < n; i++) {
        double v = element(t, i);
        if (!isfinite(v)) continue;
        int k = width > 0 ? (int)((v - low) / width) : 0;
        count[k < buckets ? k : buckets - 1]++;
    }
    Message h = {0};
    message_double(&h, 1, low), message_double(&h, 2, high);
    message_double(&h, 3, (double)num), message_double(&h, 4, sum), message_double(&h, 5, squares);
    message_bytes(&h, 6, limit, (size_t)buckets * sizeof *limit);
    message_bytes(&h, 7, count, (size_t)buckets * sizeof *count);
    return h;
}

static void put_histograms(Board *b, const netc_event *e)
{
    Message summary = {0};
    for (int i = 0; i < b->watch->n; i++) {
        netc_tensor t = {0};
        if (read_tensor(b, b->watch->at[i], &t) && tensor_elements(&t)) {
            Message value = begin_value(b->watch->at[i]), h = histogram(&t);
            message_in(&value, 5, &h);
            put_value(&summary, &value);
        }
        free(t.data);
    }
    if (summary.n) events_put(&b->events, e->step, SUMMARY, &summary);
    message_free(&summary);
}

// -- images ---------------------------------------------------------------------------------------

// Whether the shape is that of images: [batch, height, width, 1 or 3], more than a few pixels and
// no larger than a screen.
static bool looks_like_images(const netc_port *p)
{
    return p->rank == 4 && (p->dim[3] == 1 || p->dim[3] == 3) && p->dim[0] > 0 && p->dim[1] >= 4 &&
           p->dim[2] >= 4 && p->dim[1] <= 4096 && p->dim[2] <= 4096;
}

static void png_chunk(Message *out, const char *kind, const void *bytes, size_t n)
{
    unsigned char head[8] = {(unsigned char)(n >> 24), (unsigned char)(n >> 16),
                             (unsigned char)(n >> 8), (unsigned char)n};
    memcpy(head + 4, kind, 4);
    uLong crc = crc32(crc32(0, head + 4, 4), bytes, (uInt)n);
    if (!n) crc = crc32(0, head + 4, 4);
    unsigned char end[4] = {(unsigned char)(crc >> 24), (unsigned char)(crc >> 16),
                            (unsigned char)(crc >> 8), (unsigned char)crc};
    message_raw(out, head, 8), message_raw(out, bytes, n), message_raw(out, end, 4);
}

// rows: each row is preceded by its filter byte.
static Message png(const unsigned char *rows, uint32_t w, uint32_t h, int c)
{
    Message out = {0};
    uLong n = (uLong)h * (w * (uLong)c + 1), room = compressBound(n);
    unsigned char *packed = malloc(room);
    unsigned char head[13] = {(unsigned char)(w >> 24),
                              (unsigned char)(w >> 16),
                              (unsigned char)(w >> 8),
                              (unsigned char)w,
                              (unsigned char)(h >> 24),
                              (unsigned char)(h >> 16),
                              (unsigned char)(h >> 8),
                              (unsigned char)h,
                              8,
                              c == 3 ? 2 : 0};
    if (!packed || compress2(packed, &room, rows, n, 1) != Z_OK) out.failed = true;
    message_raw(&out, "\x89PNG\r\n\x1a\n", 8);
    png_chunk(&out, "IHDR", head, sizeof head);
    if (!out.failed) png_chunk(&out, "IDAT", packed, room);
    png_chunk(&out, "IEND", NULL, 0);
    free(packed);
    return out;
}

// Values in 0..255 are unchanged, 0..1 is multiplied by 255, other ranges are scaled to 0..255.
static Message image(const netc_tensor *t, int64_t which)
{
    size_t w = (size_t)t->dim[2], h = (size_t)t->dim[1], c = (size_t)t->dim[3], n = w * h * c;
    size_t from = (size_t)which * n;
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        double v = element(t, from + i);
        if (isfinite(v)) low = fmin(low, v), high = fmax(high, v);
    }
    bool bytes = t->dtype == NETC_U8, share = low >= 0 && high <= 1;
    double zero = bytes || share ? 0 : low, scale = bytes   ? 1
                                                    : share ? 255
                                                            : 255 / fmax(high - low, 1e-30);
    unsigned char *rows = malloc(h * (w * c + 1) + 1), *p = rows;
    for (size_t i = 0; rows && i < n; i++) {
        if (i % (w * c) == 0) *p++ = 0;
        double v = (element(t, from + i) - zero) * scale + 0.5;
        *p++ = (unsigned char)(isfinite(v) ? fmin(fmax(v, 0), 255) : 0);
    }
    Message out = {.failed = !rows}, file = {0};
    if (rows) file = png(rows, (uint32_t)w, (uint32_t)h, (int)c);
    message_int(&out, 1, h), message_int(&out, 2, w), message_int(&out, 3, c);
    message_in(&out, 4, &file);
    free(rows);
    return out;
}

static void put_images(Board *b, const netc_event *e)
{
    netc_port port;
    for (int i = 0; i < netc_output_count(b->program, "train"); i++) {
        netc_tensor t = {0};
        Message summary = {0};
        if (netc_output_info(b->program, "train", i, &port, NULL) != NETC_OK ||
            !looks_like_images(&port))
            continue;
        bool there = read_tensor(b, port.name, &t);
        for (int64_t k = 0; there && k < t.dim[0] && k < MOST_IMAGES; k++) {
            char tag[400];
            snprintf(tag, sizeof tag, "%s/image/%d", port.name, (int)k);
            Message value = begin_value(tag), picture = image(&t, k);
            message_in(&value, 4, &picture);
            put_value(&summary, &value);
        }
        if (there) events_put(&b->events, e->step, SUMMARY, &summary);
        message_free(&summary);
        free(t.data);
    }
}

// -- the configuration and the graph --------------------------------------------------------------
static void put_text(Board *b, int64_t step, const char *tag, const char *text)
{
    Message summary = {0}, value = begin_value(tag), meta = {0}, plugin = {0}, tensor = {0};
    Message shape = {0}, dim = {0}, block = {0};
    message_text(&plugin, 1, "text");
    message_in(&meta, 1, &plugin);
    message_raw(&block, "```\n", 4), message_raw(&block, text, strlen(text)),
        message_raw(&block, "```\n", 4);
    message_int(&tensor, 1, 7); // DT_STRING
    message_int(&dim, 1, 1);
    message_in(&shape, 2, &dim);
    message_in(&tensor, 2, &shape);
    message_in(&tensor, 8, &block);
    message_in(&value, 8, &tensor);
    message_in(&value, 9, &meta);
    put_value(&summary, &value);
    events_put(&b->events, step, SUMMARY, &summary);
}

// A node of the graph, parsed from dot: label="op\nname\ntype", or "op\ntype".
typedef struct Vertex {
    char op[64], name[300], type[200]; // name: "fc1/weight", or ""
    int scope;                         // length of the scope in the name
    int first; // for a node without a name: the node from which it takes its scope; -1: none
} Vertex;

static void copy_part(char *to, size_t room, const char *from, const char *end)
{
    size_t n = (size_t)(end - from) < room ? (size_t)(end - from) : room - 1;
    memcpy(to, from, n);
    to[n] = 0;
}

static void read_vertex(Vertex *v, const char *label, const char *end)
{
    const char *cut[3] = {label, NULL, NULL};
    int n = 1;
    for (const char *p = label; p + 1 < end && n < 3; p++)
        if (p[0] == '\\' && p[1] == 'n') cut[n++] = p + 2;
    v->first = -1;
    copy_part(v->op, sizeof v->op, label, n > 1 ? cut[1] - 2 : end);
    if (n > 1) copy_part(v->type, sizeof v->type, cut[n - 1], end);
    if (n > 2) copy_part(v->name, sizeof v->name, cut[1], cut[2] - 2);
    for (char *p = v->name; *p; p++)
        if (*p == '.') *p = '/', v->scope = (int)(p - v->name);
}

// Calls [line] for each line of the graph.
static void each_line(const char *graph, void (*line)(void *ctx, const char *line, const char *end),
                      void *ctx)
{
    for (const char *end; *graph && *graph != '}'; graph = end + (*end == '\n')) {
        end = graph + strcspn(graph, "\n");
        line(ctx, graph, end);
    }
}

typedef struct Drawing {
    Vertex *v;
    int n; // all numbers are less
    Message *edges;
} Drawing;

static void count_vertex(void *ctx, const char *line, const char *end)
{
    Drawing *d = ctx;
    int i;
    (void)end;
    if (sscanf(line, " v%d [", &i) == 1 && i >= d->n && i < 1 << 20) d->n = i + 1;
}

static void take_vertex(void *ctx, const char *line, const char *end)
{
    Drawing *d = ctx;
    int i;
    const char *label = strstr(line, "label=\"");
    if (sscanf(line, " v%d [", &i) != 1 || i < 0 || i >= d->n || !label || label > end) return;
    const char *last = end;
    while (last > label + 7 && *last != '"') last--;
    read_vertex(&d->v[i], label + 7, last);
}

static void vertex_name(const Drawing *d, int i, char *out, size_t n)
{
    const Vertex *v = &d->v[i], *in = v;
    while (!*in->name && in->first >= 0) in = &d->v[in->first];
    bool own =
        *v->name && (!strcmp(v->op, "param") || !strcmp(v->op, "state") || !strcmp(v->op, "input"));
    if (*v->name)
        snprintf(out, n, own ? "%s" : "%s_%d", v->name + (*v->name == '@'), i);
    else
        snprintf(out, n, "%.*s%s%s_%d", in->scope, in->name, in->scope ? "/" : "", v->op, i);
}

static void take_edge(void *ctx, const char *line, const char *end)
{
    Drawing *d = ctx;
    int from, to;
    char name[400];
    (void)end;
    if (sscanf(line, " v%d -> v%d", &from, &to) != 2 || from < 0 || to < 0 || from >= d->n ||
        to >= d->n)
        return;
    // Operands come before their readers, so following these references ends.
    if (from < to && d->v[to].first < 0) d->v[to].first = from;
    vertex_name(d, from, name, sizeof name);
    message_text(&d->edges[to], 3, name);
}

static void put_graph(Board *b, int64_t step)
{
    char *text = NULL, name[400];
    if (netc_program_emit(b->program, "dot", &text, NULL) != NETC_OK)
        return; // for code without its text
    const char *graph = text;
    for (int i = 0; graph && strcmp(netc_entry_name(b->program, i), "train"); i++)
        graph = strstr(graph + 1, "digraph");
    Drawing d = {0};
    if (graph) each_line(graph, count_vertex, &d);
    d.v = calloc((size_t)d.n + 1, sizeof *d.v);
    d.edges = calloc((size_t)d.n + 1, sizeof *d.edges);
    if (d.v && d.edges && graph) {
        Message all = {0}, version = {0};
        each_line(graph, take_vertex, &d);
        each_line(graph, take_edge, &d);
        for (int i = 0; i < d.n; i++) {
            if (!*d.v[i].op) continue;
            Message node = {0}, attr = {0}, value = {0};
            vertex_name(&d, i, name, sizeof name);
            message_text(&node, 1, name);
            message_text(&node, 2, d.v[i].op);
            message_raw(&node, d.edges[i].at, d.edges[i].n);
            message_text(&value, 2, d.v[i].type);
            message_text(&attr, 1, "type");
            message_in(&attr, 2, &value);
            message_in(&node, 5, &attr);
            message_in(&all, 1, &node);
        }
        message_int(&version, 1, 22);
        message_in(&all, 4, &version);
        events_put(&b->events, step, GRAPH, &all);
    }
    for (int i = 0; d.edges && i < d.n; i++) message_free(&d.edges[i]);
    free(d.v), free(d.edges);
    netc_free(text);
}

// Clears an existing table only when there is something new to write.
static void begin_table(Board *b)
{
    if (!b->more) (void)!ftruncate(fileno(b->table), 0);
    fseek(b->table, 0, SEEK_END);
    if (!ftell(b->table)) fputs("step,epoch,seconds,name,value\n", b->table);
}

// -------------------------------------------------------------------------------------------------
void board_event(Board *b, const netc_event *e)
{
    if (!b->folder || b->events.why) return;
    switch (e->kind) {
    case NETC_EVENT_START:
        begin_table(b);
        put_text(b, e->step, "configuration", e->text);
        put_graph(b, e->step);
        break;
    case NETC_EVENT_PROGRESS:
        put_scalars(b, e);
        put_histograms(b, e);
        put_images(b, e);
        break;
    case NETC_EVENT_EVAL: put_scalars(b, e); break;
    case NETC_EVENT_SAVED: break;
    case NETC_EVENT_END:
        if (e->text) put_text(b, e->step, "end", e->text);
        break;
    }
    if ((!b->events.why && !b->table_failed) || b->told) return;
    b->told = true;
    fprintf(
        stderr,
        "note: TensorBoard's files in %s cannot be written: %s; training goes on without them\n",
        b->folder, strerror(b->events.why ? b->events.why : ENOSPC));
}
