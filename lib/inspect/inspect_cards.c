// Kernel cards: the compiler's result for each kernel. Registers, local and shared memory come from
// its cubin, remarks and seconds from compiling it; launch and text are the program's own.
#include <string.h>

#include "lib/inspect/inspect.h"

typedef struct Card {
    const ProgKernel *k;
    RtKernelInfo info; // -1: unknown
    int fixed;         // static shared memory in bytes; -1: unknown
    int lines;         // of its text
    const char *log;   // output of the compiler; NULL: unknown
    double seconds;    // of processor time to compile it; -1: unknown
} Card;

static Card card_of(const Inspect *v, const ProgKernel *k, const Target *t)
{
    const RtImage *im;
    Card c = {.k = k, .info = kernel_info(v->b, k, t, &im), .fixed = -1, .seconds = -1};
    c.info.threads = (int)(k->block[0] * k->block[1] * k->block[2]);
    if (im) c.fixed = c.info.shared_bytes - (int)k->shared_bytes;
    if (im && im->log) c.log = im->log, c.seconds = im->seconds;
    for (const char *at = k->text; (at = strchr(at, '\n')); at++) c.lines++;
    return c;
}

// The next line of the compiler's log that is not blank; NULL: none. *n: its length.
static const char *remark(const char **log, int *n)
{
    while (**log) {
        const char *line = *log;
        size_t length = strcspn(line, "\n"), blank = strspn(line, " \t\r");
        *log += length + (line[length] == '\n');
        *n = (int)(length - blank);
        if (blank < length) return line + blank;
    }
    return NULL;
}

static void known(Buf *out, int width, int value)
{
    if (value >= 0)
        buf_printf(out, " %*d", width, value);
    else
        buf_printf(out, " %*s", width, "-");
}

static void card_text(const Card *c, Buf *out)
{
    known(out, 5, c->info.registers);
    known(out, 6, c->info.local_bytes);
    known(out, 7, c->fixed);
    buf_printf(out, " %7u %7d", c->k->shared_bytes, c->info.threads);
    if (c->info.occupancy >= 0)
        buf_printf(out, " %5.2f", c->info.occupancy);
    else
        buf_printf(out, " %5s", "-");
    buf_printf(out, " %5d", c->lines);
    if (c->seconds >= 0)
        buf_printf(out, " %7.2f", c->seconds);
    else
        buf_printf(out, " %7s", "-");
    buf_printf(out, "  %s\n", c->k->name);
    int n;
    const char *log = c->log ? c->log : "", *line;
    while ((line = remark(&log, &n))) buf_printf(out, "        %.*s\n", n, line);
}

netc_status inspect_cards(const Inspect *v, Buf *out)
{
    const Program *p = v->b->program;
    Target t = target_of_program(p);
    const char *one = v->o->kernel;
    bool found = !one;
    if (!p->cuda)
        return lib_fail(v->err, NETC_INVALID,
                        "cards describe GPU kernels: --target cuda shows them");
    int nkernels = 0;
    for (int i = 0; i < p->nkernels; i++) nkernels += inspect_runs(v, PS_KERNEL, i);
    buf_printf(out, "%s for %s: %d kernels\n", p->model, v->note, nkernels);
    buf_printf(out, " %5s %6s %7s %7s %7s %5s %5s %7s  %s\n", "regs", "local", "static", "dynamic",
               "threads", "occup", "lines", "seconds", "kernel, the compiler's remarks");
    for (int i = 0; i < p->nkernels; i++) {
        if (one ? !lib_names_kernel(one, p->kernels[i].name) : !inspect_runs(v, PS_KERNEL, i))
            continue;
        Card c = card_of(v, &p->kernels[i], &t);
        card_text(&c, out);
        found = true;
    }
    return found ? NETC_OK : lib_no_kernel(v->err, p, one);
}

static void known_json(Json *j, const char *key, double value)
{
    json_key(j, key);
    if (value >= 0)
        json_double(j, value);
    else
        json_null(j);
}

void inspect_cards_json(const Inspect *v, Json *j)
{
    const Program *p = v->b->program;
    Target t = target_of_program(p);
    json_array(j);
    for (int i = 0; i < p->nkernels && p->cuda; i++) {
        if (!inspect_runs(v, PS_KERNEL, i)) continue;
        Card c = card_of(v, &p->kernels[i], &t);
        json_object(j);
        json_key(j, "name"), json_string(j, c.k->name);
        known_json(j, "registers", c.info.registers);
        known_json(j, "local_bytes", c.info.local_bytes);
        known_json(j, "static_shared_bytes", c.fixed);
        known_json(j, "dynamic_shared_bytes", c.k->shared_bytes);
        known_json(j, "threads", c.info.threads);
        known_json(j, "occupancy", c.info.occupancy);
        known_json(j, "lines", c.lines);
        known_json(j, "compile_seconds", c.seconds);
        json_key(j, "remarks"), json_array(j);
        int n;
        const char *log = c.log ? c.log : "", *line;
        while ((line = remark(&log, &n))) json_string(j, arena_strndup(v->arena, line, (size_t)n));
        json_end(j), json_end(j);
    }
    json_end(j);
}
