// The names in a survey: finds the definition of every use of a name from the syntax tree alone, so
// that code which no entry reaches is covered, too. All assignments to a name in a function define
// one variable, which includes arguments and loop variables. After a syntax error the tree has
// holes.
#include <string.h>

#include "base/plain.h"
#include "frontend/elab.h"
#include "frontend/elab_survey.h"

typedef struct Pending { // a name that was not defined when it was found
    const Expr *x;
    uint32_t flags;
} Pending;

typedef struct Body {
    Elab *e;
    Survey *s;
    EFile *file;
    uint32_t owner; // 1 + the declaration it is in
    bool model;
    StrMap vars;    // name -> 1 + declaration
    StrMap outputs; // of a train block: outputs of its model
    VEC(Pending) pending;
} Body;

static void expr(Body *b, const Expr *x);
static void block(Body *b, const Block *x);

static void use(Body *b, Span span, uint32_t decl, uint32_t flags)
{
    vec_push(b->s->arena, &b->s->uses, (Use){span, decl, flags});
}

static uint32_t declare(Survey *s, Decl d)
{
    vec_push(s->arena, &s->decls, d);
    return s->decls.n - 1;
}

static uint32_t number(const StrMap *m, const char *name)
{
    return (uint32_t)(uintptr_t)strmap_get(m, name);
}

static void remember(StrMap *m, const char *name, uint32_t decl)
{
    strmap_set(m, name, (void *)(uintptr_t)(decl + 1));
}

// A value is assigned to the name at the span. The first time, this declares the name.
static void define(Body *b, DeclKind kind, const char *name, Span span, Span whole)
{
    if (!name || !strcmp(name, "_")) return;
    uint32_t known = number(&b->vars, name);
    if (!known) {
        remember(&b->vars, name, declare(b->s, (Decl){kind, name, span, whole, b->owner, 0, 0}));
        known = number(&b->vars, name);
    }
    use(b, span, known - 1, USE_WRITE);
}

// -- names in expressions -------------------------------------------------------------------------
static bool global_use(Body *b, const char *name, Span span, uint32_t flags)
{
    Global *g = global_find(b->e, b->file, name, span, false);
    if (!g) return false;
    use(b, span, survey_decl_of(b->s, g->stmt) - 1, flags);
    return true;
}

static void name(Body *b, const Expr *x, uint32_t flags)
{
    if (!x->text) return;
    uint32_t local = number(&b->vars, x->text);
    if (local) {
        use(b, x->span, local - 1, flags);
    } else if (!global_use(b, x->text, x->span, flags)) {
        uint32_t output = number(&b->outputs, x->text);
        if (output)
            use(b, x->span, output - 1, flags);
        else
            vec_push(b->s->arena, &b->pending, (Pending){x, flags});
    }
}

static void items(Body *b, const Item *at, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (at[i].value) expr(b, at[i].value);
}

static void scope(Body *b, const ScopeName *s)
{
    for (uint32_t i = 0; s && i < s->parts.n; i++)
        if (s->parts.at[i].index) expr(b, s->parts.at[i].index);
}

// The function that is called, if it is known by name; otherwise NULL.
static const Stmt *callee(Body *b, const Expr *x)
{
    if (!x) return NULL;
    Global *g = NULL;
    if (x->kind == EXPR_NAME && !number(&b->vars, x->text))
        g = global_find(b->e, b->file, x->text, x->span, false);
    if (x->kind == EXPR_MEMBER && x->a && x->a->kind == EXPR_NAME && !number(&b->vars, x->a->text))
        for (uint32_t i = 0; i < b->file->uses.n; i++)
            if (!strcmp(b->file->uses.at[i]->name, x->a->text))
                g = strmap_get(&b->file->uses.at[i]->globals, x->text);
    return g && (g->stmt->kind == STMT_FN || g->stmt->kind == STMT_MODEL) ? g->stmt : NULL;
}

static void call(Body *b, const Expr *x)
{
    const Stmt *fn = callee(b, x->a);
    uint32_t decl = fn ? survey_decl_of(b->s, fn) : 0;
    expr(b, x->a);
    for (uint32_t i = 0; i < x->items.n; i++) {
        const Item *item = &x->items.at[i];
        for (uint32_t k = 0; decl && item->name && k < fn->params.n; k++)
            if (!strcmp(fn->params.at[k].name, item->name))
                use(b, item->name_span, decl + k, USE_ARGUMENT); // arguments follow their function
                                                                 // in the list
        if (item->value) expr(b, item->value);
    }
    for (uint32_t i = 0; i < x->regions.n; i++) block(b, x->regions.at[i]);
}

// Records the use in MODEL(…).loss, where MODEL is a model of the same file.
static void result_use(Body *b, const Expr *x)
{
    const Expr *call = x->a;
    while (call && (call->kind == EXPR_AS || call->kind == EXPR_REUSE || call->kind == EXPR_WITH))
        call = call->a;
    const Stmt *model = call && call->kind == EXPR_CALL ? callee(b, call->a) : NULL;
    uint32_t owner = model && model->kind == STMT_MODEL ? survey_decl_of(b->s, model) : 0;
    for (uint32_t i = 0; owner && i < b->s->decls.n; i++) {
        const Decl *d = &b->s->decls.at[i];
        if (d->kind == DECL_OUTPUT && d->owner == owner && !strcmp(d->name, x->text))
            use(b, x->op_span, i, 0);
    }
}

static void member(Body *b, const Expr *x)
{
    result_use(b, x);
    if (x->a && x->a->kind == EXPR_NAME && !number(&b->vars, x->a->text))
        for (uint32_t i = 0; i < b->file->uses.n; i++) {
            EFile *u = b->file->uses.at[i];
            Global *g = strcmp(u->name, x->a->text) ? NULL : strmap_get(&u->globals, x->text);
            if (!g) continue;
            use(b, x->op_span, survey_decl_of(b->s, g->stmt) - 1, 0);
            return;
        }
    expr(b, x->a);
}

static void expr(Body *b, const Expr *x)
{
    for (; x; x = x->a) { // iterates, since chains may be long
        switch (x->kind) {
        case EXPR_NAME: name(b, x, 0); return;
        case EXPR_MEMBER: member(b, x); return;
        case EXPR_CALL: call(b, x); return;
        case EXPR_RANGE:
        case EXPR_SLICE:
            if (x->lo) expr(b, x->lo);
            if (x->hi) expr(b, x->hi);
            if (x->step) expr(b, x->step);
            break;
        case EXPR_INDEX:
        case EXPR_LIST:
        case EXPR_TUPLE: items(b, x->items.at, x->items.n); break;
        case EXPR_AS:
        case EXPR_REUSE: scope(b, x->scope); break;
        default: break;
        }
        if (x->b) expr(b, x->b);
        if (x->c) expr(b, x->c);
    }
}

// -- statements -----------------------------------------------------------------------------------
// sizes: an unknown name in the type is defined here, as the size of the argument's axis.
static void type(Body *b, const TypeExpr *t, bool sizes)
{
    if (!t) return;
    if (t->dtype) {
        Span span = {t->span.source, t->span.begin, t->span.begin + (uint32_t)strlen(t->dtype)};
        uint32_t local = number(&b->vars, t->dtype);
        if (local) use(b, span, local - 1, 0);
    }
    for (uint32_t i = 0; i < t->dims.n; i++) {
        const Expr *x = t->dims.at[i];
        if (sizes && x->kind == EXPR_NAME && !number(&b->vars, x->text) &&
            !global_find(b->e, b->file, x->text, x->span, false))
            define(b, DECL_LOCAL, x->text, x->span, x->span);
        else
            expr(b, x);
    }
    if (t->low) expr(b, t->low);
    if (t->high) expr(b, t->high);
}

// Defines the arguments, whose declarations follow that of their function.
static void arguments(Body *b, const Stmt *s)
{
    uint32_t fn = survey_decl_of(b->s, s);
    for (uint32_t i = 0; fn && i < s->params.n; i++) {
        const Param *p = &s->params.at[i];
        if (p->type) type(b, p->type, s->kind == STMT_FN);
        if (p->otherwise) expr(b, p->otherwise);
        remember(&b->vars, p->name, fn + i);
        use(b, p->span, fn + i, USE_WRITE);
    }
    for (uint32_t i = 0; i < s->gparams.n; i++)
        define(b, DECL_ARGUMENT, s->gparams.at[i].name, s->gparams.at[i].span,
               s->gparams.at[i].span);
}

static void returned(Body *b, const Stmt *s)
{
    for (uint32_t i = 0; i < s->items.n; i++) {
        const Item *item = &s->items.at[i];
        if (!item->value) continue;
        bool alone = !item->name && item->value->kind == EXPR_NAME;
        if (b->model && (item->name || alone)) {
            Span span = item->name ? item->name_span : item->value->span;
            const char *name = item->name ? item->name : item->value->text;
            uint32_t d = declare(b->s, (Decl){DECL_OUTPUT, name, span, s->span, b->owner, 0, 0});
            use(b, span, d, USE_WRITE | (alone ? USE_OUTPUT : 0));
        }
        if (alone)
            name(b, item->value, b->model ? USE_OUTPUT : 0);
        else
            expr(b, item->value);
    }
}

static void loop(Body *b, const Stmt *s)
{
    expr(b, s->expr);
    for (uint32_t i = 0; i < s->items.n; i++) {
        const Item *item = &s->items.at[i];
        expr(b, item->value);
        define(b, DECL_LOCAL, item->name, item->name_span, item->name_span);
    }
    for (uint32_t i = 0; i < s->names.n; i++)
        define(b, DECL_LOCAL, s->names.at[i].name, s->names.at[i].name_span,
               s->names.at[i].name_span);
    define(b, DECL_LOCAL, s->name, s->name_span, s->span);
    if (s->cond) expr(b, s->cond);
    block(b, s->body);
}

static void statement(Body *b, const Stmt *s)
{
    switch (s->kind) {
    case STMT_RETURN: returned(b, s); return;
    case STMT_LOOP: loop(b, s); return;
    case STMT_PARAM:
    case STMT_STATE:
    case STMT_OUT:
        type(b, s->type, false);
        if (s->expr) expr(b, s->expr);
        define(b,
               s->kind == STMT_PARAM   ? DECL_PARAM
               : s->kind == STMT_STATE ? DECL_STATE
                                       : DECL_LOCAL,
               s->name, s->name_span, s->span);
        return;
    case STMT_EMIT:
        expr(b, s->expr);
        define(b, DECL_LOCAL, s->name, s->name_span, s->span);
        return;
    case STMT_LET:
    case STMT_FOR:
        expr(b, s->expr);
        for (uint32_t i = 0; i < s->names.n; i++)
            define(b, DECL_LOCAL, s->names.at[i].name, s->names.at[i].name_span, s->span);
        if (s->body) block(b, s->body);
        return;
    case STMT_LAUNCH: items(b, s->names.at, s->names.n); break;
    case STMT_UPDATE_CELL: expr(b, s->target); break;
    case STMT_TAP: scope(b, s->scope); break;
    default: break;
    }
    if (s->expr) expr(b, s->expr);
    items(b, s->items.at, s->items.n);
    if (s->set) expr(b, s->set);
    if (s->body) block(b, s->body);
    if (s->orelse) block(b, s->orelse);
}

static void block(Body *b, const Block *x)
{
    for (uint32_t i = 0; x && i < x->params.n; i++)
        define(b, DECL_LOCAL, x->params.at[i].name, x->params.at[i].span, x->params.at[i].span);
    for (uint32_t i = 0; x && i < x->stmts.n; i++) statement(b, x->stmts.at[i]);
}

// Resolves names that were read before a statement assigned them, as later iterations of a loop do.
static void settle(Body *b)
{
    for (uint32_t i = 0; i < b->pending.n; i++) {
        const Expr *x = b->pending.at[i].x;
        uint32_t local = number(&b->vars, x->text);
        if (local) use(b, x->span, local - 1, b->pending.at[i].flags);
    }
}

// -- files ----------------------------------------------------------------------------------------
uint32_t survey_decl_of(const Survey *s, const Stmt *stmt)
{
    uint64_t decl = 0;
    idmap_get(&s->decl_at, (uintptr_t)stmt, &decl);
    return (uint32_t)decl;
}

static void declare_top(Survey *s, const Stmt *x)
{
    static const struct {
        StmtKind stmt;
        DeclKind decl;
    } kinds[] = {{STMT_FN, DECL_FN},   {STMT_MODEL, DECL_MODEL},     {STMT_CONST, DECL_CONST},
                 {STMT_DIM, DECL_DIM}, {STMT_SETTING, DECL_SETTING}, {STMT_TRAIN, DECL_PROGRAM}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].stmt != x->kind) continue;
        bool train = x->kind == STMT_TRAIN;
        Span span = x->name_span.end ? x->name_span : x->span;
        const char *name = train ? x->program : x->name;
        if (!name) return;
        uint32_t d = declare(s, (Decl){kinds[i].decl, name, span, x->span, 0, survey_head(s, x),
                                       survey_doc(s, x->span)});
        idmap_set(&s->decl_at, (uintptr_t)x, d + 1);
        for (uint32_t k = 0; k < x->params.n; k++) {
            const Param *p = &x->params.at[k];
            Span whole = p->span;
            if (p->type) whole.end = p->type->span.end;
            if (p->otherwise) whole.end = p->otherwise->span.end;
            declare(s, (Decl){DECL_ARGUMENT, p->name, p->span, whole, d + 1, survey_text(s, whole),
                              NULL});
        }
    }
}

static void model_outputs(Body *b, const Stmt *train)
{
    Global *g = global_find(b->e, b->file, train->name, train->name_span, false);
    uint32_t model = g ? survey_decl_of(b->s, g->stmt) : 0;
    for (uint32_t i = 0; model && i < b->s->decls.n; i++)
        if (b->s->decls.at[i].kind == DECL_OUTPUT && b->s->decls.at[i].owner == model)
            remember(&b->outputs, b->s->decls.at[i].name, i);
}

static void walk(Elab *e, Survey *s, EFile *f, const Stmt *x)
{
    Body b = {.e = e, .s = s, .file = f, .owner = survey_decl_of(s, x)};
    b.vars = strmap_new(s->arena);
    b.outputs = strmap_new(s->arena);
    b.model = x->kind == STMT_MODEL;
    if (x->kind == STMT_TRAIN) {
        global_use(&b, x->name, x->name_span, 0);
        model_outputs(&b, x);
    } else if (b.owner) {
        use(&b, s->decls.at[b.owner - 1].span, b.owner - 1, USE_WRITE);
    }
    if (x->kind == STMT_FN || x->kind == STMT_MODEL) arguments(&b, x);
    if (x->expr) expr(&b, x->expr);
    items(&b, x->items.at, x->kind == STMT_FN ? x->items.n : 0);
    if (x->body) block(&b, x->body);
    if (x->gbody) block(&b, x->gbody);
    settle(&b);
}

void survey_names(Elab *e, Survey *s)
{
    for (uint32_t i = 0; i < e->files.n; i++)
        for (uint32_t k = 0; k < e->files.at[i]->ast->stmts.n; k++)
            declare_top(s, e->files.at[i]->ast->stmts.at[k]);
    for (uint32_t i = 0; i < e->files.n; i++) {
        EFile *f = e->files.at[i];
        struct SurveyFile file = {.source = f->ast->source, .name = f->name};
        for (uint32_t k = 0; k < f->uses.n; k++)
            vec_push(s->arena, &file.uses, f->uses.at[k]->ast->source);
        vec_push(s->arena, &s->files, file);
        for (int train = 0; train < 2 && !f->library; train++) // models first, since they give
                                                               // outputs their names
            for (uint32_t k = 0; k < f->ast->stmts.n; k++)
                if ((f->ast->stmts.at[k]->kind == STMT_TRAIN) == train)
                    walk(e, s, f, f->ast->stmts.at[k]);
    }
    s->core = e->core ? e->core->ast->source : 0;
}
