// The message for a program that does not fit: memory by class, the largest temporaries with their
// lines, and the batch that would fit.
#include <stdio.h>
#include <string.h>

#include "base/plain.h"
#include "runtime/exec/exec.h"

enum { SHOWN = 5 };

typedef struct Text {
    char *at;
    size_t left;
} Text;

__attribute__((format(printf, 2, 3))) static void add(Text *t, const char *fmt, ...)
{
    va_list va;
    va_start(va, fmt);
    int n = plain_vformat(t->at, t->left, fmt, va);
    va_end(va);
    if (n < 0) return;
    size_t step = (size_t)n < t->left ? (size_t)n : t->left - (t->left > 0);
    t->at += step;
    t->left -= step;
}

static const ProgEntry *biggest_entry(const Program *p)
{
    const ProgEntry *best = NULL;
    for (int i = 0; i < p->nentries; i++)
        if (!best || p->entries[i].arena_bytes > best->arena_bytes) best = &p->entries[i];
    return best;
}

static void add_buffers(Text *t, const ProgEntry *en)
{
    const ProgBuffer *shown[SHOWN];
    int n = 0;
    for (int i = 0; i < en->nbuffers; i++) { // keeps the largest, sorted
        const ProgBuffer *b = &en->buffers[i];
        if (b->region != PR_ARENA) continue;
        int at = n;
        while (at > 0 && shown[at - 1]->bytes < b->bytes) at--;
        if (at >= SHOWN) continue;
        if (n < SHOWN) n++;
        memmove(&shown[at + 1], &shown[at], (size_t)(n - 1 - at) * sizeof *shown);
        shown[at] = b;
    }
    if (n) add(t, "\nthe biggest temporaries of '%s':", en->name);
    for (int i = 0; i < n; i++)
        add(t, "\n  %12.1f MB  %s%s%s", (double)shown[i]->bytes / 1e6,
            shown[i]->name && *shown[i]->name ? shown[i]->name : "a temporary",
            shown[i]->loc && *shown[i]->loc ? "  " : "", shown[i]->loc ? shown[i]->loc : "");
}

void rt_oom_explain(RtSession *s, const Program *p, const ProgEntry *en, RtError *e)
{
    static const char *const kinds[] = {
        [PC_PARAM] = "parameters", [PC_STATE] = "states",    [PC_SCRATCH] = "scratch states",
        [PC_SETTING] = "settings", [PC_CONTROL] = "control", [PC_PREPARED] = "prepared values",
    };
    double of_kind[sizeof kinds / sizeof *kinds] = {0}, fixed = 0, outputs = 0, consts = 0;
    size_t len = strlen(e->text), avail = 0, total = 0;
    Text t = {e->text + len, sizeof e->text - len};
    if (!en) en = biggest_entry(p);
    for (int i = 0; i < p->ncells; i++) {
        double bytes = (double)prog_type_bytes(&p->cells[i].type);
        if ((size_t)p->cells[i].kind < sizeof kinds / sizeof *kinds)
            of_kind[p->cells[i].kind] += bytes;
        fixed += bytes;
    }
    for (int i = 0; i < p->nconsts; i++) consts += (double)prog_type_bytes(&p->consts[i].type);
    for (int k = 0; en && k < en->noutputs; k++)
        outputs += (double)prog_type_bytes(&en->outputs[k].type);
    fixed += consts;
    add(&t, "\nmemory by class:");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (of_kind[i] > 0) add(&t, "\n  %12.1f MB  %s", of_kind[i] / 1e6, kinds[i]);
    if (consts > 0) add(&t, "\n  %12.1f MB  constants", consts / 1e6);
    if (outputs > 0) add(&t, "\n  %12.1f MB  outputs", outputs / 1e6);
    if (en) add(&t, "\n  %12.1f MB  temporaries of '%s'", (double)en->arena_bytes / 1e6, en->name);
    if (en) add_buffers(&t, en);
    if (!s->device->ops->memory(s->device, &avail, &total)) return;
    double moves = outputs + (en ? (double)en->arena_bytes : 0),
           room = 0.95 * (double)total - fixed;
    if (room <= 0)
        add(&t, "\nno batch fits: parameters and states alone need %.1f of %.1f MB", fixed / 1e6,
            (double)total / 1e6);
    else if (en && en->batch > 1 && moves > room && room / moves * (double)en->batch >= 1)
        add(&t, "\na batch of about %lld would fit (it is %lld): -D batch=%lld",
            (long long)(room / moves * (double)en->batch), (long long)en->batch,
            (long long)(room / moves * (double)en->batch));
    else if (en && en->batch > 0 && moves > room)
        add(&t, "\nnot even a batch of 1 fits");
    else
        add(&t, "\nit would fit an empty device: end other programs that use %s", s->device->name);
}
