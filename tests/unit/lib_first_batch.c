// What begins as something made of the inputs is made of the first that a host binds for training,
// in every session that shares it, and not again.
#include "tests/unit/api.h"

enum { ROWS = 4, WIDTH = 3 };

static const char text[] = "use optim\n"
                           "dim batch = 4\n"
                           "model net(x: f32[batch, 3]) {\n"
                           "    param top: f32[3] = max(x, 0)\n"
                           "    state twice: f32[3] = 2 * top\n"
                           "    return loss = mean(x * top), y = top + twice\n"
                           "}\n"
                           "train net {\n"
                           "    minimize loss\n"
                           "    update sgd(lr = 0)\n"
                           "}\n";

static netc_status bind(netc_session *s, const char *entry, const float *x)
{
    netc_error *err = NULL;
    netc_tensor t = floats((float *)(uintptr_t)x, 2, ROWS, WIDTH);
    FINE(netc_bind(s, entry, "x", &t, &err));
    netc_status status = netc_run(s, entry, 1, &err);
    CHECK((status == NETC_OK) == (err == NULL));
    CHECK(!err || strstr(netc_error_text(err), "'top' has no value yet"));
    netc_error_free(err);
    return status;
}

static void expect(netc_session *s, const float *top, float times)
{
    netc_error *err = NULL;
    float y[WIDTH] = {0};
    netc_tensor t = floats(y, 1, WIDTH, 0);
    FINE(netc_read(s, "net", "y", &t, &err));
    for (int i = 0; i < WIDTH; i++) CHECK(y[i] == times * top[i]);
}

static void test(void)
{
    static const float first[] = {1, 0, -4, 2, 5, -3, 0, -1, -2, -1, -1, -9}, top[] = {2, 5, -2};
    static const float second[ROWS * WIDTH] = {7, 7, 7};
    netc_error *err = NULL;
    netc_program *p = NULL;
    netc_session *s = NULL, *other = NULL;
    NETC_INIT(netc_session_options, o);
    FINE(netc_compile_text(ctx, "first.net", text, NULL, &p, &err));
    FINE(netc_session_create(p, "cpu", &o, &s, &err));
    o.share = s;
    FINE(netc_session_create(p, "cpu", &o, &other, &err));
    CHECK(bind(s, "net", first) == NETC_INVALID);
    CHECK(bind(other, "net", first) == NETC_INVALID);
    CHECK(bind(s, "train", first) == NETC_OK);
    CHECK(bind(other, "train", second) == NETC_OK);
    CHECK(bind(other, "net", second) == NETC_OK);
    expect(other, top, 3);
    netc_session_free(other);
    // Written by the host, it waits for nobody.
    FINE(netc_session_create(p, "cpu", NULL, &other, &err));
    netc_tensor t = floats((float *)(uintptr_t)second, 1, WIDTH, 0);
    FINE(netc_state_write(other, "top", &t, &err));
    CHECK(bind(other, "train", first) == NETC_OK);
    CHECK(bind(other, "net", first) == NETC_OK);
    expect(other, second, 1); // what follows a parameter follows files, not this
    netc_session_free(other);
    netc_session_free(s);
    netc_program_release(p);
}

int main(void)
{
    return api_main((void (*const[])(void)){test, NULL});
}
