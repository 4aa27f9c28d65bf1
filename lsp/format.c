// Formatting: the result of netc fmt as one edit of the lines from the first to the last that
// change.
#include <string.h>

#include "lsp/child.h"

static void format(void *arg, int fd)
{
    const Document *d = arg;
    char *out = NULL;
    netc_error *err = NULL;
    bool ok = netc_format(NULL, d->path, d->text, &out, &err) == NETC_OK;
    if (!ok && !netc_error_text(err)) return;
    child_send(fd, ok ? "+" : "-", 1);
    const char *text = ok ? out : netc_error_text(err);
    child_send(fd, text, strlen(text));
}

Answer answer_format(Server *s, Message *m, Json *j)
{
    Document *d = document_asked(s, m);
    size_t len;
    if (!d) return ANSWER_ERROR;
    char *text = d->len > LSP_LARGEST_TEXT ? NULL : child_run(s, format, d, m->arena, &len);
    if (!text || !len) return answer_error(m, LSP_FAILED, "%s cannot be formatted", d->path);
    if (*text == '-') {
        text[1 + strcspn(text + 1, "\n")] = 0;
        return answer_error(m, LSP_FAILED, "%s", text + 1);
    }
    const char *new = text + 1;
    size_t n = len - 1, begin = 0, tail = 0;
    while (begin < n && begin < d->len && new[begin] == d->text[begin]) begin++;
    while (begin && d->text[begin - 1] != '\n') begin--;
    while (tail < n - begin && tail < d->len - begin &&
           new[n - 1 - tail] == d->text[d->len - 1 - tail])
        tail++;
    while (tail && (d->text[d->len - tail - 1] != '\n' || new[n - tail - 1] != '\n')) tail--;
    json_array(j);
    if (n != d->len || memcmp(new, d->text, n)) {
        json_object(j);
        put_range(j, "range", &d->lines, begin, d->len - tail, s->utf8);
        json_key(j, "newText");
        json_string(j, arena_strndup(m->arena, new + begin, n - tail - begin));
        json_end(j);
    }
    json_end(j);
    return ANSWER_DONE;
}
