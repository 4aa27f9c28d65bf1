// What the tests of the public interface share: a context, a model, and calls that must succeed or
// be refused.
#ifndef TESTS_UNIT_API_H
#define TESTS_UNIT_API_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/netc.h"
#include "tests/unit/unit.h"

static const char model[] __attribute__((unused)) =
    "use nn\n"
    "use optim\n"
    "dim batch = 8\n"
    "setting rate = 0.1\n"
    "model line(x: f32[batch, 3], t: f32[batch]) {\n"
    "    y = reshape(linear(x, 1) as fc, [batch])\n"
    "    return loss = mean((y - t) * (y - t)), y\n"
    "}\n"
    "train line {\n"
    "    minimize loss\n"
    "    update sgd(lr = rate, momentum = 0.9)\n"
    "}\n";

static netc_context *ctx;
static char dir[64];

static inline const char *file(const char *name)
{
    static char path[8][128];
    static int turn;
    char *out = path[turn++ % 8];
    snprintf(out, sizeof path[0], "%s/%s", dir, name);
    return out;
}

// The call succeeded; its error is printed when not.
static inline bool fine(netc_status status, netc_error **err)
{
    if (status != NETC_OK) printf("unexpected: %s\n", netc_error_text(*err));
    netc_error_free(*err);
    *err = NULL;
    return status == NETC_OK;
}

// The call failed with this status and its text holds these words.
static inline bool refused(netc_status status, netc_status wanted, netc_error **err,
                           const char *words)
{
    const char *text = netc_error_text(*err), *json = netc_error_json(*err);
    bool ok = status == wanted && *err && netc_error_status(*err) == wanted &&
              strstr(text, words) && json[0] == '[' && strstr(json, "\"message\"") &&
              *netc_error_colored(*err);
    if (!ok) printf("status %d, wanted %d with '%s': %s\n", (int)status, (int)wanted, words, text);
    netc_error_free(*err);
    *err = NULL;
    return ok;
}

#define FINE(call)                   CHECK(fine((call), &err))
#define REFUSED(status, words, call) CHECK(refused((call), (status), &err, (words)))

static inline netc_program *compiled(const char *text)
{
    netc_program *p = NULL;
    netc_error *err = NULL;
    FINE(netc_compile_text(ctx, "line.net", text, NULL, &p, &err));
    return p;
}

static inline netc_session *opened(netc_program *p, int64_t seed, netc_session *share)
{
    NETC_INIT(netc_session_options, o);
    netc_session *s = NULL;
    netc_error *err = NULL;
    o.seed = seed;
    o.share = share;
    FINE(netc_session_create(p, "cpu", &o, &s, &err));
    return s;
}

typedef struct Points { // y = 1 x0 + 2 x1 - 3 x2 + 0.5
    float x[40][3], t[40];
} Points;

static inline void draw(Points *p)
{
    unsigned state = 7;
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 3; k++)
            p->x[i][k] = (float)((state = state * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1;
        p->t[i] = p->x[i][0] + 2 * p->x[i][1] - 3 * p->x[i][2] + 0.5f;
    }
}

static inline netc_tensor floats(void *data, int rank, int64_t a, int64_t b)
{
    return (netc_tensor){.dtype = NETC_F32, .rank = rank, .dim = {a, b}, .data = data};
}

static inline void bind_points(netc_session *s, const char *entry, Points *p)
{
    netc_error *err = NULL;
    netc_tensor x = floats(p->x, 2, 8, 3), t = floats(p->t, 1, 8, 0);
    FINE(netc_bind(s, entry, "x", &x, &err));
    FINE(netc_bind(s, entry, "t", &t, &err));
}

static inline float loss_of(netc_session *s, const char *entry)
{
    float loss = -1;
    netc_error *err = NULL;
    netc_tensor t = floats(&loss, 0, 0, 0);
    FINE(netc_read(s, entry, "loss", &t, &err));
    return loss;
}

// Runs the tests with a context and a folder of their own.
static inline int api_main(void (*const *tests)(void))
{
    snprintf(dir, sizeof dir, "/tmp/netc_api.XXXXXX");
    if (!mkdtemp(dir)) return perror(dir), 1;
    netc_error *err = NULL;
    FINE(netc_context_create(NULL, &ctx, &err));
    for (; *tests; tests++) (*tests)();
    netc_context_free(ctx);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command)) printf("cannot remove %s\n", dir);
    return unit_done();
}

#endif
