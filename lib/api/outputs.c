// Selects outputs of an entry. When compiled from source, the other outputs are left out together
// with what only they need; code from a model.bin computes all of them, and the others are dropped.
#include <string.h>

#include "lib/lib.h"

static bool is_wanted(const Settings *s, const char *output)
{
    for (int i = 0; i < s->noutputs; i++)
        if (!strcmp(s->outputs[i], output)) return true;
    return false;
}

// The first requested output that is not among the names; or NULL.
static const char *unknown(const Settings *s, const char *const *names, size_t n)
{
    for (int i = 0; i < s->noutputs; i++) {
        bool found = false;
        for (size_t k = 0; k < n; k++) found = found || !strcmp(names[k], s->outputs[i]);
        if (!found) return s->outputs[i];
    }
    return NULL;
}

static bool no_such_entry(const Settings *s, Module *m)
{
    const char **names = NEW_ARRAY(m->arena, const char *, m->entries.n + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < m->entries.n; i++)
        if (m->entries.at[i].kind != ENTRY_INIT) names[n++] = m->entries.at[i].name;
    diag_error(m->diags, 0, "there is no entry '%s'%s", s->outputs_of,
               advise(s->outputs_of, names, n).text);
    return false;
}

bool outputs_entry(const Settings *s, const char *only, Module *m, Entry **out)
{
    Entry *e = NULL;
    int models = 0;
    for (uint32_t i = 0; i < m->entries.n; i++) {
        const char *name = m->entries.at[i].name;
        bool model = m->entries.at[i].kind == ENTRY_MODEL;
        models += model;
        if (s->outputs_of ? !strcmp(name, s->outputs_of) : model) e = &m->entries.at[i];
    }
    *out = NULL;
    if (s->outputs_of ? !e && *only : models != 1) return true;
    *out = e;
    return e || no_such_entry(s, m);
}

bool output_wanted(const Settings *s, const char *output)
{
    return !s->noutputs || is_wanted(s, output);
}

bool outputs_known(const Settings *s, Module *m, const Entry *e)
{
    const Graph *g = e->graph;
    const char **names = NEW_ARRAY(m->arena, const char *, g->roots.n);
    size_t n = 0;
    for (uint32_t i = 0; i < g->roots.n; i++)
        if (g->roots.at[i]->op == OP_output) names[n++] = attr_str(g->roots.at[i], ATTR_name);
    const char *missing = unknown(s, names, n);
    if (missing)
        diag_error(m->diags, 0, "'%s' has no output '%s'%s", e->name, missing,
                   advise(missing, names, n).text);
    return !missing;
}

bool outputs_keep(const Settings *s, const char *only, Module *m)
{
    Entry *e;
    if (!outputs_entry(s, only, m, &e)) return false;
    if (!e) return true;
    if (!outputs_known(s, m, e)) return false;
    Graph *g = e->graph;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->roots.n; i++) {
        Node *root = g->roots.at[i];
        if (root->op != OP_output || is_wanted(s, attr_str(root, ATTR_name)))
            g->roots.at[kept++] = root;
    }
    g->roots.n = kept;
    e->graph = graph_copy_live(g);
    return true;
}

netc_status outputs_keep_compiled(const netc_program *owner, Program *p, netc_error **err)
{
    const Settings *s = &owner->settings;
    ProgEntry *e = NULL;
    int models = 0;
    for (int i = 0; i < p->nentries; i++) {
        bool model = p->entries[i].kind == PK_MODEL;
        models += model;
        if (s->outputs_of ? !strcmp(p->entries[i].name, s->outputs_of) : model) e = &p->entries[i];
    }
    if (!s->noutputs || (!s->outputs_of && models != 1)) return NETC_OK;
    if (!e) return no_entry(owner, p, s->outputs_of, err);
    const char **names = NEW_ARRAY(p->arena, const char *, e->noutputs + 1);
    bool *wanted = NEW_ARRAY(p->arena, bool, e->noutputs + 1);
    for (int i = 0; i < e->noutputs; i++) {
        names[i] = e->outputs[i].name;
        wanted[i] = is_wanted(s, names[i]);
    }
    const char *missing = unknown(s, names, (size_t)e->noutputs);
    if (missing) return no_output(e, missing, err);
    program_keep(p, e, wanted);
    return NETC_OK;
}
