// The text of a kernel of several phases, made of the texts of kernels that are launched alone
// otherwise: each becomes a function of its block's number, and the blocks of the joined kernel
// take these numbers in turn. So every number comes out the same, whichever way it runs, and
// however many blocks there are.
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"
#include "codegen/gen.h"

static const char head_begin[] = "extern \"C\" __global__ void __launch_bounds__(";

typedef struct Parts {  // of a kernel's text
    const char *before; // functions it calls
    size_t nbefore;
    const char *params, *body; // "T *a, ..." and from the opening brace
    size_t nparams;
} Parts;

static bool take_apart(const char *text, Parts *p)
{
    const char *head = strstr(text, head_begin);
    if (!head || strstr(head + 1, head_begin)) return false;
    const char *open = strchr(head + sizeof head_begin - 1, ')');
    open = open ? strchr(open, '(') : NULL;
    const char *close = open ? strchr(open, ')') : NULL;
    if (!close || memchr(open + 1, '(', (size_t)(close - open - 1))) return false;
    p->before = text;
    p->nbefore = (size_t)(head - text);
    p->params = open + 1;
    p->nparams = (size_t)(close - open - 1);
    p->body = close + 1;
    return true;
}

// Whether threads wait for others than those of their warp.
static bool waits(const char *text)
{
    if (strstr(text, "__syncthreads") || strstr(text, "nc_above<")) return true;
    for (const char *at = text; (at = strstr(at, "nc_team<")); at++) {
        const char *comma = strchr(at, ','), *end = strchr(at, '>');
        if (!comma || !end || comma > end || atoi(comma + 1) > 32) return true;
    }
    return false;
}

bool phase_possible(const ProgKernel *k, const char **why)
{
    Parts p;
    // What only a launch of its own can give, and what the prelude does with a whole block.
    static const char *const own[] = {"gridDim",    "blockDim", "blockIdx.y", "blockIdx.z",
                                      "__shared__", "cluster",  "griddep",    "nc_teams<",
                                      "nc_scan<",   "nc_sort<"};
    *why = NULL;
    if (k->cluster > 1 || k->cooperative || k->nmaps || k->grid[1] > 1 || k->grid[2] > 1 ||
        k->block[1] > 1 || k->block[2] > 1 || k->block[0] > PHASE_THREADS ||
        !take_apart(k->text, &p))
        *why = "needs a launch of its own";
    for (size_t i = 0; i < sizeof own / sizeof *own && !*why; i++)
        if (strstr(k->text, own[i])) *why = "needs a launch of its own";
    if (!*why && k->block[0] < PHASE_THREADS && waits(k->text))
        *why = "has barriers among fewer threads than phases have";
    return !*why;
}

static const char *const words[][2] = {
    // of a launch: of a phase
    {"blockIdx.x", "nc_block"},
    {"threadIdx.x", "nc_thread"},
    {"__syncthreads()", "nc_part_wait()"},
    {"nc_shared", "nc_part_shared"},
    {"nc_team<", "nc_part_team<"},
    {"nc_above<", "nc_part_above<"},
    {"nc_follow();", ""},
    {"__restrict__ ", ""},
};

static bool in_word(char c)
{
    return plain_alnum(c) || c == '_';
}

static void print_replaced(Buf *b, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        bool found = false;
        for (size_t k = 0; k < sizeof words / sizeof *words && !found; k++) {
            size_t len = strlen(words[k][0]);
            if (n - i < len || strncmp(text + i, words[k][0], len) != 0) continue;
            if (i && in_word(text[i - 1])) continue;
            if (in_word(words[k][0][len - 1]) && i + len < n && in_word(text[i + len])) continue;
            buf_str(b, words[k][1]);
            i += len;
            found = true;
        }
        if (!found) buf_char(b, text[i++]);
    }
}

// Functions that get the block's number: "static __device__ __forceinline__ void NAME(" before the
// kernel. They name their block themselves, so nothing is to be added but where blockIdx.x stands.
static void print_function(Buf *b, const char *text, const char *name)
{
    Parts p;
    take_apart(text, &p);
    print_replaced(b, p.before, p.nbefore);
    buf_printf(b, "static __device__ __forceinline__ void %s(const int nc_block%s", name,
               p.nparams ? ", " : "");
    print_replaced(b, p.params, p.nparams);
    buf_char(b, ')');
    print_replaced(b, p.body, strlen(p.body));
    buf_char(b, '\n');
}

// The type of parameter [at], without const at its beginning: "float *".
static const char *parameter_type(Arena *a, const char *text, int at)
{
    Parts p;
    take_apart(text, &p);
    const char *from = p.params, *end = p.params + p.nparams;
    for (; at > 0; at--) {
        const char *comma = memchr(from, ',', (size_t)(end - from));
        if (!comma) return "void *";
        from = comma + 1;
    }
    const char *to = memchr(from, ',', (size_t)(end - from));
    if (!to) to = end;
    while (to > from && (plain_alnum(to[-1]) || to[-1] == '_')) to--; // its name
    while (from < to && plain_space(*from)) from++;
    Buf b = buf_new(a);
    print_replaced(&b, from, (size_t)(to - from));
    return b.data;
}

static const char *without_const(const char *type)
{
    return strncmp(type, "const ", 6) ? type : type + 6;
}

typedef struct Params { // of the joined kernel: every buffer once
    int32_t *of;        // by buffer: number + 1
    VEC(ProgArg) args;
    VEC(const char *) types;
} Params;

static void collect(GenEntry *e, const ProgEntry *out, const ProgJoin *j, Params *p)
{
    Arena *a = e->gen->arena;
    p->of = NEW_ARRAY(a, int32_t, out->nbuffers + 1);
    for (int32_t i = j->first_step; i < j->last_step; i++) {
        const ProgStep *s = &out->steps[i];
        for (int32_t k = 0; k < s->nargs; k++) {
            const ProgArg *arg = &s->args[k];
            if (arg->kind != PA_BUFFER) continue;
            if (!p->of[arg->index]) {
                ProgArg mine = {.kind = PA_BUFFER, .index = arg->index};
                vec_push(a, &p->args, mine);
                vec_push(a, &p->types,
                         without_const(parameter_type(a, e->gen->kernels.at[s->index].text, k)));
                p->of[arg->index] = (int32_t)p->args.n;
            }
            p->args.at[p->of[arg->index] - 1].written |= arg->written;
        }
    }
}

static void print_call(Gen *g, Buf *b, const ProgStep *s, const Params *p, bool pretty,
                       uint32_t first)
{
    const ProgKernel *k = &g->kernels.at[s->index];
    buf_printf(b, "%s(at - %u", pretty ? k->name : k->symbol, first);
    for (int32_t i = 0; i < s->nargs; i++) {
        const ProgArg *arg = &s->args[i];
        if (arg->kind == PA_INT) {
            buf_printf(b, ", %lldll", (long long)arg->value);
            continue;
        }
        const char *want = without_const(parameter_type(g->arena, k->text, i));
        int32_t at = p->of[arg->index] - 1;
        buf_printf(b, strcmp(want, p->types.at[at]) ? ", (%s)p%d" : ", %.0sp%d", want, (int)at);
    }
    buf_str(b, ");\n");
}

static uint32_t blocks_of(const Gen *g, const ProgStep *s)
{
    return g->kernels.at[s->index].grid[0];
}

static void print_phase(Gen *g, Buf *b, const ProgStep *s, int32_t n, const Params *p, bool pretty)
{
    uint32_t total = 0, first = 0;
    for (int32_t i = 0; i < n; i++) total += blocks_of(g, &s[i]);
    buf_printf(b, "    for (int at = first; at < %u; at += %s) {\n", total, "count");
    for (int32_t i = 0; i < n; i++) {
        const ProgKernel *k = &g->kernels.at[s[i].index];
        buf_str(b, i ? "        else " : "        ");
        if (i + 1 < n) buf_printf(b, "if (at < %u) ", first + blocks_of(g, &s[i]));
        buf_str(b, n > 1 ? "{\n            " : "");
        if (k->block[0] < PHASE_THREADS) buf_printf(b, "if (nc_thread < %u) ", k->block[0]);
        print_call(g, b, &s[i], p, pretty, first);
        if (n > 1) buf_str(b, "        }\n");
        first += blocks_of(g, &s[i]);
    }
    buf_printf(
        b, "        if (at + count < %u) nc_part_wait(); // shared memory is used again\n    }\n",
        total);
}

static const char *print_text(GenEntry *e, const ProgEntry *out, const ProgJoin *j, const Params *p,
                              const ProgKernel *k, const char *symbol, bool pretty)
{
    const uint32_t parts = k->block[0] / PHASE_THREADS;
    Gen *g = e->gen;
    Buf b = buf_new(g->arena);
    IdMap seen = idmap_new(g->arena);
    if (pretty)
        buf_printf(
            &b,
            "// %d steps of %s in %d phases. %u blocks, one cluster, wait for each other between "
            "phases; the %u\n// parts of %d threads each of them has take the steps' blocks in "
            "turn.\n",
            (int)(j->last_step - j->first_step), out->name, (int)j->nphases, k->grid[0], parts,
            PHASE_THREADS);
    buf_printf(&b, "#define nc_thread      ((int)threadIdx.x %% %d)\n", PHASE_THREADS);
    buf_printf(&b, "#define nc_part_shared (nc_shared + threadIdx.x / %d * %u)\n\n", PHASE_THREADS,
               k->shared_bytes / parts / 16);
    for (int32_t i = j->first_step; i < j->last_step; i++) {
        const ProgKernel *s = &g->kernels.at[out->steps[i].index];
        if (idmap_get(&seen, (uint64_t)out->steps[i].index, NULL)) continue;
        idmap_set(&seen, (uint64_t)out->steps[i].index, 1);
        print_function(&b, s->text, pretty ? s->name : s->symbol);
    }
    buf_printf(&b, "%s%u) %s(", head_begin, k->block[0], symbol);
    for (uint32_t i = 0; i < p->args.n; i++)
        buf_printf(&b, "%s%sp%u", i ? ", " : "", p->types.at[i], i);
    buf_printf(&b,
               ")\n{\n    nc_follow();\n    const int count = gridDim.x * %u, first = threadIdx.x "
               "/ %d * gridDim.x + "
               "blockIdx.x;\n",
               parts, PHASE_THREADS);
    for (int32_t i = 0, at = j->first_step; i < j->nphases; at = j->phase_end[i++]) {
        if (i) buf_str(&b, "    nc_cluster_wait();\n");
        print_phase(g, &b, &out->steps[at], j->phase_end[i] - at, p, pretty);
    }
    buf_str(&b, "}\n");
    return b.data;
}

ProgKernel phases_cuda(GenEntry *e, const ProgEntry *out, ProgJoin *j)
{
    Gen *g = e->gen;
    Params p = {0};
    collect(e, out, j, &p);
    uint32_t most = 1, blocks = 0;
    ProgKernel k = {.block = {1, 1, 1}, .grid = {1, 1, 1}};
    for (int32_t i = 0, at = j->first_step; i < j->nphases; i++, blocks = 0) {
        for (; at < j->phase_end[i]; at++) {
            const ProgKernel *s = &g->kernels.at[out->steps[at].index];
            blocks += s->grid[0];
            if (s->shared_bytes > k.shared_bytes) k.shared_bytes = s->shared_bytes;
            k.bytes_read += s->bytes_read;
            k.bytes_written += s->bytes_written;
            k.flops += s->flops;
            k.product_flops += s->product_flops;
            if (s->product_flops) k.product_type = s->product_type;
            if (s->product_flops) k.product_tf32 = s->product_tf32;
            k.floor_seconds += s->floor_seconds;
        }
        most = blocks > most ? blocks : most;
    }
    // Multiprocessors first: a block of few threads has more registers for each.
    uint32_t parts = 1;
    while (k.grid[0] < most && k.grid[0] * 2 <= (uint32_t)g->target->widest_cluster) k.grid[0] *= 2;
    while (k.grid[0] * parts < most && parts * 2 <= PHASE_PARTS) parts *= 2;
    k.block[0] = PHASE_THREADS * parts;
    k.cluster = k.grid[0];
    k.shared_bytes = (k.shared_bytes + 15) / 16 * 16 * parts;
    uint64_t id = hash_str(print_text(e, out, j, &p, &k, "k", false));
    k.identity = id;
    k.symbol = arena_printf(g->arena, "k_%016llx", (unsigned long long)id);
    k.name = arena_printf(g->arena, "%s_%d_phases_%08x", out->name, (int)j->nphases,
                          (unsigned)(id >> 32));
    k.text = print_text(e, out, j, &p, &k, k.symbol, false);
    k.annotated = print_text(e, out, j, &p, &k, k.name, true);
    k.schedule = arena_printf(g->arena, "phases=%d cluster=%u threads=%u", (int)j->nphases,
                              k.cluster, k.block[0]);
    ProgStep *s = &j->step;
    s->kind = PS_KERNEL;
    s->loc = out->steps[j->first_step].loc;
    s->nargs = (int32_t)p.args.n;
    s->args = NEW_ARRAY(g->arena, ProgArg, s->nargs + 1);
    memcpy(s->args, p.args.at, p.args.n * sizeof *s->args);
    for (int32_t i = j->first_step; i < j->last_step; i++) s->commits |= out->steps[i].commits;
    return k;
}
