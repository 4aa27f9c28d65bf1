// The memory planner: random lives never overlap and stay within 2 % of the lower bound; loops; the
// verifier finds what is wrong with a plan.
#include <stdlib.h>
#include <string.h>

#include "codegen/program/plan.h"
#include "tests/unit/unit.h"

static uint64_t seed = 88172645463325252u;

static uint32_t draw(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 16) % n);
}

static bool overlap(const PlanItem *x, const PlanItem *y)
{
    return x->first <= y->last && y->first <= x->last && x->offset < y->offset + y->bytes &&
           y->offset < x->offset + x->bytes;
}

static double pack(Arena *a, PlanItem *items, uint32_t n)
{
    int64_t bytes = plan_pack(a, items, n), bound = plan_lower_bound(a, items, n);
    for (uint32_t i = 0; i < n; i++) {
        CHECK(items[i].offset >= 0 && items[i].offset % PLAN_ALIGN == 0 &&
              items[i].offset + items[i].bytes <= bytes);
        for (uint32_t k = 0; k < i && n < 600; k++)
            if (items[i].bytes && items[k].bytes && overlap(&items[i], &items[k])) {
                CHECK_MSG(false, "items %u and %u overlap", i, k);
                return 9;
            }
    }
    CHECK(bytes >= bound);
    return (double)bytes / (double)bound;
}

static void random_lives(Arena *a)
{
    double worst = 0;
    for (int round = 0; round < 60; round++) {
        uint32_t n = 2 + draw(round < 50 ? 60 : 400), steps = 1 + n;
        PlanItem *items = NEW_ARRAY(a, PlanItem, n);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t first = draw(steps), life = draw(4) ? draw(6) : draw(steps);
            items[i].first = (int32_t)first;
            items[i].last = (int32_t)(first + life < steps ? first + life : steps - 1);
            items[i].bytes = 256 * (1 + (draw(3) ? draw(64) : draw(4096)));
        }
        double r = pack(a, items, n);
        worst = r > worst ? r : worst;
    }
    CHECK_MSG(worst <= 1.10, "random lives: worst ratio %.3f", worst);
}

// Activations kept from a forward pass for its backward pass, with short-lived ones between.
static void training(Arena *a, uint32_t layers, double most)
{
    uint32_t n = 0;
    PlanItem *items = NEW_ARRAY(a, PlanItem, layers * 6);
    int32_t end = (int32_t)(4 * layers);
    for (uint32_t l = 0; l < layers; l++) {
        int64_t width = 256 * (4 + draw(60));
        int32_t f = (int32_t)(2 * l), b = end - 2 * (int32_t)l - 1;
        items[n++] = (PlanItem){.bytes = width, .first = f, .last = b};
        items[n++] = (PlanItem){.bytes = width * 2, .first = f, .last = f + 1};
        items[n++] = (PlanItem){.bytes = width, .first = b - 1, .last = b + 1 < end ? b + 1 : b};
        items[n++] = (PlanItem){.bytes = 1 + draw(2000), .first = b, .last = b};
        items[n++] = (PlanItem){.bytes = 0, .first = b, .last = b};
    }
    double r = pack(a, items, n);
    CHECK_MSG(r <= most, "%u layers: ratio %.4f", layers, r);
}

// -- whole entries --------------------------------------------------------------------------------

typedef struct Made {
    ProgEntry e;
    Arena *arena;
} Made;

static int32_t temp(Made *m, int64_t bytes)
{
    m->e.buffers[m->e.nbuffers] = (ProgBuffer){
        .name = arena_printf(m->arena, "t%d", m->e.nbuffers), .region = PR_ARENA, .bytes = bytes};
    return m->e.nbuffers++;
}

// reads, then writes; -1 ends each list
static ProgStep *step(Made *m, int depth, const int32_t *reads, const int32_t *writes)
{
    ProgStep *s = &m->e.steps[m->e.nsteps++];
    *s = (ProgStep){.kind = PS_KERNEL, .depth = depth, .name = "k"};
    s->args = NEW_ARRAY(m->arena, ProgArg, 16);
    for (; *reads >= 0; reads++)
        s->args[s->nargs++] = (ProgArg){.kind = PA_BUFFER, .index = *reads};
    for (; *writes >= 0; writes++)
        s->args[s->nargs++] = (ProgArg){.kind = PA_BUFFER, .index = *writes, .written = true};
    return s;
}
#define L(...) ((const int32_t[]){__VA_ARGS__ - 1})

static Made entry(Arena *a)
{
    Made m = {.arena = a};
    m.e.name = "e";
    m.e.buffers = NEW_ARRAY(a, ProgBuffer, 64);
    m.e.steps = NEW_ARRAY(a, ProgStep, 64);
    return m;
}

static void loops(Arena *a)
{
    Made m = entry(a);
    int32_t kept = temp(&m, 1000), carried = temp(&m, 2000), inner = temp(&m, 3000),
            later = temp(&m, 3000), stacked = temp(&m, 4096), next = temp(&m, 2000);
    step(&m, 0, L(), L(kept, ));
    step(&m, 0, L(), L(carried, ));
    ProgStep *loop = &m.e.steps[m.e.nsteps++];
    *loop =
        (ProgStep){.kind = PS_LOOP, .count = 4, .first_step = 3, .last_step = 7, .name = "loop"};
    step(&m, 1, L(carried, ), L(inner, ));
    step(&m, 1, L(inner, kept, ), L(later, ));
    step(&m, 1, L(later, ), L(next, stacked, ))->args[2].stride[0] = 1024;
    step(&m, 1, L(next, ), L(carried, ));
    step(&m, 0, L(stacked, carried, ), L());
    plan_memory(a, &m.e, false);
    CHECK(m.e.buffers[kept].last == 6);                                   // read in every iteration
    CHECK(m.e.buffers[inner].first == 3 && m.e.buffers[inner].last == 4); // new in every iteration
    CHECK(m.e.buffers[stacked].first == 2 &&
          m.e.buffers[stacked].last == 7); // filled slice by slice
    const char *wrong = plan_verify(a, &m.e);
    CHECK_MSG(!wrong, "%s", wrong);
    // `carried` keeps nothing from step 3, which reads it, to step 6, which writes it anew.
    CHECK(m.e.peak_bytes == 1024 + 3072 + 3072 + 4096 && m.e.arena_bytes == m.e.peak_bytes);

    // A plan that forgets that the loop comes round again must be found out.
    m.e.buffers[later].offset = m.e.buffers[kept].offset;
    CHECK(plan_verify(a, &m.e) != NULL);
    plan_memory(a, &m.e, true);
    CHECK(plan_verify(a, &m.e) == NULL);
    CHECK(m.e.arena_bytes == 1024 + 2048 + 3072 + 3072 + 4096 + 2048);
}

// A carried value in a stack of one slice more: it begins before the loop, and is never idle.
static void carried_in_stack(Arena *a)
{
    Made m = entry(a);
    int32_t stack = temp(&m, 5 * 1024), inner = temp(&m, 1024);
    ProgStep *zero = step(&m, 0, L(), L(stack, ));
    zero->kind = PS_ZERO;
    zero->bytes = 1024;
    ProgStep *loop = &m.e.steps[m.e.nsteps++];
    *loop =
        (ProgStep){.kind = PS_LOOP, .count = 4, .first_step = 2, .last_step = 4, .name = "loop"};
    step(&m, 1, L(stack, ), L(inner, ))->args[0].stride[0] = 1024;
    ProgStep *next = step(&m, 1, L(inner, ), L(stack, ));
    next->args[1].stride[0] = next->args[1].value = 1024;
    step(&m, 0, L(stack, ), L());
    plan_memory(a, &m.e, false);
    CHECK(m.e.buffers[stack].first == 0 && m.e.buffers[stack].last == 4);
    CHECK(plan_verify(a, &m.e) == NULL);
    CHECK(m.e.peak_bytes == 6 * 1024 && m.e.arena_bytes == m.e.peak_bytes);
    m.e.buffers[inner].offset = m.e.buffers[stack].offset + 4 * 1024;
    CHECK(plan_verify(a, &m.e) != NULL);

    // One slice is written again after the loop: the others are still wanted.
    m = entry(a);
    stack = temp(&m, 5 * 1024), inner = temp(&m, 1024);
    step(&m, 0, L(), L(stack, ));
    step(&m, 0, L(), L(inner, ));
    step(&m, 0, L(inner, ), L());
    zero = step(&m, 0, L(), L(stack, ));
    zero->kind = PS_ZERO;
    zero->bytes = 1024;
    step(&m, 0, L(stack, ), L());
    plan_memory(a, &m.e, false);
    CHECK(m.e.arena_bytes == 6 * 1024);
}

static void wrong_plans(Arena *a)
{
    Made m = entry(a);
    int32_t x = temp(&m, 512), y = temp(&m, 512), z = temp(&m, 512);
    step(&m, 0, L(), L(x, ));
    step(&m, 0, L(x, ), L(y, ));
    step(&m, 0, L(x, y, ), L(z, ));
    step(&m, 0, L(z, ), L());
    plan_memory(a, &m.e, false);
    CHECK(plan_verify(a, &m.e) == NULL);
    CHECK(m.e.arena_bytes == 3 * 512 && m.e.peak_bytes == 3 * 512);
    int64_t right = m.e.buffers[y].offset;
    m.e.buffers[y].offset = m.e.buffers[x].offset; // written over what step 2 still reads
    CHECK(plan_verify(a, &m.e) != NULL);
    m.e.buffers[y].offset = right;
    m.e.buffers[z].offset = m.e.buffers[x].offset + 256; // half over an argument of its own step
    CHECK(plan_verify(a, &m.e) != NULL);
    m.e.buffers[z].offset = m.e.arena_bytes - 256; // outside
    CHECK(plan_verify(a, &m.e) != NULL);

    Made u = entry(a); // read before written
    int32_t w = temp(&u, 512);
    step(&u, 0, L(w, ), L());
    plan_memory(a, &u.e, false);
    CHECK(plan_verify(a, &u.e) != NULL);
}

int main(void)
{
    Arena *a = arena_new();
    jmp_buf oom;
    if (setjmp(oom)) return 2;
    arena_on_oom(a, &oom);
    random_lives(a);
    training(a, 12, 1.02);
    training(a, 100, 1.02);
    training(a, 1000, 1.02);
    training(a, 20000, 1.05); // 100,000 blocks
    loops(a);
    carried_in_stack(a);
    wrong_plans(a);
    arena_free(a);
    return unit_done();
}
