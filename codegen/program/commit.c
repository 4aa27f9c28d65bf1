// Values that could not be updated in place are copied to their cells when everything else is done.
// On a GPU those copies must not happen after an error was recorded, so they are kernels, each with
// as many copies as its arguments can hold, since a single copy costs little more than its launch.
#include "codegen/program/gen.h"

enum { MOST_PAIRS = 32, BLOCK = 256, BYTES_A_BLOCK = BLOCK * 16 * 4 };

static int64_t blocks_for(const Target *t, int64_t bytes)
{
    int64_t n = (bytes + BYTES_A_BLOCK - 1) / BYTES_A_BLOCK, most = (int64_t)t->units * 4;
    return n < 1 ? 1 : n > most && most > 0 ? most : n;
}

static int32_t copy_kernel(Gen *g, const int64_t *bytes, int n)
{
    uint64_t id = hash_str("copy unless an error is recorded");
    int64_t blocks = 0, total = 0;
    for (int i = 0; i < n; i++) {
        id = hash_mix(id, hash_mix((uint64_t)bytes[i], (uint64_t)blocks_for(g->target, bytes[i])));
        blocks += blocks_for(g->target, bytes[i]);
        total += bytes[i];
    }
    ProgKernel k = {
        .identity = id,
        .name = arena_printf(g->arena, "commit_x%d_%08x", n, (unsigned)(id >> 32)),
        .symbol = arena_printf(g->arena, "k_%016llx", (unsigned long long)id),
        .grid = {(uint32_t)blocks, 1, 1},
        .block = {BLOCK, 1, 1},
        .bytes_read = total,
        .bytes_written = total,
        .floor_seconds =
            g->target->bytes_per_second > 0 ? 2.0 * (double)total / g->target->bytes_per_second : 0,
        .schedule = "16 bytes a thread, four times",
    };
    Buf b = buf_new(g->arena);
    buf_str(&b, "// Copies new values to their cells unless this step has recorded an error: a "
                "failed step\n"
                "// changes nothing.\n");
    buf_printf(&b, "extern \"C\" __global__ void __launch_bounds__(%d) %s(", BLOCK, k.symbol);
    for (int i = 0; i < n; i++) buf_printf(&b, "\n    char *to%d, const char *from%d,", i, i);
    buf_printf(
        &b,
        "\n    const unsigned *error)\n{\n%s    if (*error) return;\n"
        "    char *to;\n    const char *from;\n    long long bytes, block = blockIdx.x, blocks;\n",
        cuda_first_words(g->target, &k, blocks, BLOCK));
    for (int i = 0; i < n; i++) {
        long long mine = blocks_for(g->target, bytes[i]);
        const bool last = i + 1 == n;
        if (!last) buf_printf(&b, "    if (block < %lld) {\n", mine);
        buf_printf(&b, "%s    to = to%d, from = from%d, bytes = %lld, blocks = %lld;\n",
                   last ? "" : "    ", i, i, (long long)bytes[i], mine);
        if (!last) buf_printf(&b, "        goto copy;\n    }\n    block -= %lld;\n", mine);
    }
    if (n > 1) buf_str(&b, "copy:;\n");
    buf_str(&b,
            "    long long i = block * blockDim.x + threadIdx.x, step = blocks * blockDim.x;\n"
            "    bool wide = (((unsigned long long)to | (unsigned long long)from) & 15) == 0;\n"
            "    long long words = wide ? bytes / 16 : 0;\n"
            "    for (long long w = i; w < words; w += step)\n"
            "        ((uint4 *)to)[w] = ((const uint4 *)from)[w];\n"
            "    for (long long k = words * 16 + i; k < bytes; k += step) to[k] = from[k];\n}\n");
    k.text = k.annotated = b.data;
    return gen_kernel(g, &k, NULL);
}

void gen_gate_copies(GenEntry *e)
{
    Gen *g = e->gen;
    if (g->target->kind != TARGET_CUDA || !e->lower.checks.n) return;
    int most = g->target->max_kernel_args > 3 ? (g->target->max_kernel_args - 1) / 2 : 1;
    if (most > MOST_PAIRS) most = MOST_PAIRS;
    // Copies that commit are the last steps; none reads what another one writes.
    uint32_t at = e->steps.n;
    while (at > 0 && e->steps.at[at - 1].kind == PS_COPY && e->steps.at[at - 1].commits) at--;
    uint32_t end = e->steps.n, out = at;
    if (at < end && !e->error_buffer)
        e->error_buffer = gen_buffer(e, PR_ERROR, 0, sizeof(ProgError), NULL, "error", "") + 1;
    while (at < end) {
        int n = (int)(end - at) < most ? (int)(end - at) : most;
        int64_t bytes[MOST_PAIRS];
        ProgStep step = e->steps.at[at];
        step.kind = PS_KERNEL;
        step.nargs = 2 * n + 1;
        step.args = NEW_ARRAY(g->arena, ProgArg, step.nargs);
        for (int i = 0; i < n; i++, at++) {
            const ProgStep *s = &e->steps.at[at];
            bytes[i] = s->bytes;
            step.args[2 * i] = s->args[1];
            step.args[2 * i + 1] = s->args[0];
        }
        step.args[2 * n] = gen_arg(e->error_buffer - 1);
        step.bytes = 0;
        step.index = copy_kernel(g, bytes, n);
        step.name = g->kernels.at[step.index].name;
        e->steps.at[out++] = step;
    }
    e->steps.n = out;
}
