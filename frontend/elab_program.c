// The train blocks of a file. Each is a program with a name; the chosen one provides the entries
// `train` and `eval`.
#include <string.h>

#include "base/names.h"
#include "frontend/elab.h"

bool program_of(Elab *e, const Stmt *train, TrainProgram *out)
{
    EFile *main = e->files.at[0];
    Global *g = global_find(e, main, train->name, train->name_span, true);
    if (g && g->stmt->kind == STMT_MODEL) {
        *out = (TrainProgram){train, g->stmt, g->file};
        return true;
    }
    const char **names = NEW_ARRAY(e->arena, const char *, main->ast->stmts.n);
    uint32_t n = 0;
    for (uint32_t k = 0; k < main->ast->stmts.n; k++)
        if (main->ast->stmts.at[k]->kind == STMT_MODEL) names[n++] = main->ast->stmts.at[k]->name;
    diag_span(e->diags, train->name_span, "there is no model '%s' to train%s", train->name,
              advise(train->name, names, n).text);
    return false;
}

const Stmt *program_evaluate(const Stmt *train)
{
    for (uint32_t i = 0; i < train->body->stmts.n; i++)
        if (train->body->stmts.at[i]->kind == STMT_EVALUATE) return train->body->stmts.at[i];
    return NULL;
}

bool program_choose(Elab *e, TrainProgram *out)
{
    const EFile *main = e->files.at[0];
    const char *asked = e->options->program;
    VEC(const char *) names = {0};
    StrMap known = strmap_new(e->arena);
    *out = (TrainProgram){0};
    for (uint32_t i = 0; i < main->ast->stmts.n; i++) {
        const Stmt *s = main->ast->stmts.at[i], *other = NULL;
        TrainProgram it;
        if (s->kind != STMT_TRAIN) continue;
        if ((other = strmap_get(&known, s->program))) {
            Diag *d = diag_span(e->diags, s->span, "two train blocks are called '%s'", s->program);
            diag_note_span(e->diags, d, other->span, "the first is here");
            diag_note(e->diags, d, "give each a name of its own: train %s as NAME { … }", s->name);
            return false;
        }
        strmap_set(&known, s->program, (void *)(uintptr_t)s);
        vec_push(e->arena, &names, s->program);
        if (!program_of(e, s, &it)) return false;
        if (asked ? !strcmp(asked, s->program) : !out->train) *out = it;
    }
    if (!asked || out->train) return true;
    if (names.n)
        diag_error(e->diags, 0, "%s has no train block '%s'%s", main->name, asked,
                   advise(asked, names.at, names.n).text);
    else
        diag_error(e->diags, 0, "%s has no train block, and so none called '%s'", main->name,
                   asked);
    return false;
}
