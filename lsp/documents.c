// Open documents: their texts as last sent by the client, and the results of their analysis.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lsp/lsp.h"

static void forget_survey(Document *d)
{
    if (d->arena) arena_free(d->arena);
    free(d->survey_text);
    d->arena = NULL;
    d->survey = NULL;
    d->survey_text = NULL;
    d->fault = NULL;
}

static void forget_kernels(Document *d)
{
    job_end(&d->kernels_job);
    if (d->kernels_arena) arena_free(d->kernels_arena);
    d->kernels_arena = NULL;
    d->kernels = NULL;
    d->kernels_stale = true;
}

Document *document_find(const Server *s, const char *uri)
{
    char *path = NULL;
    Document *found = NULL;
    for (Document *d = s->documents; d && !found; d = d->next)
        if (!strcmp(d->uri, uri)) found = d;
    if (!found && !strncmp(uri, "file:", 5) && (path = uri_path(uri)))
        found = document_of_path(s, path); // the same file with a different spelling of its URI
    free(path);
    return found;
}

Document *document_of_path(const Server *s, const char *path)
{
    for (Document *d = s->documents; d; d = d->next)
        if (!strcmp(d->path, path) && !strncmp(d->uri, "file:", 5)) return d;
    return NULL;
}

static void mark(Document *d)
{
    d->stale = true;
    job_end(&d->job);
    forget_kernels(d);
}

// Marks the documents that use this one for analysis.
static void mark_users(Server *s, const Document *changed)
{
    for (Document *d = s->documents; d; d = d->next) {
        for (uint32_t i = 0; d != changed && d->survey && i < d->survey->sources.n; i++)
            if (!strcmp(d->survey->sources.at[i].path, changed->path)) {
                mark(d);
                break;
            }
    }
}

// (A survey does not name a used file that could not be read, so all documents are marked.)
void documents_reread(Server *s)
{
    for (Document *d = s->documents; d; d = d->next) {
        bool compiled = !d->kernels_stale;
        mark(d);
        d->saved |= compiled;
    }
}

void document_set(Server *s, Document *d, const char *text, size_t len)
{
    char *copy = malloc(len + 1);
    Arena *lines = copy ? arena_new() : NULL;
    jmp_buf full;
    if (lines && setjmp(full)) arena_free(lines), lines = NULL;
    if (!lines) {
        free(copy);
        server_log(s, "out of memory: %s keeps its old text", d->path);
        return;
    }
    arena_on_oom(lines, &full);
    memcpy(copy, text, len);
    copy[len] = 0;
    Text t = text_of(lines, copy, len);
    free(d->text);
    if (d->lines_arena) arena_free(d->lines_arena);
    d->text = copy;
    d->len = len;
    d->lines_arena = lines;
    d->lines = t;
    mark(d);
    mark_users(s, d);
}

Document *document_open(Server *s, const char *uri, const char *text, int64_t version)
{
    Document *d = document_find(s, uri);
    if (!d) {
        d = calloc(1, sizeof *d);
        if (d) d->uri = strdup(uri);
        if (d) d->path = uri_path(uri);
        if (!d || !d->uri || !d->path) {
            if (d) free(d->uri), free(d->path);
            free(d);
            return NULL;
        }
        d->next = s->documents;
        s->documents = d;
        d->library = standard_is(d->path);
    }
    d->version = version;
    document_set(s, d, text, strlen(text));
    return d;
}

static bool read_position(const JsonValue *v, Position *p)
{
    const JsonValue *line = json_get(v, "line"), *character = json_get(v, "character");
    if (!line || !character || !line->is_int || !character->is_int || line->integer < 0 ||
        character->integer < 0)
        return false;
    p->line = line->integer > UINT32_MAX ? UINT32_MAX : (uint32_t)line->integer;
    p->character = character->integer > UINT32_MAX ? UINT32_MAX : (uint32_t)character->integer;
    return true;
}

bool document_change(Server *s, Document *d, const JsonValue *change)
{
    const char *text = json_text(change, "text");
    const JsonValue *range = json_get(change, "range");
    Position from, to;
    if (!text) return false;
    if (!range || range->kind == JSON_NULL) return document_set(s, d, text, strlen(text)), true;
    if (!read_position(json_get(range, "start"), &from) ||
        !read_position(json_get(range, "end"), &to))
        return false;
    size_t begin = text_offset(&d->lines, from, s->utf8), end = text_offset(&d->lines, to, s->utf8);
    if (begin > end) { // as in the protocol's reference implementation
        size_t swap = begin;
        begin = end;
        end = swap;
    }
    size_t n = strlen(text), len = d->len - (end - begin) + n;
    char *all = malloc(len + 1);
    if (!all) return false;
    memcpy(all, d->text, begin);
    memcpy(all + begin, text, n);
    memcpy(all + begin + n, d->text + end, d->len - end);
    document_set(s, d, all, len);
    free(all);
    return true;
}

void document_close(Server *s, Document *d)
{
    for (Document **at = &s->documents; *at; at = &(*at)->next)
        if (*at == d) {
            *at = d->next;
            break;
        }
    job_end(&d->job);
    mark_users(s, d);
    forget_survey(d);
    forget_kernels(d);
    if (d->lines_arena) arena_free(d->lines_arena);
    free(d->uri);
    free(d->path);
    free(d->text);
    free(d);
}

// The child process that analysed the document has ended; its output is in the job.
void document_analysed(Document *d)
{
    int status = 0;
    char *text = d->job.data;
    size_t len = d->job.len;
    d->job.data = NULL;
    (void)status;
    forget_survey(d);
    d->stale = false;
    jmp_buf full;
    d->arena = arena_new();
    if (d->arena && setjmp(full)) arena_free(d->arena), d->arena = NULL;
    if (d->arena) {
        arena_on_oom(d->arena, &full);
        d->survey = text ? survey_read(d->arena, text, len) : NULL;
        d->survey_text = strdup(d->text);
        d->survey_len = d->len;
    }
    if (!d->survey || !d->survey_text) {
        forget_survey(d);
        d->fault = "netc could not analyse this text: the analysis process ended";
    }
    free(text);
    d->job = (Job){0};
}

Document *document_asked(Server *s, Message *m)
{
    const char *uri = json_text(json_get(m->params, "textDocument"), "uri");
    Document *d = uri ? document_find(s, uri) : NULL;
    if (!uri)
        answer_error(m, LSP_INVALID_PARAMS, "no textDocument.uri");
    else if (!d)
        answer_error(m, LSP_INVALID_PARAMS, "%s is not open", uri);
    return d;
}

bool position_asked(Server *s, Message *m, const Document *d, const char *key, size_t *at)
{
    Position p;
    if (!read_position(json_get(m->params, key), &p))
        return answer_error(m, LSP_INVALID_PARAMS, "no %s with a line and a character", key), false;
    *at = text_offset(&d->lines, p, s->utf8);
    return true;
}

FILE *file_open(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    FILE *f = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) ? fdopen(fd, "rb") : NULL;
    if (!f && fd >= 0) close(fd);
    return f;
}

static char *read_file(Arena *a, const char *path, size_t *len)
{
    FILE *f = file_open(path);
    if (!f) return NULL;
    Buf b = buf_new(a);
    char block[65536];
    size_t n;
    while ((n = fread(block, 1, sizeof block, f)) > 0 && b.len < LSP_LARGEST_TEXT)
        buf_bytes(&b, block, n);
    fclose(f);
    *len = b.len;
    return b.data ? b.data : arena_strdup(a, "");
}

bool source_text(Server *s, Arena *a, const Document *d, uint32_t source, Text *text,
                 const char **uri)
{
    if (source == d->survey->source) return *text = d->lines, *uri = d->uri, true;
    if (source >= d->survey->sources.n) return false;
    const SourceFile *f = &d->survey->sources.at[source];
    const Document *open = f->library ? NULL : document_of_path(s, f->path);
    if (open) return *text = open->lines, *uri = open->uri, true;
    if (f->library) {
        const char *name, *body;
        for (int i = 0; netc_standard_file(i, &name, &body); i++) {
            if (strncmp(f->path, "std/", 4) || strcmp(f->path + 4, name)) continue;
            *text = text_of(a, body, strlen(body));
            *uri = standard_uri(a, f->path);
            return *uri != NULL;
        }
        return false;
    }
    size_t len;
    const char *body = read_file(a, f->path, &len);
    if (!body) return false;
    *text = text_of(a, body, len);
    *uri = uri_of(a, f->path);
    return true;
}
