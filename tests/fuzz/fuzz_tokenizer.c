// Any bytes as a tokenizer's file: a tokenizer.json, a merges.txt (beside a vocabulary) or ranks,
// as the first byte says. What can be opened makes tokens of the bytes themselves, which come back.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "include/netc.h"

static const char vocab[] =
    "{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4,\"\\u0120\":5,\"\\u0120a\":6}";

static bool put(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(bytes, 1, n, f) == n;
    return f && !fclose(f) && ok;
}

static void round_trip(const netc_tokenizer *t, const uint8_t *data, size_t n)
{
    int32_t *tokens = NULL;
    int64_t count;
    netc_error *err = NULL;
    size_t at = 0;
    if (netc_tokenizer_encode(t, (const char *)data, n, n & 1, &tokens, &count, &err) == NETC_OK) {
        for (int64_t i = 0; i < count; i++) {
            const char *bytes;
            size_t k;
            if (!netc_tokenizer_text(t, tokens[i], &bytes, &k)) abort();
            if (!at && !i && k && *bytes == ' ' && n && *data != ' ')
                bytes++, k--; // add_prefix_space
            at += k;
        }
        if (at < n) abort();
    } else if (!netc_error_text(err)[0]) {
        abort();
    }
    netc_free(tokens);
    netc_error_free(err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static char dir[64], path[3][128];
    static const char *const names[] = {"tokenizer.json", "merges.txt", "x.tiktoken"};
    if (n < 1) return 0;
    if (!dir[0]) {
        snprintf(dir, sizeof dir, "/dev/shm/netc-fuzz-%d", (int)getpid());
        mkdir(dir, 0700);
        for (int i = 0; i < 3; i++) snprintf(path[i], sizeof path[i], "%s/%s", dir, names[i]);
        char other[128];
        snprintf(other, sizeof other, "%s/vocab.json", dir);
        if (!put(other, vocab, sizeof vocab - 1)) abort();
    }
    int how = data[0] % 3;
    NETC_INIT(netc_tokenizer_options, o);
    o.pattern = "llama3";
    netc_tokenizer *t = NULL;
    netc_error *err = NULL;
    if (!put(path[how], data + 1, n - 1)) return 0;
    if (netc_tokenizer_open(path[how], &o, &t, &err) == NETC_OK)
        round_trip(t, data, n);
    else if (!netc_error_text(err)[0])
        abort();
    netc_error_free(err);
    netc_tokenizer_free(t);
    return 0;
}
