// Rewrites of bodies that are the same for all targets: each finds a form that costs less and
// records it in the body, so that no printer has to look for it. They run after scheduling and
// before printing; the identities of bodies (identity.c) do not change.
#ifndef CODEGEN_REWRITE_H
#define CODEGEN_REWRITE_H

#include "codegen/ir/body.h"

// online.c: if one stage computes only the maximum m of x along the columns, and the next only sums
// of exp(x - m), these become sums of the first stage (Inst.under): code that computes them scales
// them as the maximum grows. Requires: stages have their numbers. Keeps: every value, sums within
// rounding; the order of everything else. Breaks: nothing; there is one stage less for each
// maximum. NULL: there is none.
Body *body_join_online(Arena *a, const Body *b);

// picks.c: marks comparisons of the column's number with an integer of the row (Inst.once): they
// hold for at most one column. Keeps, breaks: nothing is changed.
void body_mark_picks(Body *b);

// skips.c: loads that are used only by a select whose condition is known first get this condition
// as their predicate, if it is the same for neighbours in memory. Requires: nothing; it runs before
// a schedule is made. Keeps: every value that is used. Breaks: nothing.
void body_mark_skips(Arena *a, Body *b);

// choices.c: marks loads of which at most one is needed in each row (Inst.choice). Requires:
// nothing; it runs before a schedule is made. Keeps, breaks: nothing is changed.
void body_mark_choices(Arena *a, Body *b);

// quotients.c: marks divisions of floats for which a reciprocal can be computed once
// (Inst.quotient). Keeps, breaks: nothing is changed; a target without cheaper forms divides.
void body_mark_quotients(Body *b);

// rounding.c: values that are rounded to 16-bit floats and read only by selections among such
// values (the larger one, one of two by a condition), by signs and by stores of that type are not
// rounded before these. For targets that convert one value at a time. Keeps: every bit that is
// stored. Breaks: instructions of these types may have more digits.
void body_round_late(Arena *a, Body *b);

#endif
