// Reads the text form of graphs: each statement of the tree is one node, made by graph_node.
#include "frontend/read_graph.h"
#include "base/names.h"

#include <string.h>

typedef struct Reader {
    Arena *arena;
    Diags *diags;
    Module *module;
    const char **dtypes, **ops, **keys; // names, for suggestions
} Reader;

typedef struct Scope { // the values of one graph by name
    Graph *graph;
    StrMap values; // name -> Node *
} Scope;

__attribute__((format(printf, 3, 4))) static bool fail(Reader *r, Span span, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    diag_span(r->diags, span, "%s", arena_vprintf(r->arena, fmt, args));
    va_end(args);
    return false;
}

static bool unknown(Reader *r, Span span, const char *what, const char *name,
                    const char *const *known, size_t n)
{
    diag_span(r->diags, span, "unknown %s '%s'%s", what, name, advise_near(name, known, n).text);
    return false;
}

// -- literals -------------------------------------------------------------------------------------

static bool read_int(Reader *r, const Expr *e, int64_t *out)
{
    if (e->kind != EXPR_INT) return fail(r, e->span, "expected an integer");
    *out = e->i;
    return true;
}

static bool read_float(Reader *r, const Expr *e, double *out)
{
    if (e->kind != EXPR_FLOAT && e->kind != EXPR_INT) return fail(r, e->span, "expected a number");
    *out = e->kind == EXPR_INT ? (double)e->i : e->f;
    return true;
}

static bool read_string(Reader *r, const Expr *e, const char **out)
{
    if (e->kind != EXPR_STRING) return fail(r, e->span, "expected a string");
    *out = e->text;
    return true;
}

static bool read_dtype(Reader *r, Span span, const char *name, DType *out)
{
    return dtype_parse(name, out) || unknown(r, span, "element type", name, r->dtypes, DT_COUNT);
}

static bool read_type(Reader *r, const TypeExpr *t, Type *out)
{
    DType dtype;
    int64_t dim[MAX_RANK];
    if (!read_dtype(r, t->span, t->dtype, &dtype)) return false;
    if (t->dims.n > MAX_RANK)
        return fail(r, t->span, "%u axes: there are at most %d", t->dims.n, MAX_RANK);
    for (uint32_t k = 0; k < t->dims.n; k++) {
        if (!read_int(r, t->dims.at[k], &dim[k])) return false;
        if (dim[k] < 0) return fail(r, t->dims.at[k]->span, "a dimension cannot be negative");
    }
    *out = type_make(dtype, (int)t->dims.n, dim);
    return true;
}

static const Expr *find_item(const Item *items, uint32_t n, const char *name)
{
    for (uint32_t k = 0; k < n; k++)
        if (!strcmp(items[k].name, name)) return items[k].value;
    return NULL;
}

// The index of a word in a list of words.
static bool read_word(Reader *r, const Expr *e, const char *what, const char *const *words, int n,
                      int *out)
{
    const char *text = NULL;
    if (!read_string(r, e, &text)) return false;
    for (int k = 0; k < n; k++)
        if (!strcmp(words[k], text)) return *out = k, true;
    return unknown(r, e->span, what, text, words, (size_t)n);
}

static bool known_keys(Reader *r, const Stmt *s, const char *const *keys, size_t n)
{
    for (uint32_t k = 0; k < s->items.n; k++) {
        size_t i = 0;
        while (i < n && strcmp(keys[i], s->items.at[k].name)) i++;
        if (i == n)
            return unknown(r, s->items.at[k].name_span, "key", s->items.at[k].name, keys, n);
    }
    return true;
}

static const Expr *need(Reader *r, const Stmt *s, const char *key)
{
    const Expr *e = find_item(s->items.at, s->items.n, key);
    if (!e) fail(r, s->span, "'%s' has no %s=...", s->name, key);
    return e;
}

// -- nodes ----------------------------------------------------------------------------------------

static const char *const role_names[ROLE_COUNT] = {"forward", "backward", "update"};

static bool read_attr(Reader *r, Graph *g, Attrs *attrs, AttrKey key, const Expr *e)
{
    int64_t i = 0;
    double f = 0;
    const char *s = NULL;
    DType t;
    switch (attr_kind(key)) {
    case AK_INT:
        if (!read_int(r, e, &i)) return false;
        attr_set_int(attrs, key, i);
        return true;
    case AK_FLOAT:
        if (!read_float(r, e, &f)) return false;
        attr_set_float(attrs, key, f);
        return true;
    case AK_STR:
        if (!read_string(r, e, &s)) return false;
        attr_set_str(g, attrs, key, s);
        return true;
    case AK_DTYPE:
        if (e->kind != EXPR_NAME) return fail(r, e->span, "expected an element type");
        if (!read_dtype(r, e->span, e->text, &t)) return false;
        attr_set_int(attrs, key, t);
        return true;
    case AK_INTS: break;
    }
    if (e->kind != EXPR_LIST) return fail(r, e->span, "expected a list of integers");
    int64_t *list = NEW_ARRAY(r->arena, int64_t, e->items.n + 1);
    for (uint32_t k = 0; k < e->items.n; k++)
        if (!read_int(r, e->items.at[k].value, &list[k])) return false;
    attr_set_ints(g, attrs, key, list, (int)e->items.n);
    return true;
}

static bool read_attrs(Reader *r, Graph *g, const Expr *call, Attrs *attrs, Role *role,
                       const char **name)
{
    enum { ROOM = sizeof attrs->at / sizeof attrs->at[0] };
    for (uint32_t k = 0; k < call->attrs.n; k++) {
        const Item *item = &call->attrs.at[k];
        AttrKey key;
        int word = 0;
        if (find_item(call->attrs.at, k, item->name))
            return fail(r, item->name_span, "attribute '%s' is given twice", item->name);
        if (!strcmp(item->name, "role")) {
            if (!read_word(r, item->value, "role", role_names, ROLE_COUNT, &word)) return false;
            *role = (Role)word;
        } else if (!strcmp(item->name, "as")) {
            if (!read_string(r, item->value, name)) return false;
        } else if (!attr_parse(item->name, &key)) {
            return unknown(r, item->name_span, "attribute", item->name, r->keys, ATTR_COUNT);
        } else if (attrs->n == ROOM) {
            return fail(r, item->name_span, "too many attributes");
        } else if (!read_attr(r, g, attrs, key, item->value)) {
            return false;
        }
    }
    return true;
}

static Node *find_value(Reader *r, const Scope *s, const Expr *e)
{
    Node *n = e->kind == EXPR_NAME ? strmap_get(&s->values, e->text) : NULL;
    if (!n && e->kind == EXPR_NAME)
        fail(r, e->span, "'%s' is not a value defined before this line", e->text);
    else if (!n)
        fail(r, e->span, "expected the name of a value");
    return n;
}

static Graph *read_region(Reader *r, const Block *b);

// A call of a primitive, or `not x`, which the grammar reads as an operator.
static Node *read_node(Reader *r, Scope *s, const Expr *e)
{
    Graph *g = s->graph;
    Attrs attrs = {0};
    Role role = ROLE_FORWARD;
    const char *name = NULL, *op_name = NULL;
    VEC(Node *) args = {0};
    VEC(Graph *) regions = {0};
    Span head = e->op_span;
    if (e->kind == EXPR_UNARY && e->unary == UN_NOT) {
        op_name = "not";
        Node *n = find_value(r, s, e->a);
        if (!n) return NULL;
        vec_push(r->arena, &args, n);
    } else if (e->kind == EXPR_CALL && e->a->kind == EXPR_NAME) {
        op_name = e->a->text;
    } else {
        fail(r, e->span, "a line of a dump is 'name = primitive(values) @{attributes}'");
        return NULL;
    }
    Op op;
    if (!op_parse(op_name, &op)) {
        unknown(r, head, "primitive", op_name, r->ops, OP_COUNT);
        return NULL;
    }
    for (uint32_t k = 0; k < e->items.n; k++) {
        Node *n = e->items.at[k].name ? NULL : find_value(r, s, e->items.at[k].value);
        if (e->items.at[k].name)
            fail(r, e->items.at[k].name_span, "a primitive has no named arguments");
        if (!n) return NULL;
        vec_push(r->arena, &args, n);
    }
    if (!read_attrs(r, g, e, &attrs, &role, &name)) return NULL;
    bool region_op = op_info(op)->class == CLS_REGION;
    if (region_op ? !e->regions.n || e->regions.n > 2 : e->regions.n > 0) {
        fail(r, e->span,
             region_op ? "'%s' needs a region: { (p0: f32[2], ...) -> ... }"
                       : "'%s' takes no region",
             op_name);
        return NULL;
    }
    for (uint32_t k = 0; k < e->regions.n; k++) {
        Graph *region = read_region(r, e->regions.at[k]);
        if (!region) return NULL;
        vec_push(r->arena, &regions, region);
    }
    g->loc = loc_add(r->diags, e->span, 0, NULL);
    g->role = role;
    g->name = name;
    Node *n = graph_region_node(g, op, args.at, (int)args.n, &attrs, regions.at, (int)regions.n);
    return node_is_poison(n) ? NULL : n;
}

static bool read_statement(Reader *r, Scope *s, const Stmt *stmt)
{
    if (stmt->kind == STMT_EXPR) return read_node(r, s, stmt->expr);
    if (stmt->kind != STMT_LET || stmt->names.n != 1)
        return fail(r, stmt->span, "a line of a dump is 'name = primitive(values) @{attributes}'");
    const Item *name = &stmt->names.at[0];
    if (strmap_has(&s->values, name->name))
        return fail(r, name->name_span, "'%s' is defined twice", name->name);
    Node *n = read_node(r, s, stmt->expr);
    if (n) strmap_set(&s->values, name->name, n);
    return n;
}

static Graph *read_region(Reader *r, const Block *b)
{
    Scope s = {graph_new(r->arena, r->diags, r->module->symbols.at), strmap_new(r->arena)};
    for (uint32_t k = 0; k < b->params.n; k++) {
        const Param *p = &b->params.at[k];
        Type t;
        if (!p->type) {
            fail(r, p->span, "a region's parameter needs its type: %s: f32[...]", p->name);
            return NULL;
        }
        if (!read_type(r, p->type, &t)) return NULL;
        s.graph->loc = loc_add(r->diags, p->span, 0, NULL);
        strmap_set(&s.values, p->name, graph_region_param(s.graph, &t));
    }
    for (uint32_t k = 0; k < b->stmts.n; k++) {
        const Stmt *stmt = b->stmts.at[k];
        if (stmt->kind != STMT_RETURN) {
            if (!read_statement(r, &s, stmt)) return NULL;
            continue;
        }
        for (uint32_t i = 0; i < stmt->items.n; i++) {
            Node *n = find_value(r, &s, stmt->items.at[i].value);
            if (!n) return NULL;
            vec_push(r->arena, &s.graph->results, n);
        }
        if (k + 1 == b->stmts.n) return s.graph;
        fail(r, stmt->span, "'return' must be last in a region");
        return NULL;
    }
    fail(r, b->span, "a region ends with 'return'");
    return NULL;
}

// -- the module -----------------------------------------------------------------------------------

static bool read_cell(Reader *r, const Stmt *s)
{
    static const char *const keys[] = {"kind", "frozen", "optimizer", "initial", "first_batch"};
    static const char *const kinds[] = {"param",   "state",   "scratch",
                                        "setting", "control", "prepared"};
    Cell c = {.name = s->name, .loc = loc_add(r->diags, s->span, 0, NULL)};
    const Expr *frozen = find_item(s->items.at, s->items.n, "frozen");
    const Expr *initial = find_item(s->items.at, s->items.n, "initial");
    const Expr *optimizer = find_item(s->items.at, s->items.n, "optimizer");
    const Expr *first = find_item(s->items.at, s->items.n, "first_batch");
    const Expr *kind = need(r, s, "kind");
    int64_t flag = 0, updates = 0, waits = 0;
    int word;
    if (!known_keys(r, s, keys, 5) || !kind || !read_word(r, kind, "kind", kinds, 6, &word) ||
        !read_type(r, s->type, &c.type) || (frozen && !read_int(r, frozen, &flag)) ||
        (optimizer && !read_int(r, optimizer, &updates)) ||
        (first && !read_int(r, first, &waits)) || (initial && !read_float(r, initial, &c.initial)))
        return false;
    if (module_cell(r->module, s->name))
        return fail(r, s->name_span, "cell '%s' is declared twice", s->name);
    c.kind = (CellKind)word;
    c.frozen = flag != 0;
    c.optimizer = updates != 0;
    c.first_batch = waits != 0;
    module_add_cell(r->module, &c);
    return true;
}

// Reads dims=["batch", 128, 2, 1, ...]: name, value, origin, whether it is the batch.
static bool read_dims(Reader *r, const Expr *e, Entry *entry)
{
    if (e->kind != EXPR_LIST || e->items.n % 4)
        return fail(r, e->span, "expected [name, value, from, is_batch, ...]");
    for (uint32_t k = 0; k < e->items.n; k += 4) {
        DimBinding d = {0};
        int64_t from = 0, batch = 0;
        if (!read_string(r, e->items.at[k].value, &d.name) ||
            !read_int(r, e->items.at[k + 1].value, &d.value) ||
            !read_int(r, e->items.at[k + 2].value, &from) ||
            !read_int(r, e->items.at[k + 3].value, &batch))
            return false;
        if (from < DIM_DEFAULT || from > DIM_FLAG)
            return fail(r, e->items.at[k + 2].value->span, "expected 0, 1 or 2");
        d.from = from;
        d.is_batch = batch != 0;
        vec_push(r->arena, &entry->dims, d);
    }
    return true;
}

static bool read_entry(Reader *r, const Stmt *s)
{
    static const char *const keys[] = {"kind", "rows", "cursor", "batch", "dims"};
    static const char *const kinds[] = {"init", "train", "eval", "model"};
    Entry e = {.name = s->name, .batch = 1, .loc = loc_add(r->diags, s->span, 0, NULL)};
    const Expr *kind = need(r, s, "kind"), *rows = find_item(s->items.at, s->items.n, "rows");
    const Expr *cursor = find_item(s->items.at, s->items.n, "cursor");
    const Expr *batch = find_item(s->items.at, s->items.n, "batch");
    const Expr *dims = find_item(s->items.at, s->items.n, "dims");
    int64_t flag = 0;
    int word;
    if (!known_keys(r, s, keys, 5) || !kind || !read_word(r, kind, "kind", kinds, 4, &word) ||
        (rows && !read_int(r, rows, &flag)) || (cursor && !read_string(r, cursor, &e.cursor)) ||
        (batch && !read_int(r, batch, &e.batch)) || (dims && !read_dims(r, dims, &e)))
        return false;
    if (module_entry(r->module, s->name))
        return fail(r, s->name_span, "entry '%s' is declared twice", s->name);
    e.kind = (EntryKind)word;
    e.rows = flag != 0;
    Scope scope = {graph_new(r->arena, r->diags, r->module->symbols.at), strmap_new(r->arena)};
    e.graph = scope.graph;
    bool good = true;
    for (uint32_t k = 0; k < s->body->stmts.n && good; k++)
        good = read_statement(r, &scope, s->body->stmts.at[k]);
    scope.graph->loc = 0;
    scope.graph->role = ROLE_FORWARD;
    vec_push(r->arena, &r->module->entries, e);
    return good;
}

bool is_graph_dump(const File *file)
{
    return file->stmts.n && file->stmts.at[0]->kind == STMT_MODULE;
}

static void fill_names(Reader *r)
{
    r->dtypes = NEW_ARRAY(r->arena, const char *, DT_COUNT);
    r->ops = NEW_ARRAY(r->arena, const char *, OP_COUNT);
    r->keys = NEW_ARRAY(r->arena, const char *, ATTR_COUNT);
    for (int k = 0; k < DT_COUNT; k++) r->dtypes[k] = dtype_info[k].name;
    for (int k = 0; k < OP_COUNT; k++) r->ops[k] = op_info((Op)k)->name;
    for (int k = 0; k < ATTR_COUNT; k++) r->keys[k] = attr_name((AttrKey)k);
}

Module *read_module(Arena *a, Diags *d, File *file)
{
    static const char *const keys[] = {"version", "stage"};
    Reader reader = {.arena = a, .diags = d}, *r = &reader;
    uint32_t errors = d->errors;
    const Stmt *head = file->stmts.at[0];
    fill_names(r);
    r->module = module_new(a, d, head->name);
    const char *stage = "";
    int64_t version = 0;
    const Expr *v = need(r, head, "version"), *at = need(r, head, "stage");
    if (!known_keys(r, head, keys, 2) || !v || !at || !read_int(r, v, &version) ||
        !read_string(r, at, &stage))
        return NULL;
    if (version != 1) {
        fail(r, v->span, "this dump is of version %lld; this netc reads version 1",
             (long long)version);
        return NULL;
    }
    for (uint32_t k = 1; k < file->stmts.n; k++) {
        const Stmt *s = file->stmts.at[k];
        if (s->kind == STMT_CELL)
            read_cell(r, s);
        else if (s->kind == STMT_ENTRY)
            read_entry(r, s);
        else
            fail(r, s->span, "a dump of a graph holds cells and entries only");
    }
    r->module->stage = stage;
    return d->errors == errors ? r->module : NULL;
}
