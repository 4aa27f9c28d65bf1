// Compiling patterns: text to a tree, the tree to instructions.
#include <string.h>

#include "lib/tokens/pattern_code.h"

typedef enum TreeKind {
    TREE_SET,
    TREE_ROW,
    TREE_CHOICE,
    TREE_REPEAT,
    TREE_AHEAD,
    TREE_FINISH
} TreeKind;

typedef struct Tree {
    TreeKind kind;
    Set *set;
    struct Tree *child, *next; // of a sequence or an alternative: its list
    int64_t low, high;         // of a repeat
    bool owned;                // possessive
    bool negated;              // of a lookahead
} Tree;

enum { MOST = INT32_MAX, DEEPEST = 50, LONGEST = 1 << 16 };

typedef struct Compiler {
    Arena *arena;
    const unsigned char *at, *end, *begin;
    PatternKind kind;
    const uint8_t *category;
    const char *why;
    int depth, made; // made: number of calls of generate
    VEC(Code) code;
} Compiler;

static void refuse(Compiler *c, const char *what)
{
    if (!c->why)
        c->why = arena_printf(c->arena, "%s (at byte %zu)", what, (size_t)(c->at - c->begin));
}

static bool accept(Compiler *c, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n)) return false;
    c->at += n;
    return true;
}

static int peek(const Compiler *c)
{
    return c->at < c->end ? *c->at : -1;
}

static bool letter(uint32_t c)
{
    return (c | 32) >= 'a' && (c | 32) <= 'z';
}

static void add_range(Compiler *c, Set *s, uint32_t low, uint32_t high, bool fold)
{
    vec_push(c->arena, &s->ranges, (Range){low, high});
    for (uint32_t k = low; fold && k <= high && k < 128; k++) {
        if (!letter(k)) continue;
        vec_push(c->arena, &s->ranges, (Range){k ^ 32, k ^ 32});
        // Other characters that fold to an ASCII letter: long s, Kelvin sign.
        if ((k | 32) == 's') vec_push(c->arena, &s->ranges, (Range){0x17f, 0x17f});
        if ((k | 32) == 'k') vec_push(c->arena, &s->ranges, (Range){0x212a, 0x212a});
    }
    if (fold && high >= 128) refuse(c, "non-ASCII letters without case are not supported");
}

static uint32_t hex(Compiler *c, int least, int most)
{
    uint32_t v = 0;
    int n = 0;
    for (; n < most; n++, c->at++) {
        int k = peek(c), low = k | 32;
        if (k >= '0' && k <= '9')
            v = v * 16 + (uint32_t)(k - '0');
        else if (low >= 'a' && low <= 'f')
            v = v * 16 + (uint32_t)(low - 'a' + 10);
        else
            break;
    }
    if (n < least || v >= UNICODE_END) refuse(c, "a character's number is expected");
    return v;
}

static void named(Compiler *c, Set *s, bool not, bool fold)
{
    const unsigned char *name = c->at;
    // (Libraries disagree about \pL without braces.)
    if (!accept(c, "{")) return refuse(c, "a category's name is missing, in braces");
    not = accept(c, "^") != not ;
    name = c->at;
    while (peek(c) >= 0 && peek(c) != '}') c->at++;
    size_t n = (size_t)(c->at - name);
    if (!accept(c, "}")) refuse(c, "} is missing");
    uint32_t bits = unicode_named((const char *)name, n);
    if (!bits)
        refuse(c, arena_printf(c->arena, "\\p{%.*s} is not supported, only general categories",
                               (int)n, name));
    uint32_t cased = 1u << UC_LU | 1u << UC_LL | 1u << UC_LT;
    if (fold && (bits & cased) && (bits & cased) != cased)
        refuse(c, "a category of one case, matched without case, is not supported");
    s->categories |= not ? ~bits : bits;
}

// Reads what follows a backslash. true: a set was added to s; false: it is the character *v.
static bool escape(Compiler *c, Set *s, bool fold, uint32_t *v)
{
    int k = peek(c);
    if (k < 0) return refuse(c, "nothing follows \\"), false;
    c->at++;
    *v = (uint32_t)k;
    switch (k) {
    case 's': s->space = true; return true;
    case 'S': s->not_space = true; return true;
    case 'd': s->categories |= 1u << UC_ND; return true;
    case 'D': s->categories |= ~(1u << UC_ND); return true;
    case 'p': named(c, s, false, fold); return true;
    case 'P': named(c, s, true, fold); return true;
    case 'n': *v = '\n'; return false;
    case 'r': *v = '\r'; return false;
    case 't': *v = '\t'; return false;
    case 'f': *v = '\f'; return false;
    case 'v': *v = '\v'; return false;
    case 'u': *v = hex(c, 4, 4); return false;
    case 'x':
        if (!accept(c, "{")) {
            *v = hex(c, 2, 2); // libraries disagree about \x above 7f
            if (*v >= 0x80) refuse(c, "\\x80 and above are supported only as \\x{80}");
            return false;
        }
        *v = hex(c, 1, 6);
        if (!accept(c, "}")) refuse(c, "} is missing");
        return false;
    default: break;
    }
    if (letter(*v) || (*v >= '0' && *v <= '9') || *v >= 0x80)
        refuse(c, arena_printf(c->arena, "\\%c is not supported", *v < 0x80 ? k : '?'));
    return false;
}

static uint32_t character(Compiler *c)
{
    int bytes;
    uint32_t v = utf8_next(c->at, c->end, &bytes);
    c->at += bytes;
    return v;
}

static void close_set(const Compiler *c, Set *s)
{
    for (uint32_t k = 0; k < 128; k++) s->ascii[k] = set_has(s, c->category, k);
}

// Reads what follows '['.
static Set *brackets(Compiler *c, bool fold)
{
    Set *s = NEW(c->arena, Set);
    s->negated = accept(c, "^");
    bool first = true;
    for (; !c->why && (first || peek(c) != ']'); first = false) {
        uint32_t low, high;
        if (peek(c) < 0) return refuse(c, "] is missing"), s;
        if (peek(c) == '[' || accept(c, "&&"))
            return refuse(c, "a set in a set is not supported"), s;
        if (accept(c, "\\")) {
            if (escape(c, s, fold, &low)) continue;
        } else {
            low = character(c);
        }
        high = low;
        if (peek(c) == '-' && c->end - c->at > 1 && c->at[1] != ']') {
            c->at++;
            Set none = {0};
            if (accept(c, "\\")) {
                if (escape(c, &none, fold, &high)) refuse(c, "a range ends with a set");
            } else {
                high = character(c);
            }
        }
        if (high < low) refuse(c, "a range ends before it begins");
        add_range(c, s, low, high, fold);
    }
    if (!accept(c, "]")) refuse(c, "] is missing");
    close_set(c, s);
    return s;
}

static Tree *tree(Compiler *c, TreeKind kind)
{
    Tree *t = NEW(c->arena, Tree);
    t->kind = kind;
    return t;
}

static Tree *choice(Compiler *c, bool fold);

// Reads what follows '('.
static Tree *group(Compiler *c, bool fold)
{
    Tree *t;
    if (++c->depth > DEEPEST) refuse(c, "nested too deeply");
    bool ahead = accept(c, "?="), not = !ahead && accept(c, "?!");
    if (ahead || not ) {
        t = tree(c, TREE_AHEAD);
        t->negated = not ;
        if (!c->why) t->child = choice(c, fold);
    } else {
        if (accept(c, "?i:"))
            fold = true;
        else if (!accept(c, "?:") && peek(c) == '?')
            refuse(c, "this kind of group is not supported");
        t = c->why ? tree(c, TREE_ROW) : choice(c, fold);
    }
    if (!accept(c, ")")) refuse(c, ") is missing");
    c->depth--;
    return t;
}

static Tree *atom(Compiler *c, bool fold)
{
    if (accept(c, "(")) return group(c, fold);
    if (accept(c, "$")) return tree(c, TREE_FINISH);
    Tree *t = tree(c, TREE_SET);
    if (accept(c, "[")) return t->set = brackets(c, fold), t;
    Set *s = t->set = NEW(c->arena, Set);
    uint32_t v;
    if (accept(c, ".")) {
        add_range(c, s, '\n', '\n', false);
        s->negated = true;
    } else if (accept(c, "^")) {
        refuse(c, "^ is not supported");
    } else if (!accept(c, "\\")) {
        v = character(c);
        add_range(c, s, v, v, fold);
    } else if (!escape(c, s, fold, &v)) {
        add_range(c, s, v, v, fold);
    }
    close_set(c, s);
    return t;
}

static int64_t number(Compiler *c)
{
    int64_t v = 0;
    for (; peek(c) >= '0' && peek(c) <= '9' && v <= 1000; c->at++) v = v * 10 + peek(c) - '0';
    if (v > 1000) refuse(c, "a repeat of more than 1000");
    return v;
}

// Reads {n}, {n,} or {n,m}. Any other brace is an ordinary character, except {,m}, which some
// engines read as a repeat: it is refused.
static bool braces(Compiler *c, int64_t *low, int64_t *high)
{
    const unsigned char *from = c->at;
    if (!accept(c, "{")) return false;
    if (accept(c, ",") && number(c) >= 0 && accept(c, "}"))
        return refuse(c, "{,m} is not supported, {0,m} is"), false;
    c->at = from + 1;
    if (peek(c) < '0' || peek(c) > '9') return c->at = from, false;
    *low = *high = number(c);
    if (accept(c, ",")) *high = peek(c) == '}' ? MOST : number(c);
    if (!accept(c, "}")) return c->at = from, false;
    if (*high < *low) refuse(c, "a repeat whose maximum is below its minimum");
    return true;
}

static bool nullable(const Tree *t)
{
    bool none = false, all = true;
    for (const Tree *k = t->child; k; k = k->next) {
        none = none || nullable(k);
        all = all && nullable(k);
    }
    return t->kind == TREE_ROW      ? all
           : t->kind == TREE_CHOICE ? none
           : t->kind == TREE_REPEAT ? t->low == 0 || none
                                    : t->kind != TREE_SET;
}

static Tree *repeated(Compiler *c, bool fold)
{
    Tree *t = atom(c, fold);
    int outer = c->depth;
    for (int64_t low, high; !c->why;) {
        bool brace = false;
        if (accept(c, "*"))
            low = 0, high = MOST;
        else if (accept(c, "+"))
            low = 1, high = MOST;
        else if (accept(c, "?"))
            low = 0, high = 1;
        else if (braces(c, &low, &high))
            brace = true;
        else
            break;
        if (++c->depth > DEEPEST) refuse(c, "nested too deeply"); // a repeat of a repeat
        Tree *r = tree(c, TREE_REPEAT);
        r->low = low;
        r->high = high;
        r->child = t;
        if (t->kind == TREE_AHEAD || t->kind == TREE_FINISH) refuse(c, "a repeat of nothing");
        if (high == MOST && nullable(t))
            refuse(c, "an endless repeat of something that may be empty");
        if (accept(c, "?")) refuse(c, "lazy repeats are not supported");
        if (!(brace && c->kind == PATTERN_RUBY) && accept(c, "+")) {
            r->owned = true;
            if (t->kind != TREE_SET) refuse(c, "possessive repeats of groups are not supported");
        }
        t = r;
    }
    c->depth = outer;
    return t;
}

static Tree *row(Compiler *c, bool fold)
{
    Tree *t = tree(c, TREE_ROW), **tail = &t->child;
    while (!c->why && peek(c) >= 0 && peek(c) != '|' && peek(c) != ')') {
        *tail = repeated(c, fold);
        tail = &(*tail)->next;
    }
    return t;
}

static Tree *choice(Compiler *c, bool fold)
{
    Tree *t = tree(c, TREE_CHOICE), **tail = &t->child;
    do {
        *tail = row(c, fold);
        tail = &(*tail)->next;
    } while (!c->why && accept(c, "|"));
    return t;
}

static int emit(Compiler *c, Code code)
{
    if (c->code.n >= LONGEST) return refuse(c, "too long"), 0;
    vec_push(c->arena, &c->code, code);
    return (int)c->code.n - 1;
}

static void generate(Compiler *c, const Tree *t);

static void generate_repeat(Compiler *c, const Tree *t)
{
    if (t->child->kind == TREE_SET) {
        emit(c, (Code){t->owned ? OP_OWNED : OP_RUN, 0, t->low, t->high, t->child->set});
        return;
    }
    for (int64_t i = 0; i < t->low && !c->why; i++) generate(c, t->child);
    if (t->high == MOST) {
        int split = emit(c, (Code){.op = OP_SPLIT});
        generate(c, t->child);
        emit(c, (Code){.op = OP_JUMP, .to = split});
        c->code.at[split].to = (int)c->code.n;
        return;
    }
    int first = (int)c->code.n, last = -1; // a list of the splits, linked through [to]
    for (int64_t i = t->low; i < t->high && !c->why; i++) {
        last = emit(c, (Code){.op = OP_SPLIT, .to = last});
        generate(c, t->child);
    }
    for (int k = last; k >= first && !c->why;) {
        int before = c->code.at[k].to;
        c->code.at[k].to = (int)c->code.n;
        k = before;
    }
}

static void generate_choice(Compiler *c, const Tree *t)
{
    int last = -1; // a list of the jumps to the end, linked through [to]
    for (const Tree *k = t->child; k && !c->why; k = k->next) {
        int split = k->next ? emit(c, (Code){.op = OP_SPLIT}) : -1;
        generate(c, k);
        if (split < 0 || c->why) continue;
        last = emit(c, (Code){.op = OP_JUMP, .to = last});
        c->code.at[split].to = (int)c->code.n;
    }
    while (last >= 0 && !c->why) {
        int before = c->code.at[last].to;
        c->code.at[last].to = (int)c->code.n;
        last = before;
    }
}

static void generate(Compiler *c, const Tree *t)
{
    // (Limits repeats of empty patterns, too, which generate no code.)
    if (++c->made > 4 * LONGEST) refuse(c, "too long");
    if (c->why) return;
    switch (t->kind) {
    case TREE_SET: emit(c, (Code){.op = OP_SET, .set = t->set}); break;
    case TREE_FINISH: emit(c, (Code){.op = c->kind == PATTERN_RUBY ? OP_LINE : OP_FINISH}); break;
    case TREE_ROW:
        for (const Tree *k = t->child; k; k = k->next) generate(c, k);
        break;
    case TREE_CHOICE: generate_choice(c, t); break;
    case TREE_REPEAT: generate_repeat(c, t); break;
    case TREE_AHEAD: {
        int at = emit(c, (Code){.op = t->negated ? OP_NOT : OP_AHEAD});
        generate(c, t->child);
        emit(c, (Code){.op = OP_MATCH});
        if (!c->why) c->code.at[at].to = (int)c->code.n;
        break;
    }
    }
}

const Pattern *pattern_compile(Arena *a, const char *text, size_t n, PatternKind kind,
                               const uint8_t *category, const char **why)
{
    const unsigned char *t = (const unsigned char *)text;
    Compiler c = {
        .arena = a, .at = t, .begin = t, .end = t + n, .kind = kind, .category = category};
    Tree *root = choice(&c, false);
    if (!c.why && c.at < c.end) refuse(&c, ") closes nothing");
    if (!c.why && nullable(root)) refuse(&c, "it may match nothing");
    generate(&c, root);
    emit(&c, (Code){.op = OP_MATCH});
    *why = c.why;
    if (c.why) return NULL;
    Pattern *p = NEW(a, Pattern);
    *p = (Pattern){c.code.at, category, arena_strndup(a, text, n)};
    return p;
}
