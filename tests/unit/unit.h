// A unit test is a program: CHECK counts, TEST names what is checked, main ends with unit_done().
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <stdio.h>

static int unit_passed, unit_failed;

#define CHECK(cond)                                                                                \
    ((cond) ? (void)unit_passed++                                                                  \
            : (void)(unit_failed++, printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #cond)))
#define CHECK_MSG(cond, ...)                                                                       \
    ((cond) ? (void)unit_passed++                                                                  \
            : (void)(unit_failed++, printf("%s:%d: failed: ", __FILE__, __LINE__),                 \
                     printf(__VA_ARGS__), printf("\n")))

// Prints "N passed, N failed, 0 skipped" and returns the exit code.
static inline int unit_done(void)
{
    printf("%d passed, %d failed, 0 skipped\n", unit_passed, unit_failed);
    return unit_failed != 0;
}

#endif
