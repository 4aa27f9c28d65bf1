// netc_report: an entry of a model as one self-contained page: the template of report/ with its
// style, its script and the data, which are what netc inspect and netc profile report.
#include <stdlib.h>
#include <string.h>

#include "base/embedded.h"
#include "lib/inspect/page.h"

// The requested entry, otherwise the profiled one, otherwise the trained one, otherwise the first
// model.
static const ProgEntry *entry_shown(Page *v, const Measured *m)
{
    const Program *p = v->b->program;
    const char *name = v->o->entry ? v->o->entry : m->top ? m->entry : NULL;
    if (name) {
        const ProgEntry *e = program_entry(p, name);
        if (!e) no_entry(v->p, p, name, v->err);
        return e;
    }
    const ProgEntry *e = program_entry(p, "train");
    for (int i = 0; i < p->nentries && !e; i++)
        if (p->entries[i].kind == PK_MODEL && !program_is_hidden(&p->entries[i]))
            e = &p->entries[i];
    for (int i = 0; i < p->nentries && !e; i++) e = &p->entries[i];
    if (!e) lib_fail(v->err, NETC_INVALID, "%s has no model", v->p->name);
    return e;
}

static netc_status pick_entry(Page *v, const Measured *m)
{
    v->e = entry_shown(v, m);
    if (!v->e) return NETC_INVALID;
    if (m->top && strcmp(m->entry, v->e->name))
        return lib_fail(v->err, NETC_INVALID, "%s is of the entry '%s', not '%s'", m->path,
                        m->entry, v->e->name);
    v->items = items_of(v->arena, v->b, v->e);
    return NETC_OK;
}

// -- the head -------------------------------------------------------------------------------------

static void notes(Page *v)
{
    json_key(v->j, "notes"), json_array(v->j);
    if (!v->p->decls->trains)
        json_string(v->j, "The file has no train block, so there is no backward part, no "
                          "optimizer and nothing to learn: the step is one execution of a model.");
    if (!v->b->module)
        json_string(v->j, "A model.bin holds kernels and not the graph they were made of: single "
                          "operations and the phases forward, backward and update are left out, "
                          "and a kernel's scope is read from the names of what it writes. With "
                          "--rebuild they are shown for its source.");
    json_end(v->j);
}

static void dims(Page *v)
{
    json_key(v->j, "dims"), json_object(v->j);
    for (int i = 0; i < v->e->ndims; i++)
        json_key(v->j, v->e->dims[i].name), json_int(v->j, v->e->dims[i].value);
    json_end(v->j);
    json_key(v->j, "entries"), json_array(v->j);
    for (int i = 0; i < v->b->program->nentries; i++)
        if (!program_is_hidden(&v->b->program->entries[i]))
            json_string(v->j, v->b->program->entries[i].name);
    json_end(v->j);
}

static void memory(Page *v)
{
    const Program *p = v->b->program;
    int64_t bytes[3] = {0};
    for (int i = 0; i < p->ncells; i++)
        bytes[p->cells[i].kind == PC_PARAM                                   ? 0
              : p->cells[i].kind == PC_CONTROL || p->cells[i].name[0] == '@' ? 2
                                                                             : 1] +=
            prog_type_bytes(&p->cells[i].type);
    json_key(v->j, "memory"), json_object(v->j);
    json_key(v->j, "parameters"), json_int(v->j, bytes[0]);
    json_key(v->j, "states"), json_int(v->j, bytes[1]);
    json_key(v->j, "arena"), json_int(v->j, v->e->arena_bytes);
    json_key(v->j, "peak"), json_int(v->j, v->e->peak_bytes);
    json_end(v->j);
}

static void roofs(Page *v)
{
    Target t = target_of_program(v->b->program);
    Rates r = rates_of_target(&t);
    json_key(v->j, "roofs"), json_object(v->j);
    json_key(v->j, "copy_bytes_per_s"), json_double(v->j, r.copy);
    json_key(v->j, "f32"), json_double(v->j, r.f32);
    json_key(v->j, "matmul"), json_object(v->j);
    json_key(v->j, "f32"), json_double(v->j, r.matmul[PD_F32]);
    if (v->b->program->cuda) {
        json_key(v->j, "tf32"), json_double(v->j, r.tf32);
        json_key(v->j, "bf16"), json_double(v->j, r.matmul[PD_BF16]);
    }
    json_end(v->j), json_end(v->j);
}

// Writes the layers as netc inspect --model does: those of the trained model as it is evaluated.
static netc_status layers(Page *v)
{
    const Layer *top = NULL;
    const Entry *e;
    const char *name = v->e->kind == PK_TRAIN || v->e->kind == PK_EVAL
                           ? inspect_evaluated(v->p->decls)
                           : v->e->name;
    netc_status status = NETC_OK;
    if (v->e->kind != PK_INIT) status = inspect_layers(v->p, v->arena, name, &e, &top, v->err);
    json_key(v->j, "layers");
    if (top)
        layer_json(top, v->j);
    else
        json_null(v->j);
    return status;
}

static netc_status data(Page *v, const Measured *m)
{
    const Program *p = v->b->program;
    static const char *const kinds[] = {"init", "train", "eval", "model"};
    json_object(v->j);
    json_key(v->j, "netc"), json_string(v->j, netc_version());
    json_key(v->j, "model"), json_string(v->j, p->model);
    json_key(v->j, "path"), json_string(v->j, v->p->name);
    json_key(v->j, "target"), json_string(v->j, p->target);
    json_key(v->j, "entry"), json_string(v->j, v->e->name);
    json_key(v->j, "kind"), json_string(v->j, kinds[v->e->kind]);
    notes(v), dims(v), memory(v), roofs(v);
    netc_status status = layers(v);
    if (status == NETC_OK) status = page_profile(v, m);
    if (status == NETC_OK) status = page_logs(v);
    if (status == NETC_OK) page_graph(v);
    json_key(v->j, "texts"), json_array(v->j);
    for (uint32_t i = 0; i < v->s.n; i++) json_string(v->j, v->s.at[i]);
    json_end(v->j), json_end(v->j);
    return status;
}

// -- the page -------------------------------------------------------------------------------------

// Length of a valid UTF-8 character at s, or 0. Other bytes would make the page invalid.
static size_t character(const unsigned char *s)
{
    size_t n = s[0] < 0x80                   ? 1
               : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
               : s[0] >> 4 == 14             ? 3
               : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                             : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

// html: as text of the page; otherwise inside a script element, where "<" must be escaped; in JSON
// it occurs only in strings.
static void escaped(Buf *out, const char *text, bool html)
{
    static const char *const entity[128] = {['<'] = "&lt;", ['>'] = "&gt;", ['&'] = "&amp;"};
    for (size_t n; *text; text += n) {
        const unsigned char c = (unsigned char)*text;
        n = character((const unsigned char *)text);
        if (!n)
            buf_str(out, "\xef\xbf\xbd"), n = 1; // the replacement character for invalid bytes
        else if (html && c < 128 && entity[c])
            buf_str(out, entity[c]);
        else if (!html && c == '<')
            buf_str(out, "\\u003c");
        else
            buf_bytes(out, text, n);
    }
}

// Appends the files of report/ with this ending, in the order of their names; whole.js, which draws
// the page, is last.
static void files(Buf *out, const char *ending)
{
    for (const EmbeddedFile *f = report_files; f->name; f++)
        if (!strcmp(strrchr(f->name, '.'), ending)) buf_str(out, f->text);
}

// Replaces "{{title}}", "{{style}}", "{{data}}" and "{{script}}" in the template.
static void fill(Page *v, const char *json, Buf *out)
{
    Buf template = buf_new(v->arena);
    files(&template, ".html");
    const char *at = template.data;
    for (const char *hole; (hole = strstr(at, "{{")); at = strstr(hole, "}}") + 2) {
        buf_bytes(out, at, (size_t)(hole - at));
        if (!strncmp(hole, "{{title}}", 9))
            escaped(out, v->b->program->model, true);
        else if (!strncmp(hole, "{{style}}", 9))
            files(out, ".css");
        else if (!strncmp(hole, "{{data}}", 8))
            escaped(out, json, false);
        else
            files(out, ".js");
    }
    buf_str(out, at);
}

typedef struct Job {
    Page page;
    netc_status status;
    char *html;
} Job;

static void make_page(void *arg)
{
    Job *job = arg;
    Page *v = &job->page;
    Measured m;
    Buf json = buf_new(v->arena), out = buf_new(v->arena);
    Json j = json_writer(&json);
    v->j = &j;
    v->at = strmap_new(v->arena);
    job->status = page_profile_read(v, &m);
    const char *target = v->o->target ? v->o->target
                         : !m.top     ? NULL
                                      : (strncmp(m.device, "cpu", 3) ? "cuda" : "cpu");
    char note[160];
    if (job->status == NETC_OK)
        job->status = inspect_build(v->p, target, note, sizeof note, &v->b, v->err);
    if (job->status == NETC_OK) job->status = pick_entry(v, &m);
    if (job->status == NETC_OK) job->status = data(v, &m);
    if (job->status != NETC_OK) return;
    fill(v, json.data, &out);
    job->html = strdup(out.data);
}

netc_status netc_report(netc_program *p, const netc_report_options *o, char **html,
                        netc_error **err)
{
    netc_report_options own = {0};
    *html = NULL;
    netc_status status = TAKE_OPTIONS(netc_report_options, &own, o, err);
    if (status == NETC_OK) status = options_names("logs", own.logs, own.nlogs, err);
    if (status != NETC_OK) return status;
    Job job = {.page = {.p = p, .o = &own, .arena = arena_new(), .err = err}};
    if (!job.page.arena) return OUT_OF_MEMORY(err);
    if (!lib_guarded(job.page.arena, make_page, &job)) job.status = OUT_OF_MEMORY(err);
    arena_free(job.page.arena);
    *html = job.html;
    if (job.status != NETC_OK) return job.status;
    return job.html ? NETC_OK : OUT_OF_MEMORY(err);
}
