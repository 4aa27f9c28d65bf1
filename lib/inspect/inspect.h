// The parts of netc_inspect.
#ifndef LIB_INSPECT_H
#define LIB_INSPECT_H

#include "lib/inspect/items.h"
#include "lib/inspect/layers.h"

typedef struct Inspect {
    netc_program *p;
    Build *b, *other; // other: to be compared; otherwise NULL
    const netc_inspect_options *o;
    const char *note; // which target is shown, and why
    Arena *arena;
    netc_error **err;
    netc_status status;
    char *text;
} Inspect;

// The build to inspect: for the requested target, otherwise for what would run on this machine.
// note: which one, and why.
netc_status inspect_build(netc_program *p, const char *target, char *note, size_t n, Build **out,
                          netc_error **err);
// The entry with the layers of the trained model as it is evaluated. `eval` reads the states of an
// `evaluate with` in place of the parameters, so the model itself stands for it.
// (inspect/inspect_model.c)
const char *inspect_evaluated(const FileDecls *d);
// The layers of an entry, from its text.
netc_status inspect_layers(netc_program *p, Arena *a, const char *entry, const Entry **e,
                           const Layer **top, netc_error **err);
void layer_json(const Layer *l, Json *j);
netc_status inspect_compare(const Inspect *v, Buf *out); // inspect/inspect_compare.c
netc_status inspect_why(const Inspect *v, Buf *out);     // inspect/inspect_why.c
// inspect/inspect_cards.c
netc_status inspect_cards(const Inspect *v, Buf *out);
void inspect_cards_json(const Inspect *v, Json *j);
const char *grouped(Arena *a, int64_t n);               // "1,234,567"; inspect/inspect_model.c
netc_status inspect_model(const Inspect *v, Buf *out);  // inspect/inspect_model.c; needs no build
netc_status inspect_params(const Inspect *v, Buf *out); // inspect/inspect_params.c; needs no build

// Whether the options select this entry, and whether a selected entry runs this kernel or product.
bool inspect_shows(const Inspect *v, const char *entry);
bool inspect_runs(const Inspect *v, ProgStepKind kind, int index);

#endif
