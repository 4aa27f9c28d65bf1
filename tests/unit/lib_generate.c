// Tokens drawn from logits as they are said to be; texts of a session, whose states stay as they
// were.
#include <math.h>

#include "lib/generate/draw.h"
#include "tests/unit/api.h"

enum { TOKENS = 5, DRAWS = 40000 };
static const float logits[TOKENS] = {1, -INFINITY, 2.5f, 0, 2};

static void frequencies(const Draw *d, double *out)
{
    Candidate work[TOKENS];
    for (int i = 0; i < TOKENS; i++) out[i] = 0;
    for (int i = 0; i < DRAWS; i++) {
        int64_t t = draw_token(d, PD_F32, logits, TOKENS, i % 7, i, work);
        CHECK(t >= 0 && t < TOKENS);
        if (t >= 0 && t < TOKENS) out[t] += 1.0 / DRAWS;
    }
}

// Five standard deviations of a frequency.
static bool near(double have, double want)
{
    return fabs(have - want) <= 5 * sqrt(want * (1 - want) / DRAWS);
}

static void test_draws(void)
{
    static const double temperatures[] = {0.5, 1, 3};
    double f[TOKENS], sum;
    for (int k = 0; k < 3; k++) {
        Draw d = {.temperature = temperatures[k], .seed = 9};
        frequencies(&d, f);
        sum = 0;
        for (int i = 0; i < TOKENS; i++) sum += exp(logits[i] / d.temperature);
        for (int i = 0; i < TOKENS; i++) CHECK(near(f[i], exp(logits[i] / d.temperature) / sum));
    }
    // The two largest; the fewest that reach 0.9 of the probability, which are three.
    Draw two = {.temperature = 1, .top_k = 2}, nucleus = {.temperature = 1, .top_p = 0.9};
    frequencies(&two, f);
    sum = exp(2.5) + exp(2);
    CHECK(near(f[2], exp(2.5) / sum) && near(f[4], exp(2) / sum) && !f[0] && !f[3]);
    frequencies(&nucleus, f);
    sum += exp(1);
    CHECK(near(f[2], exp(2.5) / sum) && near(f[4], exp(2) / sum) && near(f[0], exp(1) / sum) &&
          !f[3]);
    // What was said: positive logits divided, negative ones multiplied.
    const float signs[3] = {2, 1.9f, -1};
    const bool said[3] = {true, false, true};
    Candidate three[3];
    Draw less = {.penalty = 1.2, .said = said},
         warm = {.temperature = 1, .penalty = 2, .said = said};
    CHECK(draw_token(&less, PD_F32, signs, 3, 0, 0, three) == 1);
    double often[3] = {0};
    for (int i = 0; i < DRAWS; i++)
        often[draw_token(&warm, PD_F32, signs, 3, 0, i, three)] += 1.0 / DRAWS;
    sum = exp(1) + exp(1.9) + exp(-2);
    CHECK(near(often[0], exp(1) / sum) && near(often[1], exp(1.9) / sum) &&
          near(often[2], exp(-2) / sum));
    // The first of equals; nothing to draw.
    const float equal[3] = {1, 4, 4}, none[2] = {-INFINITY, -INFINITY}, bad[2] = {0, NAN};
    const uint16_t half[3] = {0x3f80, 0xc000, 0x4000}; // bf16: 1, -2, 2
    Candidate work[3];
    Draw top = {0}, one = {.temperature = 1};
    CHECK(draw_token(&top, PD_F32, equal, 3, 0, 0, work) == 1);
    CHECK(draw_token(&top, PD_BF16, half, 3, 0, 0, work) == 2);
    CHECK(draw_token(&top, PD_F32, none, 2, 0, 0, work) == -1);
    CHECK(draw_token(&one, PD_F32, none, 2, 0, 0, work) == -1);
    CHECK(draw_token(&one, PD_F32, bad, 2, 0, 0, work) == -1);
}

// Counts the tokens it has seen; what follows token t is t + 1, and in the third place 0.
static const char counting[] =
    "dim texts = 2\n"
    "model next(token: i32[texts, 1] in 0..8) {\n"
    "    state seen: i32[] = 0\n"
    "    seen <- seen + 1\n"
    "    wanted = where(seen == 3, 0, (token + 1) % 8)\n"
    "    return logits = cast(where(wanted == expand(iota(8), 0), 1, 0), f32)\n"
    "}\n";

typedef struct Told {
    int n[2], token[2][16];
    int most; // of text 1
} Told;

static bool told(void *user, int64_t row, int64_t token)
{
    Told *t = user;
    t->token[row][t->n[row]++] = (int)token;
    return row == 0 || t->n[1] < t->most;
}

static void test_texts(void)
{
    static const int want[] = {0, 1, 2, 3, 4};
    netc_program *p = compiled(counting);
    netc_session *s = opened(p, 0, NULL);
    netc_error *err = NULL;
    const int32_t prompt[] = {3, 5, 6}, wrong[] = {3, 8};
    NETC_INIT(netc_generate_options, o);
    o.prompt = prompt, o.nprompt = 3, o.length = 5;
    for (int round = 0; round < 2; round++) { // what is counted begins at 0 again
        Told t = {.most = 2};
        o.token = told, o.user = &t;
        FINE(netc_generate(s, &o, &err));
        CHECK(t.n[0] == 5 && t.n[1] == 2);
        for (int i = 0; i < 5; i++) CHECK(t.token[0][i] == want[i]);
        CHECK(t.token[1][0] == 0 && t.token[1][1] == 1);
    }
    int32_t seen = 7;
    netc_tensor state = {.dtype = NETC_I32, .data = &seen};
    FINE(netc_state_read(s, "seen", &state, &err));
    CHECK(seen == 0);
    o.token = NULL;
    FINE(netc_generate(s, &o, &err));
    o.prompt = wrong, o.nprompt = 2;
    REFUSED(NETC_INVALID, "token 2 of the prompt is 8", netc_generate(s, &o, &err));
    o.nprompt = 0;
    REFUSED(NETC_INVALID, "the prompt is empty", netc_generate(s, &o, &err));
    o.prompt = prompt, o.nprompt = 3, o.temperature = NAN;
    REFUSED(NETC_INVALID, "the temperature", netc_generate(s, &o, &err));
    REFUSED(NETC_INVALID, "the prompt is empty", netc_generate(s, NULL, &err));
    netc_session_free(s);
    netc_program_release(p);
}

// How many pieces and single tokens a prompt is: logits of `next` say.
static const char counted[] =
    "model next(token: i32[1, 1] in 0..64) {\n"
    "    state one: i32[] = 0\n"
    "    state many: i32[] = 0\n"
    "    one <- one + where(sum(token) >= 0, 1, 9)\n"
    "    return logits = cast(expand(many * 8 + one == iota(64), 0), f32)\n"
    "}\n"
    "model prefill(token: i32[1, 3] in 0..64) {\n"
    "    state one: i32[] = 0\n"
    "    state many: i32[] = 0\n"
    "    one <- one + where(sum(token) >= 0, 0, 9)\n"
    "    many <- many + 1\n"
    "    return total = sum(token)\n"
    "}\n";

static void test_pieces(void)
{
    netc_program *p = compiled(counted);
    netc_session *s = opened(p, 0, NULL);
    netc_error *err = NULL;
    const int32_t prompt[] = {1, 2, 3, 4, 5, 6, 7};
    // The last token goes through next: its logits are wanted.
    static const int want[][2] = {{1, 1}, {3, 3}, {4, 8 + 1}, {6, 8 + 3}, {7, 2 * 8 + 1}};
    for (int i = 0; i < 5; i++)
        for (int without = 0; without < 2; without++) {
            Told t = {.most = 2};
            NETC_INIT(netc_generate_options, o);
            o.prompt = prompt, o.nprompt = want[i][0], o.length = 1;
            o.token = told, o.user = &t;
            o.prefill = without ? "" : NULL;
            FINE(netc_generate(s, &o, &err));
            CHECK(t.n[0] == 1 && t.token[0][0] == (without ? want[i][0] : want[i][1]));
        }
    int32_t many = 7;
    netc_tensor state = {.dtype = NETC_I32, .data = &many};
    FINE(netc_state_read(s, "many", &state, &err));
    CHECK(many == 0); // put back
    netc_session_free(s);
    netc_program_release(p);
}

int main(void)
{
    static void (*const tests[])(void) = {test_draws, test_texts, test_pieces, NULL};
    return api_main(tests);
}
