// Knobs: the numbers of a schedule that can be chosen by hand or by measurement. A schedule as text
// is its kind and a word "name=value" for each knob. The head comment of a kernel, a line of a
// tuning file and `netc inspect --knobs` all use this form, and they know nothing but the table in
// knobs.c.
#ifndef CODEGEN_KNOBS_H
#define CODEGEN_KNOBS_H

#include "codegen/schedule/plans.h"

enum { KNOB_VALUES = 24 };

typedef struct Knob {
    const char *name, *doc;
    size_t at; // of the field in Schedule
    bool wide; // the field is an int64_t; otherwise an int
    // Values that are legal for this body while its other knobs stay as they are, in ascending
    // order, at most KNOB_VALUES; returns how many. 0: this body has no such knob.
    int (*legal)(const Body *b, const Target *t, int64_t *out);
    int64_t off;              // the value that is left out of the text
    bool reorders;            // the value determines in which order reductions add
    const char *const *words; // names of the values 0, 1, ...; NULL: numbers
} Knob;

extern const Knob knobs[]; // ended by a row without a name

int64_t knob_get(const Knob *k, const Body *b);
// Whether the body may have this value while its other knobs stay as they are.
bool knob_allows(const Knob *k, const Body *b, const Target *t, int64_t v);
// Sets these knobs and what follows from them; other knobs move to the nearest legal value.
void knobs_set(const Knob *const *k, const int64_t *v, int n, Body *b, const Target *t);

// -- schedule_text.c
void knob_value_text(const Knob *k, int64_t v, Buf *out);

const char *schedule_kind_name(ScheduleKind k);
// Knobs that have the value `off` are left out. whole: every knob that the body has.
const char *schedule_text(Arena *a, const Body *b, const Target *t, bool whole);
// Why the cost model chose the schedule (reason.c).
const char *schedule_reason(Arena *a, const Body *b, const Target *t);
// Applies the schedule that ctx->schedules has for this body, if any.
void schedule_override(LowerCtx *ctx, Body *b);

#endif
