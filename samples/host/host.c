// A host program that compiles a network from text at run time, feeds it arrays, trains it and
// reads the loss: no files, no Python.
//
//     cc host.c $(pkg-config --cflags --libs netc) -lm -o host && ./host
//
// Expected: the loss falls below 0.01 and the last line reads "learnt: 512 of 512 points" (a few
// less with another seed). It fits y = sign of a spiral, two features a point.
#include <netc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char source[] =
    "use nn\n"
    "use optim\n"
    "dim batch = 512\n"
    "model spiral(x: f32[batch, 2], side: u8[batch] in 0..2) {\n"
    "    h = tanh(linear(x, 64) as fc1)\n"
    "    h = tanh(linear(h, 64) as fc2)\n"
    "    logits = linear(h, 2) as fc3\n"
    "    return loss = cross_entropy(logits, side),\n"
    "           right = sum(cast(argmax(logits) == cast(side, i32), i32))\n"
    "}\n"
    "train spiral {\n"
    "    minimize loss\n"
    "    update adamw(lr = 0.01)\n"
    "}\n";

enum { POINTS = 512 };

static int give_up(netc_error *err)
{
    fprintf(stderr, "%s\n", netc_error_text(err));
    int code = netc_error_status(err) == NETC_INVALID ? 1 : 2;
    netc_error_free(err);
    return code;
}

int main(int argc, char **argv)
{
    static float x[POINTS][2];
    static uint8_t side[POINTS];
    for (int i = 0; i < POINTS; i++) {
        side[i] = i % 2;
        float t = 0.5f + 5.5f * (float)(i / 2) / (POINTS / 2), a = t + 3.14159265f * side[i];
        x[i][0] = t / 6 * cosf(a);
        x[i][1] = t / 6 * sinf(a);
    }

    netc_context *ctx = NULL;
    netc_program *program = NULL;
    netc_session *session = NULL;
    netc_error *err = NULL;
    if (netc_context_create(NULL, &ctx, &err) ||
        netc_compile_text(ctx, "spiral.net", source, NULL, &program, &err) ||
        netc_session_create(program, argc > 1 ? argv[1] : "auto", NULL, &session, &err))
        return give_up(err);
    printf("running on %s\n", netc_session_device(session));

    netc_tensor tx = {.dtype = NETC_F32, .rank = 2, .dim = {POINTS, 2}, .data = x};
    netc_tensor ts = {.dtype = NETC_U8, .rank = 1, .dim = {POINTS}, .data = side};
    if (netc_bind(session, "train", "x", &tx, &err) ||
        netc_bind(session, "train", "side", &ts, &err))
        return give_up(err);

    float loss = 0;
    int64_t right = 0;
    netc_tensor tl = {.dtype = NETC_F32, .data = &loss}, tr = {.dtype = NETC_I64, .data = &right};
    for (int i = 0; i < 10; i++) {
        if (netc_run(session, "train", 100, &err) ||
            netc_read(session, "train", "loss", &tl, &err) ||
            netc_read(session, "train", "right", &tr, &err))
            return give_up(err);
        printf("step %4d  loss %.5f\n", (i + 1) * 100, loss);
    }
    printf("learnt: %d of %d points\n", (int)right, POINTS);

    netc_session_free(session);
    netc_program_release(program);
    netc_context_free(ctx);
    return right > POINTS * 9 / 10 ? 0 : 1;
}
