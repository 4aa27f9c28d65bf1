// Result files: JSON lines, one measurement a line, as netc bench and bench/*.sh write them.
#ifndef CLI_RESULTS_H
#define CLI_RESULTS_H

#include "base/json.h"
#include "cli/cli.h"

typedef struct Result {
    const char *what, *unit, *precision, *peer, *hardware; // "" where the line has none
    double value;
    double low, high; // quartiles; equal to value where the line has none
    bool spread;      // it has
} Result;

typedef struct Results {
    VEC(Result) rows; // the last line of each key: a file may have been appended to
} Results;

// false: said what is wrong (a file that cannot be read, a line that is no JSON or no result).
bool results_read(Arena *a, const char *path, Results *out);
const Result *results_find(const Results *r, const Result *like); // same key; NULL: absent

typedef enum Verdict { SAME, FASTER, SLOWER, CHANGED } Verdict; // CHANGED: a number of no direction
// *ratio: how many times better b is than a; 1 where nothing says what better is.
// Outside the spread: the ranges between the quartiles do not overlap and the values differ by more
// than [least]; where a line has no quartiles, by more than 2.5 times that.
Verdict results_judge(const Result *a, const Result *b, double least, double *ratio);

int compare_results(const char *first, const char *second, double least, bool json);

#endif
