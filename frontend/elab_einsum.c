// einsum("ij,jk->ik", a, b): sums of products of any number of tensors, with a letter for each
// axis.
//
// Operands are multiplied two at a time, in a greedy order as in NumPy and opt_einsum ("greedy"):
// the next two are those whose product adds the fewest elements compared with the two themselves;
// the written order breaks ties. Two operands without a common letter wait until only such pairs
// are left.
#include <stdarg.h>
#include <string.h>

#include "frontend/elab.h"

// A label is a number. The axes of "..." come first, numbered so that the last one is DOTS - 1;
// then the letters in alphabetical order, capitals first.
enum { DOTS = MAX_RANK, LABELS = DOTS + 52 };

typedef struct Labels { // of one tensor, as written; DOTS_HERE stands for the axes of "..."
    const char *text;
    int length, n;
    bool dots;
    uint8_t at[MAX_RANK + 1];
} Labels;
enum { DOTS_HERE = LABELS };

typedef struct Term {
    Node *node;
    uint64_t has;            // set of labels, as bits
    uint8_t label[MAX_RANK]; // of each axis of the node
} Term;

typedef struct Einsum {
    Elab *e;
    const Call *call;
    const char *text; // without spaces
    DType dtype;
    int n;
    Term *term;
    int64_t size[LABELS];
    const Node *sized[LABELS]; // by label: a tensor that has an axis with this label
} Einsum;

static uint64_t bit(int label)
{
    return (uint64_t)1 << label;
}

static char letter(int label)
{
    return (char)(label < DOTS + 26 ? 'A' + label - DOTS : 'a' + label - DOTS - 26);
}

__attribute__((format(printf, 2, 3))) static bool fail_text(const Einsum *s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *what = arena_vprintf(s->e->arena, fmt, args);
    va_end(args);
    fail(s->e, s->call->arg_span[0], "%s, in \"%s\"", what, s->call->arg[0].s);
    return false;
}

// -- the text -------------------------------------------------------------------------------------

static bool read_labels(const Einsum *s, const char **text, Labels *out)
{
    const char *p = *text;
    *out = (Labels){.text = p};
    for (;; out->n++) {
        bool upper = *p >= 'A' && *p <= 'Z', dots = !strncmp(p, "...", 3);
        if (!upper && !(*p >= 'a' && *p <= 'z') && !dots) break;
        if (dots && out->dots) return fail_text(s, "'...' appears twice for one tensor");
        if (out->n - out->dots >= MAX_RANK + dots)
            return fail_text(s, "a tensor has at most %d axes, more are named", MAX_RANK);
        out->at[out->n] = (uint8_t)(dots    ? DOTS_HERE
                                    : upper ? DOTS + *p - 'A'
                                            : DOTS + 26 + *p - 'a');
        out->dots |= dots;
        p += dots ? 3 : 1;
    }
    out->length = (int)(p - out->text);
    *text = p;
    return true;
}

// Reads the letters of each operand and, if there is "->", of the result.
static bool read_text(const Einsum *s, Labels *operand, Labels *result, bool *has_result)
{
    const char *p = s->text;
    for (int i = 0; i < s->n; i++) {
        if (!read_labels(s, &p, &operand[i])) return false;
        if (i + 1 < s->n && *p++ != ',') return false;
    }
    *has_result = !strncmp(p, "->", 2);
    if (*has_result) p += 2;
    return !*has_result || read_labels(s, &p, result) ? !*p : false;
}

static bool parse(Einsum *s, Labels *operand, Labels *result, bool *has_result)
{
    uint32_t before = s->e->diags->errors;
    if (read_text(s, operand, result, has_result)) return true;
    if (s->e->diags->errors == before)
        fail(s->e, s->call->arg_span[0],
             "expected a letter for each axis as in \"ij,jk->ik\", found \"%s\"",
             s->call->arg[0].s);
    return false;
}

// -- operands -------------------------------------------------------------------------------------

// Sets the labels of the axes of t. "..." stands for the axes that have no letters, aligned to the
// right.
static bool name_axes(const Einsum *s, const Labels *l, Term *t, Span span)
{
    int letters = l->n - l->dots, rank = t->node->type.rank, axis = 0;
    if (l->dots ? rank < letters : rank != letters) {
        fail(s->e, span, "\"%.*s\" names %s%d ax%s, found %s", l->length, l->text,
             l->dots ? "at least " : "", letters, letters == 1 ? "is" : "es",
             type_text(s->e, &t->node->type));
        return false;
    }
    for (int i = 0; i < l->n; i++) {
        int more = l->at[i] == DOTS_HERE ? rank - letters : 1;
        for (int k = more; k > 0; k--)
            t->label[axis++] = (uint8_t)(l->at[i] == DOTS_HERE ? DOTS - k : l->at[i]);
    }
    for (int i = 0; i < rank; i++) t->has |= bit(t->label[i]);
    return true;
}

static bool find_sizes(Einsum *s, const Term *t)
{
    const Type *type = &t->node->type;
    for (int i = 0; i < type->rank; i++) {
        int l = t->label[i];
        int64_t have = s->size[l], dim = type->dim[i];
        bool stretches = l < DOTS && (have == 1 || dim == 1);
        if (have && have != dim && !stretches) {
            const char *what =
                l < DOTS ? "an axis of '...'" : arena_printf(s->e->arena, "'%c'", letter(l));
            if (s->sized[l] == t->node && l >= DOTS)
                fail(s->e, s->call->span, "%s is %lld and %lld in %s", what, (long long)have,
                     (long long)dim, type_text(s->e, type));
            else
                fail(s->e, s->call->span, "%s is %lld in %s and %lld in %s", what, (long long)have,
                     type_text(s->e, &s->sized[l]->type), (long long)dim, type_text(s->e, type));
            return false;
        }
        if (have > dim || (have && have == dim)) continue;
        s->size[l] = dim;
        s->sized[l] = t->node;
    }
    return true;
}

// Removes axes of size 1 that are larger in another operand: the multiplication broadcasts them.
static void drop_stretched(const Einsum *s, Term *t)
{
    int64_t dim[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < t->node->type.rank; i++) {
        if (t->node->type.dim[i] != s->size[t->label[i]]) {
            t->has &= ~bit(t->label[i]);
            continue;
        }
        t->label[rank] = t->label[i];
        dim[rank++] = t->node->type.dim[i];
    }
    if (rank < t->node->type.rank) t->node = graph_reshape(s->e->g, t->node, rank, dim);
}

// Replaces k axes with the same letter by their diagonal: merged into one axis of n^k elements, of
// which those at i (1 + n + ... + n^(k - 1)) are taken.
static void take_diagonal(const Einsum *s, Term *t, int label)
{
    Graph *g = s->e->g;
    int64_t perm[MAX_RANK], dim[MAX_RANK], start[MAX_RANK] = {0}, step[MAX_RANK], n = 0;
    uint8_t kept[MAX_RANK];
    int k = 0, rank = 1, all = t->node->type.rank;
    for (int i = 0; i < all; i++)
        if (t->label[i] == label) perm[k++] = i;
    if (k < 2) return;
    n = s->size[label];
    kept[0] = (uint8_t)label;
    for (int i = 0; i < all; i++) {
        if (t->label[i] == label) continue;
        perm[k + rank - 1] = i;
        dim[rank] = t->node->type.dim[i];
        step[rank] = 1;
        kept[rank++] = t->label[i];
    }
    dim[0] = step[0] = 1;
    for (int i = 1; i < k; i++) step[0] = step[0] * n + 1;
    for (int i = 0; i < k; i++) dim[0] *= n;
    t->node = graph_reshape(g, graph_permute(g, t->node, perm), rank, dim);
    t->node = graph_slice(g, t->node, start, dim, step);
    memcpy(t->label, kept, sizeof kept);
}

// Sums over the axes whose labels are not in [keep].
static void sum_rest(const Einsum *s, Term *t, uint64_t keep)
{
    Graph *g = s->e->g;
    int64_t axes[MAX_RANK];
    int n = 0, rank = 0, all = t->node->type.rank;
    for (int i = 0; i < all; i++) {
        if (keep & bit(t->label[i]))
            t->label[rank++] = t->label[i];
        else
            axes[n++] = i;
    }
    if (!n) return;
    t->has &= keep;
    t->node = graph_reduce(g, OP_sum, t->node, axes, n, false);
    if (t->node->type.dtype != s->dtype)
        t->node = graph_cast(g, t->node, s->dtype); // integer sums
                                                    // have a wider
                                                    // type
}

// -- products -------------------------------------------------------------------------------------

// t broadcast to the axes [label] of [type].
static Node *spread(const Einsum *s, const Term *t, const uint8_t *label, const Type *type)
{
    Graph *g = s->e->g;
    int64_t perm[MAX_RANK], dims[MAX_RANK];
    int n = 0;
    for (int i = 0; i < type->rank; i++)
        for (int k = 0; k < t->node->type.rank; k++)
            if (t->label[k] == label[i]) perm[n] = k, dims[n++] = i;
    Node *x = graph_permute(g, t->node, perm);
    if (n == type->rank) return x;
    Attrs attrs = {0};
    attr_set_ints(g, &attrs, ATTR_shape, type->dim, type->rank);
    attr_set_ints(g, &attrs, ATTR_dims, dims, n);
    return graph_node(g, OP_broadcast, &x, 1, &attrs);
}

// The product of two terms, summed over the labels that are in both but not in [keep]. If there are
// none, it is elementwise, so that it can be fused. NULL after reporting an error.
static Node *multiply(const Einsum *s, const Term *a, const Term *b, uint64_t keep, uint8_t *label)
{
    int64_t batch[2][MAX_RANK], contract[2][MAX_RANK];
    int nbatch = 0, ncontract = 0;
    uint64_t made = 0;
    Type type = {.dtype = s->dtype};
    const Term *const terms[] = {a, b};
    for (int i = 0; i < a->node->type.rank; i++)
        for (int k = 0; k < b->node->type.rank; k++) {
            if (a->label[i] != b->label[k]) continue;
            bool kept = (keep & bit(a->label[i])) != 0;
            (kept ? batch : contract)[0][kept ? nbatch : ncontract] = i;
            (kept ? batch : contract)[1][kept ? nbatch++ : ncontract++] = k;
        }
    for (int pass = ncontract ? 0 : 1; pass < 3; pass++) // batch axes, those only in a, those only
                                                         // in b
        for (int i = 0; i < terms[pass == 2]->node->type.rank; i++) {
            int l = terms[pass == 2]->label[i];
            if (!(keep & bit(l)) || (made & bit(l)) || (!pass && !(b->has & bit(l)))) continue;
            made |= bit(l);
            label[type.rank] = (uint8_t)l;
            type.dim[type.rank++] = s->size[l];
        }
    if (!check_size(s->e, &type, s->call->span)) return NULL;
    if (ncontract)
        return graph_dot(s->e->g, a->node, b->node, batch[0], batch[1], nbatch, contract[0],
                         contract[1], ncontract, s->dtype);
    return graph_binary(s->e->g, OP_mul, spread(s, a, label, &type), spread(s, b, label, &type));
}

static double elements(const Einsum *s, uint64_t labels)
{
    double n = 1;
    for (int l = 0; l < LABELS; l++)
        if (labels & bit(l)) n *= (double)s->size[l];
    return n;
}

// The labels of the product of terms i and j that other terms or the result need.
static uint64_t needed(const Einsum *s, int i, int j, uint64_t result)
{
    for (int k = 0; k < s->n; k++)
        if (k != i && k != j) result |= s->term[k].has;
    return (s->term[i].has | s->term[j].has) & result;
}

// Chooses the next two terms to multiply, i < j. false: all products would have too many axes.
static bool choose(const Einsum *s, uint64_t result, int *first, int *second)
{
    double best = 0;
    bool found = false, apart = false;
    for (int i = 0; i < s->n; i++)
        for (int j = i + 1; j < s->n; j++) {
            uint64_t a = s->term[i].has, b = s->term[j].has, y = needed(s, i, j, result);
            double cost = elements(s, y) - elements(s, a) - elements(s, b);
            bool outer = !(a & b);
            if (__builtin_popcountll(y) > MAX_RANK || (found && outer && !apart)) continue;
            if (found && outer == apart && cost >= best) continue;
            found = true, apart = outer, best = cost;
            *first = i, *second = j;
        }
    return found;
}

static bool contract(Einsum *s, uint64_t result)
{
    while (s->n > 1) {
        int i, j;
        Term y = {0};
        if (!choose(s, result, &i, &j)) {
            fail(s->e, s->call->span,
                 "a tensor has at most %d axes, the product of any two of these would have more",
                 MAX_RANK);
            return false;
        }
        y.has = needed(s, i, j, result);
        y.node = multiply(s, &s->term[i], &s->term[j], y.has, y.label);
        if (!y.node) return false;
        s->term[i] = y;
        s->n--;
        memmove(&s->term[j], &s->term[j + 1], (size_t)(s->n - j) * sizeof *s->term);
    }
    return true;
}

// -- the result -----------------------------------------------------------------------------------

// The result without "->": the axes of "...", then the letters that occur once.
static void implied(const Einsum *s, const Labels *operand, Term *out)
{
    int count[LABELS] = {0}, rank = 0;
    for (int k = 0; k < s->n; k++)
        for (int i = 0; i < operand[k].n; i++)
            if (operand[k].at[i] != DOTS_HERE) count[operand[k].at[i]]++;
    for (int l = 0; l < LABELS; l++) {
        if (!s->size[l] || (l >= DOTS && count[l] != 1)) continue;
        out->has |= bit(l);
        if (rank < MAX_RANK) out->label[rank] = (uint8_t)l;
        rank++;
    }
}

static bool stated(const Einsum *s, const Labels *result, Term *out)
{
    uint64_t dots = 0;
    int rank = 0;
    for (int l = 0; l < DOTS; l++)
        if (s->size[l]) dots |= bit(l);
    for (int i = 0; i < result->n; i++) {
        int l = result->at[i];
        if (l != DOTS_HERE && (out->has & bit(l)))
            return fail_text(s, "'%c' appears twice in the result", letter(l));
        if (l != DOTS_HERE && !s->size[l])
            return fail_text(s, "'%c' of the result is not an axis of an operand", letter(l));
        int first = l == DOTS_HERE ? 0 : l, end = l == DOTS_HERE ? DOTS : l + 1;
        for (int k = first; k < end; k++) {
            if (!s->size[k]) continue;
            out->has |= bit(k);
            if (rank < MAX_RANK) out->label[rank++] = (uint8_t)k;
        }
    }
    if (dots & ~out->has)
        return fail_text(s, "'...' is missing in the result: write it there, or give its axes "
                            "letters to sum over them");
    return true;
}

static const char *without_spaces(Elab *e, const char *text)
{
    Buf b = buf_new(e->arena);
    for (; *text; text++)
        if (*text != ' ') buf_char(&b, *text);
    return b.len ? b.data : "";
}

// einsum(axes, a, …)
static Val run_einsum(Elab *e, const Call *c)
{
    enum { MOST = MAX_PARAMS - 1 };
    Einsum s = {.e = e, .call = c, .n = 1};
    Term result = {0};
    Labels *labels = NEW_ARRAY(e->arena, Labels, MOST + 1);
    Node **node = NEW_ARRAY(e->arena, Node *, MOST);
    bool has_result;
    int given = 0;
    if (c->arg[0].kind == V_POISON) return val_poison();
    if (c->arg[0].kind != V_STRING)
        return fail(e, c->arg_span[0], "expected a text such as \"ij,jk->ik\", found %s",
                    val_text(e, &c->arg[0]));
    s.text = without_spaces(e, c->arg[0].s);
    while (given < MOST && c->arg[1 + given].kind != V_ABSENT) given++;
    for (const char *p = s.text; *p; p++) s.n += *p == ',';
    if (s.n != given)
        return fail(e, c->span, "\"%s\" names the axes of %d tensor%s, found %d tensor%s",
                    c->arg[0].s, s.n, s.n == 1 ? "" : "s", given, given == 1 ? "" : "s");
    Labels *stated_result = &labels[MOST];
    if (!parse(&s, labels, stated_result, &has_result) ||
        !join_operands(e, "einsum", c->arg + 1, c->arg_span + 1, s.n, node, c->span))
        return val_poison();
    s.term = NEW_ARRAY(e->arena, Term, s.n);
    s.dtype = node[0]->type.dtype;
    if (s.dtype == DT_BOOL)
        return fail(e, c->span, "einsum adds products of numbers, found bools: write cast(…, i32)");
    for (int k = 0; k < s.n; k++) {
        s.term[k] = (Term){.node = node[k]};
        if (!name_axes(&s, &labels[k], &s.term[k], c->arg_span[k + 1]) ||
            !find_sizes(&s, &s.term[k]))
            return val_poison();
    }
    if (!has_result)
        implied(&s, labels, &result);
    else if (!stated(&s, stated_result, &result))
        return val_poison();
    if (__builtin_popcountll(result.has) > MAX_RANK)
        return fail(e, c->span, "a tensor has at most %d axes, the result would have %d", MAX_RANK,
                    __builtin_popcountll(result.has));
    at_span(e, c->span);
    for (int k = 0; k < s.n; k++) {
        uint64_t others = result.has;
        for (int i = 0; i < s.n; i++)
            if (i != k) others |= s.term[i].has;
        drop_stretched(&s, &s.term[k]);
        for (int l = 0; l < LABELS; l++)
            if (s.term[k].has & bit(l)) take_diagonal(&s, &s.term[k], l);
        sum_rest(&s, &s.term[k], others);
    }
    if (!contract(&s, result.has)) return val_poison();
    return val_node(spread(&s, &s.term[0], result.label, &s.term[0].node->type));
}

const Builtin einsum_builtins[] = {{"einsum", "axes a b*", run_einsum}, {0}};
