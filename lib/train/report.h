// What training reports to its user: the tables at its start and the watched statistics.
#ifndef LIB_REPORT_H
#define LIB_REPORT_H

#include "lib/train/train.h"

// The effective configuration and the memory by kind, as two tables. *text: malloc'ed.
netc_status training_report(const Run *run, char **text, netc_error **err);
// The names that the patterns match, each once; an error for the first pattern that matches
// nothing. *out: malloc'ed.
netc_status watch_names(netc_session *s, const ProgEntry *e, const char *const *patterns, int n,
                        const char ***out, int *nout, netc_error **err);
// mean, std, min, max and nonfinite of each watched parameter, state, or output or tap of the step
// that the build [l] ran last. *out: malloc'ed with names.
netc_status watch_metrics(netc_session *s, Loaded *l, const char *const *watch, int n,
                          netc_metric **out, int *nout, netc_error **err);

// loss_scale and skipped (number of steps), if the program scales its losses.
enum { SCALE_METRICS = 2 };
netc_status scale_metrics(netc_session *s, netc_metric out[SCALE_METRICS], int *n,
                          netc_error **err);

#endif
