// The syntax: trees, messages, recovery, limits, the formatter, and dumps of graphs read back.
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "base/embedded.h"
#include "frontend/ast.h"
#include "frontend/frontend.h"
#include "frontend/read_graph.h"
#include "tests/unit/unit.h"

static const char *tree(Arena *a, Diags *d, const char *text)
{
    uint32_t source = source_add(d, "t.net", text, strlen(text), false);
    Buf b = buf_new(a);
    frontend_print_ast(a, d, source, &b);
    return b.data;
}

static const char *rendered(Arena *a, Diags *d)
{
    Buf b = buf_new(a);
    diags_render(d, &b, false);
    return b.data;
}

// -- trees ----------------------------------------------------------------------------------------

static const struct {
    const char *text, *tree; // one statement inside a function
} trees[] = {
    {"x = a + b * c ** -d ** e", "let x = (+ a (* b (** c (- (** d e)))))"},
    {"x = -2 ** 2", "let x = (- (** 2 2))"},
    {"x = -3 - -0.0", "let x = (- -3 -0.0)"},
    {"x = -9223372036854775808", "let x = -9223372036854775808"},
    {"x = a - b - c", "let x = (- (- a b) c)"},
    {"x = a ** b ** c", "let x = (** a (** b c))"},
    {"x = not a == b and c or d", "let x = (or (and (not (== a b)) c) d)"},
    {"x = 0..n + 1", "let x = (range 0 (+ n 1))"},
    {"x = a // b % c", "let x = (% (// a b) c)"},
    {"x = a / b\n    y = c", "let x = (/ a b)\n    let y = c"},
    {"x = a <\n    -b", "let x = (< a (- b))"},
    {"p <- p - lr * g", "write p <- (- p (* lr g))"},
    {"s[:, pos] <- v", "write s[(slice _ _ _), pos] <- v"},
    {"wte.weight <- e", "write wte.weight <- e"},
    {"B, T, _ = shape(x)", "let B, T, _ = shape(x)"},
    {"x = a, b", "let x = (tuple a, b)"},
    {"x = y[:, 1:, ::2, a:b:c, ..., t]",
     "let x = y[(slice _ _ _), (slice 1 _ _), (slice _ _ 2), (slice a b c), ..., t]"},
    {"x = relu(linear(x, h) as fc1)", "let x = relu((as \"fc1\" linear(x, h)))"},
    {"x = a + b as fc2", "let x = (as \"fc2\" (+ a b))"},
    {"x = f(x) as h[i].attn", "let x = (as \"h\"[i].\"attn\" f(x))"},
    {"x = f(x) as 'h.0.attn' reuse in", "let x = (reuse \"in\" (as \"h.0.attn\" f(x)))"},
    {"x = if a then b else if c then d else e", "let x = (if a b (if c d e))"},
    {"x = [a, [1, 2.5e1,], []]", "let x = [a, [1, 25.0], []]"},
    {"x = f(a, b = 1, c = 'it\\'s\\x21',)", "let x = f(a, b=1, c=\"it's!\")"},
    {"x = 0xff + 1_000 + 1_0.2_5 + inf + nan", "let x = (+ (+ (+ (+ 255 1000) 10.25) inf) nan)"},
    {"x = f(a)[0].b(c)", "let x = f(a)[0].b(c)"},
    {"x = f(a) @{key=1, as=\"b\", list=[1, -2], t=f32}",
     "let x = f(a) @{key=1, as=\"b\", list=[1, -2], t=f32}"},
    {"return", "return"},
    {"return loss = a,\n        # a comment\n        b", "return loss=a, b"},
    {"for i in 0..n {}", "for i = (range 0 n)"},
    {"for p, g in pairs { x = p; y = g; }",
     "for p, g = pairs\n        let x = p\n        let y = g"},
    {"if a { x = 1 } else if b { x = 2 }\n    else { x = 3 }",
     "if = a\n        let x = 1\n    else\n        if = b\n            let x = 2\n        else\n"
     "            let x = 3"},
    {"param w: f32[a, b * 2] = f() frozen", "param frozen w: f32[a, (* b 2)] = f()"},
    {"state m: f32[shape(p)] = 0", "state m: f32[shape(p)] = 0"},
    {"scratch state m: f32 = 0", "state scratch m: f32 = 0"},
    {"loop t in 0..T carry h, c over xt = xs, ys { h = xt\n emit y = h }",
     "loop t h, c = (range 0 T) over xt=xs, ys=ys\n        let h = xt\n        emit y = h"},
    {"loop t in 0..T {\n}", "loop t = (range 0 T)"},
    {"loop t in 0..T carry h over xs while h > 0 { h = h + xs }",
     "loop t h = (range 0 T) over xs=xs while (> h 0)\n        let h = (+ h xs)"},
    {"while = over + carry", "let while = (+ over carry)"},
    {"tap grad(loss, x) as g.x", "tap = grad(loss, x) as \"g\".\"x\""},
    {"assert a > 0 and b, \"say why\"", "assert \"say why\" = (and (> a 0) b)"},
    {"assert not a, 'b'", "assert \"b\" = (not a)"},
    // Words that are keywords only where nothing else fits.
    {"step = step + rest", "let step = (+ step rest)"},
    {"update = clip(state, over, carry)", "let update = clip(state, over, carry)"},
    {"over, frozen = param", "let over, frozen = param"},
    {"state_dict.in <- emit[dim]", "write state_dict.in <- emit[dim]"},
    {"x = f(loop = 1, model = 2)", "let x = f(loop=1, model=2)"},
    {"accumulate = 3", "let accumulate = 3"},
    {"loop(x)", "do = loop(x)"},
};

static void test_trees(void)
{
    for (size_t k = 0; k < sizeof trees / sizeof *trees; k++) {
        Arena *a = arena_new();
        Diags *d = diags_new(a);
        const char *got = tree(a, d, arena_printf(a, "fn f(x) {\n    %s\n}\n", trees[k].text));
        const char *want = arena_printf(a, "fn f(x)\n    %s\n", trees[k].tree);
        CHECK_MSG(!d->errors, "%s\n%s", trees[k].text, rendered(a, d));
        CHECK_MSG(!strcmp(got, want), "%s\ngot  %s\nwant %s", trees[k].text, got, want);
        arena_free(a);
    }
}

static const char top_level[] =
    "\xef\xbb\xbfuse nn\r\n"
    "use \"layers.net\"\n"
    "const h = [64, 128]\n"
    "dim batch = 128\n"
    "dim T\n"
    "setting lr = 1e-3\n"
    "fn act(x, f = relu, width: i64 = 3)\n"
    "{ return f(x) }\n"
    "grad(dy) { return dy }\n"
    "model m(image: u8[batch, 28], label: u8[batch] in 0..10,) { return image }\n"
    "train m {\n"
    "    minimize loss + 1 over params('gen.*'); clip clip_norm(1.0)\n"
    "    update adamw(lr = lr) for rest\n"
    "    accumulate 4\n"
    "}";

static void test_top_level(void)
{
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    const char *got = tree(a, d, top_level);
    CHECK_MSG(!d->errors, "%s", rendered(a, d));
    const char *want =
        "use nn\nuse \"layers.net\"\nconst h = [64, 128]\ndim batch = 128\ndim T\n"
        "setting lr = 0.001\nfn act(x, f = relu, width: i64 = 3)\n    return f(x)\n"
        "grad(dy)\n    return dy\n"
        "model m(image: u8[batch, 28], label: u8[batch] in 0..10)\n    return image\n"
        "train m\n    minimize = (+ loss 1) for params(\"gen.*\")\n"
        "    clip = clip_norm(1.0)\n    update = adamw(lr=lr) for rest\n"
        "    accumulate = 4\n";
    CHECK_MSG(!strcmp(got, want), "got\n%s\nwant\n%s", got, want);
    arena_free(a);
}

// -- messages -------------------------------------------------------------------------------------

static const struct {
    const char *text;
    const char *errors; // "line:col: message\n" for each
} wrong[] = {
    {"fn f(x) {\n    y = x *\n}\n", "3:1: unexpected '}', expected an expression\n"},
    {"fn f(x) { y = g(x z) }\n", "1:19: missing ',' before name 'z'\n"},
    {"fn f(x) { y = [1 2] }\n", "1:18: missing ',' before number '2'\n"},
    {"fn f(x) { if x = 3 { y = 1 } }\n",
     "1:16: '=' gives a name to a value; to compare, write '=='\n"},
    {"fn f(x) {\n y = 'abc\n z = 1\n}\n", "2:6: this string has no closing ' on its line\n"},
    {"fn f(x) {\n y = g(1, (2\n z = 1\n w = = 2\n}\n",
     "2:7: this '(' is never closed\n2:11: this '(' is never closed\n"
     "4:6: unexpected '=', expected an expression\n"},
    {"fn f(x {\n return x\n}\nfn g(y) { return + }\n",
     "1:5: this '(' is never closed\n4:18: unexpected '+', expected a value\n"},
    {"fn f(x) {\n if x { y = 1\n\nfn g(x) { return x }\n",
     "1:9: this '{' is never closed\n2:7: this '{' is never closed\n"},
    {"fn f(x) { y = (1] }\n", "1:17: ']' does not close the '(' before it\n"},
    {"fn f(x) { return x }\n}\n", "2:1: '}' closes nothing: there is no open '{' here\n"},
    {"fn f(x) { in = 3 }\n", "1:11: 'in' is a keyword and cannot be a name\n"},
    {"fn f(for) { return 3 }\n", "1:6: 'for' is a keyword and cannot be a name\n"},
    {"fn f(x) { param as: f32 = 1 }\n", "1:17: 'as' is a keyword and cannot be a name\n"},
    {"fn f(x) {\n    y = x +\n    z = 1\n}\n",
     "3:7: unexpected '=', expected the end of the line or '}'\n"},
    {"fn f(x) {\n for i 0..3 { y = }\n if { z = 1 }\n loop t { q = * }\n}\n",
     "2:8: unexpected number '0', expected 'in' or ','\n2:19: unexpected '}', expected an "
     "expression\n"
     "3:5: unexpected '{', expected an expression\n4:9: unexpected '{', expected 'in'\n"
     "4:15: unexpected '*', expected an expression\n"},
    {"fn f(x) { y = 12ab; z = 1 $ 2; w = a && b }\n",
     "1:15: '12ab' is neither a number nor a name\n1:27: unexpected character '$'\n"
     "1:38: there is no '&&': write 'and'\n"},
    {"fn f(x) { y = 11111111111111111111111111111111111111111111 }\n",
     "1:15: integer 1111111111111111111111111111111111111111... does not fit in 64 bits\n"},
    {"fn f(x) { y = x @ x }\n", "1:17: there is no '@': products are written matmul(a, b)\n"},
    {"fn f(x) { x += 1 }\n", "1:13: there is no '+=': write 'x = x + ...'\n"},
    {"fn f(x) { x[0] = 1; f(x) = 2 }\n", "1:11: '=' names a value; to write a parameter, a state "
                                         "or a part of one, use '<-'; of another "
                                         "value, scatter(x, index, part) is one with another part\n"
                                         "1:21: only a name can be on the left of '='\n"},
    {"fn f(x) { y = 9223372036854775808; z = 99999999999999999999 }\n",
     "1:15: integer 9223372036854775808 does not fit in 64 bits\n"
     "1:40: integer 99999999999999999999 does not fit in 64 bits\n"},
    {"fn f(x) { y = 'a\\q' }\n",
     "1:17: unknown escape in a string; known are \\n \\t \\r \\\\ \\\" \\' \\xHH \\uHHHH\n"},
    {"x = 3\nfn f(x) { minimize x; fn g(y) { return y } }\n",
     "1:1: a statement outside of a function or model; for a compile-time value write "
     "'const x = ...'\n2:11: this statement belongs in a 'train' block\n"
     "2:26: 'g' is declared inside a block; declarations belong at the top level\n"},
    {"model m(x: u8[3] in 4) { return x }\n", "1:21: expected a range of values such as 0..10\n"},
    {"fn f(x) { y = x @{a=1} }\n", "1:15: '@{...}' belongs after the arguments of a call\n"},
    {"model (x) { return x }\n", "1:7: unexpected '(', expected a name\n"},
    {"fn f(x) { if x <-1 { y = 2 } }\n",
     "1:16: '<-' writes a state and cannot stand here; for 'less than minus' write '< -'\n"},
    {"fn f(x)\n", "2:1: unexpected end of the file, expected '{' or '='\n"},
};

static void test_messages(void)
{
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        Arena *a = arena_new();
        Diags *d = diags_new(a);
        uint32_t source = source_add(d, "t.net", wrong[k].text, strlen(wrong[k].text), false);
        parse_source(a, d, source);
        Buf got = buf_new(a);
        for (uint32_t i = 0; i < d->list.n; i++) {
            uint32_t line, col;
            span_line_col(d, d->list.at[i].span, &line, &col);
            buf_printf(&got, "%u:%u: %s\n", line, col, d->list.at[i].text);
        }
        CHECK_MSG(!strcmp(got.data, wrong[k].errors), "%s\ngot\n%s\nwant\n%s", wrong[k].text,
                  got.data, wrong[k].errors);
        CHECK(!format_source(a, d, source));
        arena_free(a);
    }
}

// -- limits ---------------------------------------------------------------------------------------

static void repeat(Buf *b, const char *s, int n)
{
    while (n-- > 0) buf_str(b, s);
}

// head, then one text n times, then the middle, then the other n times, tail
static uint32_t errors_of(const char *head, const char *open, const char *middle, const char *close,
                          const char *tail, int n, bool several)
{
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    Buf b = buf_new(a);
    buf_str(&b, head);
    repeat(&b, open, n);
    buf_str(&b, middle);
    repeat(&b, close, n);
    buf_str(&b, tail);
    uint32_t source = source_add(d, "t.net", b.data, b.len, false);
    parse_source(a, d, source);
    uint32_t errors = d->errors;
    CHECK_MSG(several || errors <= 1, "%u errors: %s", errors, rendered(a, d));
    format_source(a, d, source);
    arena_free(a);
    return errors;
}

static void test_limits(void)
{
    const char *head = "fn f(x) { y = ";
    int n = 100000;
    CHECK(errors_of(head, "(", "x", ")", "}", n, false) == 1);
    CHECK(errors_of(head, "[", "x", "]", "}", n, false) == 1);
    CHECK(errors_of(head, "- ", "x", "", "}", n, false) == 1);
    CHECK(errors_of(head, "not ", "x", "", "}", n, false) == 1);
    CHECK(errors_of(head, "x + ", "x", "", "}", n, false) == 1);
    CHECK(errors_of(head, "x ** ", "x", "", "}", n, false) == 1);
    CHECK(errors_of(head, "if x then x else ", "x", "", "}", n, false) == 1);
    CHECK(errors_of(head, "", "x", "(x)", "}", n, false) == 1);
    CHECK(errors_of(head, "", "x", ".x", "}", n, false) == 1);
    CHECK(errors_of("fn f(x) {", "if x { ", "y = x", "}", "}", n, false) == 1);
    CHECK(errors_of("fn f(x) {", "if x { y = 1 } else ", "{}", "", "}", n, false) == 1);
    CHECK(errors_of(head, "", "x", " as s", "}", n, false) == 1);
    CHECK(errors_of(head, "]", "x", "", "}", n, true) == (uint32_t)n);
    // As deep as a person writes, and as long as a machine does.
    CHECK(errors_of(head, "(", "x", ")", "}", 150, false) == 0);
    CHECK(errors_of("fn f(x) {", "if x { ", "y = x", "}", "}", 150, false) == 0);
    CHECK(errors_of(head, "x + ", "x", "", "}", 300, false) == 0);
    CHECK(errors_of(head, "[1, ", "1", "]", "}", 100, false) == 0);
    CHECK(errors_of("fn f(x) { y = [", "1, ", "2", "", "]}", n, false) == 0);
    CHECK(errors_of("fn f(x) {\n", "y = x + 1\n", "", "", "}", n, false) == 0);
}

static void test_odd_texts(void)
{
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    uint32_t source = source_add(d, "t.net", "", 0, false);
    CHECK(parse_source(a, d, source)->stmts.n == 0 && !d->errors);
    CHECK(!strcmp(format_source(a, d, source), ""));
    source = source_add(d, "t.net", "use nn\0\nuse optim", 17, false);
    CHECK(parse_source(a, d, source)->stmts.n == 0 && d->errors == 1);
    source = source_add(d, "t.net", "\xff\xfe", 2, false);
    parse_source(a, d, source);
    CHECK(d->errors == 2);
    arena_free(a);
}

// -- the formatter --------------------------------------------------------------------------------

// Formatting keeps the tree and formatting again changes nothing.
static void check_format(const char *path, const char *text, size_t len)
{
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    uint32_t before = source_add(d, path, text, len, false);
    const char *once = format_source(a, d, before);
    CHECK_MSG(once, "%s", rendered(a, d));
    if (once) {
        uint32_t after = source_add(d, path, once, strlen(once), false);
        const char *twice = format_source(a, d, after);
        CHECK_MSG(twice && !strcmp(once, twice), "%s is not stable:\n%s\nthen\n%s", path, once,
                  twice ? twice : rendered(a, d));
        Buf x = buf_new(a), y = buf_new(a);
        frontend_print_ast(a, d, before, &x);
        frontend_print_ast(a, d, after, &y);
        CHECK_MSG(!strcmp(x.data, y.data), "%s changes meaning:\n%s", path, once);
    }
    arena_free(a);
}

static const char ugly[] = "\n\n# head\nuse nn ;\nfn f( x,y=1 )\n{\n\n\n  z=x*-y   # why\n"
                           "  # alone   \n\n\n\n  if  z{w=[ 1,2 ];v = x [ : ,1 :] ;}\n"
                           "  else {\n}\n  q = g(z,\n  h(\n a),\n # inner\n b = 0 .. 3)@{ k = 1 }\n"
                           "  for i in 0..2 {\n  for k in 0..2 {\n  z = x[ : , :: 2]\n  }\n  }\n"
                           "  return loss=z,\n    w,\n  v\n\n}\n\n\n";
static const char tidy[] =
    "# head\nuse nn\nfn f(x, y = 1) {\n    z = x * -y  # why\n    # alone\n\n"
    "    if z { w = [1, 2]; v = x[:, 1:] } else {\n    }\n"
    "    q = g(z,\n        h(\n            a),\n        # inner\n"
    "        b = 0..3) @{k=1}\n    for i in 0..2 {\n        for k in 0..2 {\n"
    "            z = x[:, ::2]\n        }\n    }\n    return loss = z,\n           w,\n"
    "           v\n}\n";

static void test_format(void)
{
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    const char *got = format_source(a, d, source_add(d, "t.net", ugly, strlen(ugly), false));
    CHECK_MSG(got && !strcmp(got, tidy), "got\n%s\nwant\n%s", got ? got : rendered(a, d), tidy);
    check_format("tidy", tidy, strlen(tidy));
    check_format("top level", top_level, strlen(top_level));
    for (size_t k = 0; k < sizeof trees / sizeof *trees; k++) {
        const char *text = arena_printf(a, "fn f(x) {\n    %s\n}\n", trees[k].text);
        check_format(trees[k].text, text, strlen(text));
    }
    for (const EmbeddedFile *f = std_files; f->name; f++) check_format(f->name, f->text, f->len);
    glob_t found = {0};
    glob("samples/*.net", 0, NULL, &found);
    glob("samples/*/*.net", GLOB_APPEND, NULL, &found);
    glob("tests/net/*.net", GLOB_APPEND, NULL, &found);
    for (size_t k = 0; k < found.gl_pathc; k++) {
        FILE *f = fopen(found.gl_pathv[k], "rb");
        char *text = arena_alloc(a, 1 << 20);
        size_t len = f ? fread(text, 1, 1 << 20, f) : 0;
        if (f) fclose(f);
        uint32_t errors = d->errors;
        parse_source(a, d, source_add(d, found.gl_pathv[k], text, len, false));
        // Tests of messages may hold syntax errors.
        if (d->errors == errors || strncmp(found.gl_pathv[k], "tests/", 6))
            check_format(found.gl_pathv[k], text, len);
    }
    globfree(&found);
    arena_free(a);
}

// -- dumps ----------------------------------------------------------------------------------------

static Graph *loop_body(Module *m)
{
    Graph *g = graph_new(m->arena, m->diags, m->symbols.at);
    Type types[3] = {type_scalar(DT_I64), type_make(DT_F32, 1, (int64_t[]){4}),
                     type_make(DT_F32, 1, (int64_t[]){4})};
    Node *p[3];
    for (int k = 0; k < 3; k++) p[k] = graph_region_param(g, &types[k]);
    Node *next = graph_binary(g, OP_add, p[1], p[2]);
    vec_push(m->arena, &g->results, next);
    vec_push(m->arena, &g->results, graph_unary(g, OP_tanh, next));
    return g;
}

static Module *sample_module(Arena *a, Diags *d)
{
    Module *m = module_new(a, d, "my-net 2");
    Type w = type_make(DT_F32, 2, (int64_t[]){8, 4});
    module_add_cell(m, &(Cell){.name = "fc.\"w\"", .kind = CELL_PARAM, .type = w, .initial = -0.0});
    module_add_cell(m, &(Cell){.name = "n",
                               .kind = CELL_STATE,
                               .type = type_scalar(DT_I64),
                               .initial = 1e-300,
                               .frozen = true});
    Graph *g = graph_new(a, d, m->symbols.at);
    Type xt = type_make(DT_F32, 2, (int64_t[]){3, 8});
    Node *x = graph_input(g, "x", &xt, "data"), *p = graph_leaf_cell(g, OP_param, "fc.\"w\"", &w);
    g->name = "h";
    Node *h = graph_matmul(g, x, p);
    g->role = ROLE_BACKWARD;
    Node *s = graph_reduce(g, OP_sum, h, (int64_t[]){0}, 1, false);
    Attrs at = {0};
    attr_set_int(&at, ATTR_count, 3);
    attr_set_int(&at, ATTR_carried, 1);
    attr_set_int(&at, ATTR_scanned, 1);
    Graph *body = loop_body(m);
    Node *loop = graph_region_node(g, OP_loop, (Node *[]){s, h}, 2, &at, &body, 1);
    Node *last = graph_result(g, loop, 0), *all = graph_result(g, loop, 1);
    Node *inf = graph_const(g, DT_F32, -1.0 / 0.0), *tiny = graph_const(g, DT_F32, 1e-38);
    Node *both = graph_ew(g, OP_maximum, (Node *[]){all, inf}, 2);
    both = graph_ew(g, OP_mul, (Node *[]){both, tiny}, 2);
    Node *bits = graph_const_int(g, DT_I64, INT64_MIN);
    Node *n = graph_leaf_cell(g, OP_state, "n", &(Type){.dtype = DT_I64});
    Node *small = graph_binary(g, OP_and, graph_binary(g, OP_gt, n, bits),
                               graph_unary(g, OP_not, graph_binary(g, OP_lt, n, bits)));
    graph_root(g, OP_output, both, "loss");
    graph_root(g, OP_output, last, "last\nline");
    graph_root(g, OP_assign, graph_binary(g, OP_bit_xor, n, bits), "n");
    graph_root(g, OP_assert, small, "say \"why\" \\ é");
    Entry e = {.name = "train",
               .kind = ENTRY_TRAIN,
               .graph = g,
               .rows = true,
               .cursor = CELL_CURSOR,
               .batch = 3};
    vec_push(a, &e.dims, (DimBinding){"batch", 3, DIM_FLAG, true});
    vec_push(a, &m->entries, e);
    return m;
}

static void test_dump(void)
{
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    Module *m = sample_module(a, d);
    CHECK_MSG(!d->errors, "%s", rendered(a, d));
    Buf text = buf_new(a);
    module_print(m, "autodiff", &text);
    uint32_t source = source_add(d, "dump.net", text.data, text.len, false);
    File *f = parse_source(a, d, source);
    CHECK_MSG(!d->errors, "%s\n%s", text.data, rendered(a, d));
    CHECK(is_graph_dump(f));
    Module *back = d->errors ? NULL : read_module(a, d, f);
    CHECK_MSG(back && !d->errors, "%s\n%s", text.data, rendered(a, d));
    if (back) {
        CHECK(!strcmp(back->stage, "autodiff") && !strcmp(back->name, "my-net 2"));
        CHECK(back->cells.n == 2 && back->entries.n == 1);
        CHECK(graph_equal(m->entries.at[0].graph, back->entries.at[0].graph));
        CHECK(graph_verify(back->entries.at[0].graph, "reading"));
        CHECK(back->entries.at[0].rows && back->entries.at[0].batch == 3);
        CHECK(back->entries.at[0].dims.n == 1 && back->entries.at[0].dims.at[0].is_batch);
        CHECK(back->cells.at[1].frozen && back->cells.at[1].initial == 1e-300);
        Buf again = buf_new(a); // the same text but for the places in its comments
        module_print(back, "autodiff", &again);
        CHECK(back->entries.at[0].graph->nodes.n == m->entries.at[0].graph->nodes.n);
        check_format("dump", again.data, again.len);
    }
    arena_free(a);
}

#define HEAD "module m @{version=1, stage=\"x\"}\n"
#define IN   HEAD "entry t @{kind=\"model\"} {\n v0 = input() @{name=\"x\", shape=[2], dtype=f32}\n"

static const struct {
    const char *text, *message; // of the first error, its beginning
} bad_dumps[] = {
    {"module m @{version=2, stage=\"x\"}\n", "this dump is of version 2"},
    {"module m @{version=1}\n", "'m' has no stage="},
    {HEAD "fn f(x) { return x }\n", "a dump of a graph holds cells and entries only"},
    {HEAD "cell \"w\": f33[2] @{kind=\"param\"}\n", "unknown element type 'f33'"},
    {HEAD "cell \"w\": f32[-2] @{kind=\"param\"}\n", "a dimension cannot be negative"},
    {HEAD "cell \"w\": f32[2] @{kind=\"parm\"}\n", "unknown kind 'parm'"},
    {HEAD "cell \"w\": f32[2] @{kind=\"param\", frozn=1}\n", "unknown key 'frozn'"},
    {IN " v1 = tanhh(v0)\n}\n", "unknown primitive 'tanhh'"},
    {IN " v1 = tanh(v7)\n}\n", "'v7' is not a value defined before this line"},
    {IN " v0 = tanh(v0)\n}\n", "'v0' is defined twice"},
    {IN " v1 = v0 + v0\n}\n", "a line of a dump is"},
    {IN " v1 = sum(v0) @{axs=[0]}\n}\n", "unknown attribute 'axs'"},
    {IN " v1 = sum(v0) @{axes=0}\n}\n", "expected a list of integers"},
    {IN " v1 = tanh(v0) @{role=\"sideways\"}\n}\n", "unknown role 'sideways'"},
    {IN " v1 = tanh(v0) { (p0: f32[2]) -> return p0 }\n}\n", "'tanh' takes no region"},
    {IN " v1 = call(v0) @{name=\"f\"}\n}\n", "'call' needs a region"},
    {IN " v1 = call(v0) @{name=\"f\"} { (p0: f32[2]) -> v2 = tanh(p0) }\n}\n",
     "a region ends with 'return'"},
};

static void test_bad_dumps(void)
{
    for (size_t k = 0; k < sizeof bad_dumps / sizeof *bad_dumps; k++) {
        Arena *a = arena_new();
        Diags *d = diags_new(a);
        const char *text = bad_dumps[k].text;
        File *f = parse_source(a, d, source_add(d, "t.net", text, strlen(text), false));
        CHECK_MSG(!d->errors, "%s\n%s", text, rendered(a, d));
        if (!d->errors) CHECK(!read_module(a, d, f));
        const char *got = d->list.n ? d->list.at[0].text : "no error";
        CHECK_MSG(!strncmp(got, bad_dumps[k].message, strlen(bad_dumps[k].message)),
                  "%s\ngot  %s\nwant %s", text, got, bad_dumps[k].message);
        arena_free(a);
    }
}

int main(void)
{
    test_trees();
    test_top_level();
    test_messages();
    test_limits();
    test_odd_texts();
    test_format();
    test_dump();
    test_bad_dumps();
    return unit_done();
}
