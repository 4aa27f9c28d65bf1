// Whole kernels as CUDA C. A launch may have several independent bodies: equal ones are printed as
// one function, and the number of a block determines its body.
#include <string.h>

#include "codegen/cuda/print_cuda.h"
#include "codegen/tile/tile.h"

enum { MOST_CLUSTER = 16 };

// A parameter of a kernel or of a body's function: a number, or an array with its qualifiers.
typedef struct Parameter {
    const char *type;
    bool array, constant, alone; // alone: __restrict__, no other pointer accesses its elements
} Parameter;

static Parameter parameter_of(const Body *b, uint32_t buf)
{
    const BodyBuf *u = &b->bufs.at[buf];
    if (u->kind == KA_ERROR) return (Parameter){"NcError", .array = true};
    if (u->kind == KA_LOOP_INDEX || u->kind == KA_INT) return (Parameter){.type = "int64_t"};
    const char *t = u->kind == KA_SCRATCH ? type_math(u->type) : type_storage(u->type);
    return (Parameter){t, true, !u->written, !u->in_place};
}

// "const T *__restrict__ ", or "int64_t "
static const char *parameter_text(Emit *e, Parameter p)
{
    return emit_text(e, "%s%s %s%s", p.constant ? "const " : "", p.type, p.array ? "*" : "",
                     p.alone ? "__restrict__ " : "");
}

// The statement that waits for the preceding kernel, if this kernel is launched early: hiding the
// launch pays off for a short kernel. A longer one only becomes slower. If there are more blocks
// than fit at once, each of them pays for the wait (layer norm of 131072 rows, a block each, took
// 160 us on an H200 instead of 97). If all blocks fit, they are placed unevenly, wherever the
// preceding kernel happens to leave room (a bias gradient that reads 201 MB took 72 us after
// another kernel and 57 alone).
const char *cuda_first_words(const Target *t, const ProgKernel *p, int64_t blocks, int threads)
{
    bool brief = target_brief(t, (double)(p->bytes_read + p->bytes_written), (double)p->flops);
    bool one_wave = blocks * threads <= (int64_t)t->units * t->threads_per_unit;
    return one_wave && brief ? "    nc_follow();\n" : "";
}

// Products in tiles take most of a multiprocessor's shared memory. If they were launched early,
// their blocks would be placed where the preceding kernel leaves room, two on one multiprocessor
// and none on another: the eight kernels of a step of 784-512-512-10 took 61 us on an H200 when
// launched early, and 50 otherwise. The same holds for products with updates, however much memory
// they take: a step of 784-256-128-64-32-10 took 19.6 us instead of 18.8.
static const char *first_words(const Kernel *k, const ProgKernel *p, int64_t blocks, int threads)
{
    enum { CROWDED = 64 << 10 };
    for (int i = 0; i < k->nbodies; i++) {
        const Body *b = k->body[i];
        if (b->sched.variant == RUN_F32_RING && (b->commits || p->shared_bytes > CROWDED))
            return "";
    }
    return cuda_first_words(k->ctx->target, p, blocks, threads);
}

// Whether the body's printer tests the error record itself, after issuing loads.
static bool looks_late(const Body *b)
{
    switch (b->sched.variant) {
    case RUN_MAP:
    case RUN_REUSE:
    case RUN_WARP_TILES:
    case RUN_F32_RING: return true;
    default: return column_commits_late(b);
    }
}

// The two parameters that place a body in a launch, if its text uses them: the number of its rows,
// and that of the block among the body's blocks.
typedef struct Placed {
    bool rows, block;
} Placed;

// Parameters and body of one function: "(...)\n{...}". Bodies with the same text, except for names,
// share one function. [placed]: NULL: the kernel itself; otherwise set. [words]: the wait for the
// preceding kernel, which is printed after early loads, or "".
static const char *print_body(const Kernel *k, Body *b, bool pretty, Placed *placed,
                              const char *words, Emit *names)
{
    Emit e = emit_begin(k, b, pretty, true);
    Buf out = buf_new(k->arena);
    Scope *root = emit_open(&e, 0);
    const Schedule *s = &b->sched;
    e.follow = *words ? "nc_follow();" : NULL;
    if (b->commits && looks_late(b))
        e.check = emit_text(&e, "const bool failed = %s->code != 0;", e.buf_name[b->error_buf]);
    else if (b->commits)
        e.check = emit_text(&e, "if (%s->code) return; // a check has failed: nothing is committed",
                            e.buf_name[b->error_buf]);
    if (!e.follow || !prefetches(k, b)) emit_follow(&e);
    KernelPhase phase = k->phase;
    if (phase == PHASE_PARTIAL && !(b->col >= 0 && b->sched.split > 1)) phase = PHASE_WHOLE;
    if (!placed) {
        emit_declare(&e, "block", "const int block = blockIdx.x;");
        emit_declare(&e, "n", "const %s n = %lld;", int_type(&e), (long long)body_rows(b));
    }
    if (body_rows(b) > 0) body_cuda(&e, phase);
    emit_finish(&e);
    buf_str(&out, "(");
    for (uint32_t i = 0; i < b->bufs.n; i++)
        buf_printf(&out, "%s%s%s", i ? ", " : "", parameter_text(&e, parameter_of(b, i)),
                   e.buf_name[i]);
    if (placed) {
        *placed = (Placed){text_uses(root->text.data, "n"), text_uses(root->text.data, "block")};
        if (placed->rows) buf_printf(&out, ", %s n", int_type(&e));
        if (placed->block) buf_str(&out, ", int block");
    }
    if (schedule_in_groups(s))
        buf_str(&out, b->attention.nouts ? attention_groups_parameters(&e) : wgmma_parameters(&e));
    buf_printf(&out, ")\n{\n%s}\n", root->text.data);
    *names = e;
    return out.data;
}

// Appends a function: [head], then what print_body returns.
static void print_function(Buf *out, Arena *a, const char *head, const char *body)
{
    const char *end = strchr(body, '\n');
    const char *line = arena_printf(a, "%s%.*s", head, (int)(end - body), body);
    if (strlen(line) > 100) { // parameters on lines of their own
        buf_printf(out, "%s(\n", head);
        line = arena_strndup(a, body + 1, (size_t)(end - body - 1));
        wrap_line(out, 4, line, strlen(line));
    } else {
        buf_printf(out, "%s\n", line);
    }
    buf_str(out, end + 1);
}

// The schedule of the second kernel, which combines partial results: a team per row, of several
// threads only if there are few rows.
static Schedule combine_schedule(const Body *b)
{
    if (b->sched.kind == SCHED_COLUMN) return plan_column_combine(b);
    Schedule s = b->sched;
    int64_t rows = body_rows(b);
    s.team = rows >= 4096 ? 1 : 32;
    s.threads = 128;
    s.vector = 1;
    s.cluster = 1;
    s.row.keep = s.shared_bytes = s.resident = 0;
    s.blocks = (rows + s.threads / s.team - 1) / (s.threads / s.team);
    return s;
}

// A body in a launch of several: its blocks follow those of the bodies before it.
typedef struct Place {
    const Body *body;
    const char **arg; // by buffer: the name of the kernel's parameter
    long long first;  // block
    const char *function;
    Placed takes;
} Place;

// Whether argument j is the same for all n bodies.
static bool common(const Place *p, int n, int j)
{
    for (int i = 1; i < n; i++)
        if (strcmp(p[i].arg[j], p[0].arg[j])) return false;
    return true;
}

// Assigns the arguments of body i of n that share a function.
static void assign_arguments(Emit *e, const Place *p, int n, int i)
{
    Buf line = buf_new(e->arena);
    for (int j = 0; j < (int)p->body->bufs.n; j++)
        if (!common(p, n, j)) buf_printf(&line, "a%d = %s, ", j, p[i].arg[j]);
    if (p->takes.rows) buf_printf(&line, "n = %s, ", emit_number(e, body_rows(p[i].body)));
    emit(e, "%sfirst = %lld;", line.data, p[i].first);
}

// Assigns the arguments of the block's body, which is one of bodies [from] to [to], by binary
// search: with many bodies, a linear search would be most of a block's work.
static void choose_arguments(Emit *e, const Place *p, int n, int from, int to)
{
    if (to - from == 1) {
        assign_arguments(e, p, n, from);
        return;
    }
    const int mid = (from + to) / 2;
    emit_open(e, 0);
    choose_arguments(e, p, n, from, mid);
    emit_close(e, emit_text(e, "if (blockIdx.x < %lld) {", p[mid].first), "} else {");
    emit_open(e, 0);
    choose_arguments(e, p, n, mid, to);
    emit_close(e, NULL, "}");
}

static void print_arguments(Emit *e, const Place *p, int n)
{
    enum { FEW = 4 };
    const bool some = n <= FEW;
    for (int j = 0; j < (int)p->body->bufs.n; j++)
        if (!common(p, n, j))
            emit(e, some ? "%sa%d = %s;" : "%sa%d;",
                 parameter_text(e, parameter_of(e->body, (uint32_t)j)), j, p->arg[j]);
    if (p->takes.rows)
        emit(e, some ? "%s n = %s;" : "%s n;", int_type(e), emit_number(e, body_rows(p->body)));
    emit(e, some ? "int first = %lld;" : "int first;", p->first);
    if (!some) choose_arguments(e, p, n, 0, n);
    for (int i = 1; i < n && some; i++) {
        emit_open(e, 0);
        assign_arguments(e, p, n, i);
        emit_end(e, "if (blockIdx.x >= %lld) {", p[i].first);
    }
}

// Calls one function for all its bodies; the block's body determines the arguments. [last]: the
// other blocks have returned.
static void print_calls(Emit *e, const Place *p, int n, int threads, bool last)
{
    if (!last) emit_open(e, 0);
    if (p->body->sched.threads < threads)
        emit(e, "if (threadIdx.x >= %d) return;", p->body->sched.threads);
    if (n > 1) print_arguments(e, p, n);
    Buf call = buf_new(e->arena);
    buf_printf(&call, "%s(", p->function);
    for (int j = 0; j < (int)p->body->bufs.n; j++)
        buf_printf(&call, "%s%s", j ? ", " : "",
                   n > 1 && !common(p, n, j) ? emit_text(e, "a%d", j) : p->arg[j]);
    if (p->takes.rows) buf_printf(&call, ", %s", n > 1 ? "n" : emit_number(e, body_rows(p->body)));
    if (p->takes.block) buf_str(&call, ", blockIdx.x");
    if (p->takes.block && (n > 1 || p->first))
        buf_printf(&call, n > 1 ? " - first" : " - %lld", p->first);
    emit(e, "%s);", call.data);
    if (last) return;
    emit(e, "return;");
    emit_end(e, "if (blockIdx.x < %lld) {",
             p[n - 1].first + (long long)p[n - 1].body->sched.blocks);
}

// Prints the kernel's parameters, each buffer once, and sets the bodies' arguments.
static void print_parameters(Kernel *k, bool pretty, Emit *names, Place *place, Buf *params)
{
    StrMap used = strmap_new(k->arena);
    int most = 0;
    for (int i = 0; i < k->nbodies; i++)
        for (uint32_t j = 0; j < k->body[i]->bufs.n; j++)
            most = k->body[i]->arg[j] > most ? k->body[i]->arg[j] : most;
    const char **name = NEW_ARRAY(k->arena, const char *, most + 1);
    Parameter *given = NEW_ARRAY(k->arena, Parameter, most + 1);
    for (int i = 0; i < k->nbodies; i++)
        for (uint32_t j = 0; j < k->body[i]->bufs.n; j++) {
            const int at = k->body[i]->arg[j];
            const Parameter own = parameter_of(k->body[i], j);
            if (!name[at]) {
                name[at] = names[i].buf_name[j];
                if (!pretty) name[at] = arena_printf(k->arena, "p%d", at);
                if (strmap_has(&used, name[at]))
                    name[at] = arena_printf(k->arena, "%s_%d", name[at], at);
                strmap_set(&used, name[at], k);
                given[at] = own;
            } else { // only qualifiers that hold for all bodies
                given[at].constant &= own.constant;
                given[at].alone &= own.alone;
            }
            place[i].arg[j] = name[at];
        }
    for (int at = 0; at <= most; at++)
        buf_printf(params, "%s%s%s", at ? ", " : "", parameter_text(names, given[at]), name[at]);
}

// The launch bounds, with the number of blocks that a multiprocessor must be able to hold if all
// bodies ask for it. In a launch with products in tiles, which do most of the work, only theirs
// count.
static const char *launch_bounds(const Kernel *k, int threads)
{
    int most = k->ctx->target->threads_per_unit, held = most;
    bool products = false;
    for (int i = 0; i < k->nbodies; i++) products |= k->body[i]->sched.variant == RUN_F32_RING;
    for (int i = 0; i < k->nbodies; i++) {
        const Schedule *s = &k->body[i]->sched;
        // Groups redistribute all registers of a multiprocessor, so only one block fits.
        int resident = schedule_in_groups(s) ? 1 : s->resident;
        if ((resident || s->variant == RUN_F32_RING || !products) && resident * s->threads < held)
            held = resident * s->threads;
    }
    const char *blocks = held >= threads ? arena_printf(k->arena, ", %d", held / threads) : "";
    return arena_printf(k->arena, "__launch_bounds__(%d%s)", threads, blocks);
}

static void print_kernel(const Kernel *k, bool pretty, int threads, const char *body, Buf *out)
{
    print_function(out, k->arena,
                   arena_printf(k->arena, "extern \"C\" __global__ void %s %s",
                                launch_bounds(k, threads), pretty ? k->name : k->symbol),
                   body);
}

// The order of bodies. The first block of a cluster has a number that is a multiple of the
// cluster's size, so bodies with larger clusters come first. Next come those whose blocks take
// longest, so that these are spread over the multiprocessors before others fill them.
static const int *by_cluster(const Kernel *k)
{
    static const ScheduleKind kinds[] = {SCHED_ATTENTION, SCHED_TILE, SCHED_SWEEP,
                                         SCHED_COLUMN,    SCHED_ROW,  SCHED_MAP};
    int *order = NEW_ARRAY(k->arena, int, k->nbodies), n = 0;
    for (int c = MOST_CLUSTER; c >= 0; c--)
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
            for (int i = 0; i < k->nbodies; i++)
                if (k->body[i]->sched.cluster == c && k->body[i]->sched.kind == kinds[kind])
                    order[n++] = i;
    return order;
}

// A function of a launch: the number of its bodies, and one of them.
typedef struct Function {
    int bodies, sample;
    Placed takes;
} Function;

// The bodies of a launch and their functions.
typedef struct Sides {
    Kernel *k;
    bool pretty;
    Emit *names;   // by body
    Place *place;  // by body
    int *function; // by body: the number of its function
    Function *of;  // by function
    int functions;
} Sides;

// Prints each function once, and records the function of each body.
static void print_functions(Sides *s, const char *words, Buf *out)
{
    Kernel *k = s->k;
    StrMap seen = strmap_new(k->arena);  // canonical text -> function number + 1
    IdMap printed = idmap_new(k->arena); // body_text_key -> function number + 1
    const int *order = by_cluster(k);
    for (int at = 0; at < k->nbodies; at++) {
        const int i = order[at];
        Body *b = k->body[i];
        Emit *e = &s->names[i];
        uint64_t key = body_text_key(k->ctx, b), known = 0;
        if (idmap_get(&printed, key, &known)) {
            *e = emit_begin(k, b, s->pretty, true);
        } else {
            Placed takes;
            const char *text = print_body(k, b, false, &takes, words, e);
            known = (uint64_t)(uintptr_t)strmap_get(&seen, text);
            const char *shown = s->pretty ? print_body(k, b, true, &takes, words, e) : text;
            if (!known) { // with [pretty], the names are those of the first of equal bodies
                strmap_set(&seen, text, (void *)(intptr_t)++s->functions);
                print_function(out, k->arena,
                               emit_text(e, "static __device__ __forceinline__ void %s_%d",
                                         s->pretty ? k->name : k->symbol, s->functions - 1),
                               shown);
                buf_char(out, '\n');
                s->of[s->functions - 1] = (Function){.sample = i, .takes = takes};
                known = (uint64_t)s->functions;
            }
            idmap_set(&printed, key, known);
        }
        s->function[i] = (int)known - 1;
        s->of[s->function[i]].bodies++;
    }
}

// Sorts the bodies' places by function and numbers their blocks. Returns the number of blocks.
static int64_t place_bodies(const Sides *s, Place *sorted)
{
    int *start = NEW_ARRAY(s->k->arena, int, s->functions + 1);
    int64_t blocks = 0;
    for (int n = 1; n < s->functions; n++) start[n] = start[n - 1] + s->of[n - 1].bodies;
    for (int i = 0; i < s->k->nbodies; i++) sorted[start[s->function[i]]++] = s->place[i];
    for (int i = 0; i < s->k->nbodies; i++) {
        sorted[i].first = blocks;
        blocks += sorted[i].body->sched.blocks;
    }
    return blocks;
}

// Prints a kernel of several bodies. [words]: the wait for the preceding kernel; if some body loads
// early, each body has its own wait. Returns the number of blocks.
static int64_t print_side_by_side(Kernel *k, bool pretty, const char *words, int threads,
                                  int cluster, Buf *out)
{
    Buf params = buf_new(k->arena);
    const int n = k->nbodies;
    Sides s = {.k = k, .pretty = pretty, .names = NEW_ARRAY(k->arena, Emit, n)};
    s.place = NEW_ARRAY(k->arena, Place, n);
    s.function = NEW_ARRAY(k->arena, int, n);
    s.of = NEW_ARRAY(k->arena, Function, n);
    bool ahead = false;
    for (int i = 0; i < n; i++) ahead |= *words && prefetches(k, k->body[i]);
    print_functions(&s, ahead ? words : "", out);
    for (int i = 0; i < n; i++)
        s.place[i] = (Place){
            .body = k->body[i],
            .arg = NEW_ARRAY(k->arena, const char *, k->body[i]->bufs.n + 1),
        };
    print_parameters(k, pretty, s.names, s.place, &params);
    Place *sorted = NEW_ARRAY(k->arena, Place, n);
    const int64_t blocks = place_bodies(&s, sorted);
    s.names->scope = NULL;
    Scope *const calls = emit_open(s.names, 0);
    for (int f = 0, i = 0; f < s.functions; i += s.of[f++].bodies) {
        sorted[i].function = arena_printf(k->arena, "%s_%d", pretty ? k->name : k->symbol, f);
        sorted[i].takes = s.of[f].takes;
        // (A launch in clusters may have more blocks than its bodies.)
        const bool last = f == s.functions - 1 && cluster <= 1;
        Emit *e = &s.names[s.of[f].sample];
        e->scope = calls;
        print_calls(e, &sorted[i], s.of[f].bodies, threads, last);
    }
    print_kernel(k, pretty, threads,
                 arena_printf(k->arena, "(%s)\n{\n%s%s}\n", params.data, ahead ? "" : words,
                              calls->text.data),
                 out);
    return blocks;
}

const char *print_cuda(Kernel *k, bool pretty, ProgKernel *launch)
{
    Buf out = buf_new(k->arena);
    Schedule *own = NEW_ARRAY(k->arena, Schedule, k->nbodies);
    int threads = 32;
    int64_t blocks = 0;
    launch->cluster = 1;
    for (int i = 0; i < k->nbodies; i++) {
        Body *b = k->body[i];
        own[i] = b->sched;
        if (k->phase == PHASE_COMBINE) b->sched = combine_schedule(b);
        blocks += b->sched.blocks;
        if (b->sched.threads > threads) threads = b->sched.threads;
        if (b->sched.cluster > (int)launch->cluster) launch->cluster = (uint32_t)b->sched.cluster;
        if ((uint32_t)b->sched.shared_bytes > launch->shared_bytes)
            launch->shared_bytes = (uint32_t)b->sched.shared_bytes;
    }
    const char *words = first_words(k, launch, blocks, threads);
    if (k->nbodies == 1) {
        Emit e;
        const char *text = print_body(k, k->body[0], pretty, NULL, words, &e);
        const Body *b = k->body[0];
        if (schedule_in_groups(&b->sched))
            (b->attention.nouts ? attention_groups_maps : wgmma_maps)(b, launch);
        print_kernel(k, pretty, threads, text, &out);
    } else {
        blocks = print_side_by_side(k, pretty, words, threads, (int)launch->cluster, &out);
    }
    for (int i = 0; i < k->nbodies; i++) k->body[i]->sched = own[i];
    if (launch->cluster > 1)
        blocks = (blocks + launch->cluster - 1) / launch->cluster * launch->cluster;
    launch->grid[0] = (uint32_t)(blocks > 0 ? blocks : 1);
    launch->block[0] = (uint32_t)threads;
    return out.data;
}
