// User-written kernels: their text, preceded by its constants and followed by the kernel that calls
// it.
//
// Functions that the text declares __global__ become __device__ functions of the same length, so
// that positions in errors stay the same, and a generated kernel calls the one that is launched. So
// the compiler checks the arguments, whatever the function's linkage, and numbers among them are
// constants.
#include <stdlib.h>
#include <string.h>

#include "base/plain.h"
#include "codegen/launch/launch.h"
#include "codegen/text/print.h"

typedef struct Extern {
    LowerCtx *ctx;
    const Node *n;
    bool cuda;
    const Node **value; // operands, then results; NULL: a result without readers
    Type *type;
    const char **name;
    int nvalues;
    const char *constants; // from the attribute, after the names
} Extern;

typedef struct Launch {
    const char *kernel, *call; // scan_fwd, scan_fwd<9>($0,$2,6)
    size_t len;                // of call
    int *arg, nargs;           // values passed to the kernel, each once
    const int64_t *size;       // EXTERN_LAUNCH
} Launch;

// -- values ---------------------------------------------------------------------------------------

static const Node *in_place(const Graph *g, const Node *n) // the stored value from which the
                                                           // operand is read
{
    while (!g->fusion->group_of[n->id] && node_keeps_all(n)) n = n->args[0];
    return n;
}

static Extern extern_begin(LowerCtx *ctx, const Graph *g, const Group *group)
{
    Arena *a = ctx->arena;
    const Node *n = group->anchor;
    int results = node_result_count(n), nargs = (int)n->nargs;
    Extern x = {.ctx = ctx, .n = n, .cuda = ctx->target->kind == TARGET_CUDA};
    x.nvalues = nargs + results;
    x.value = NEW_ARRAY(a, const Node *, x.nvalues + 1);
    x.type = NEW_ARRAY(a, Type, x.nvalues + 1);
    x.name = NEW_ARRAY(a, const char *, x.nvalues + 1);
    for (int i = 0; i < nargs; i++) {
        x.value[i] = in_place(g, n->args[i]);
        x.type[i] = n->args[i]->type;
    }
    for (int i = 0; i < results; i++) x.type[nargs + i] = node_result_type(n, i);
    for (uint32_t i = 0; i < group->outs.n; i++) {
        const Node *out = group->outs.at[i];
        int index = node_has(out, OPF_RESULT) ? (int)attr_int(out, ATTR_index, 0) : 0;
        x.value[nargs + index] = out;
    }
    const char *p = attr_str(n, ATTR_operands);
    for (int i = 0; i < x.nvalues; i++) {
        size_t len = strcspn(p, " ");
        x.name[i] = len ? arena_strndup(a, p, len) : arena_printf(a, "v%d", i);
        p += len + (p[len] == ' ');
    }
    x.constants = p;
    return x;
}

// -- text -----------------------------------------------------------------------------------------

static const char *element(const Extern *x, DType t)
{
    if (t == DT_BOOL) return x->cuda ? "bool" : "_Bool"; // (bytes of 0 and 1)
    if (x->cuda && t == DT_F16) return "nc_f16";
    if (x->cuda && t == DT_BF16) return "nc_bf16";
    return type_storage(t);
}

// In C all kernels are one translation unit: names get the suffix [own].
static void rename(Buf *out, const char *name, const char *own)
{
    if (*own) buf_printf(out, "#define %s %s%s\n", name, name, own);
}

static void define(const Extern *x, Buf *out, const char *own, const char *type, const char *name,
                   const char *value)
{
    rename(out, name, own);
    if (x->cuda)
        buf_printf(out, "constexpr %s %s = %s;\n", type, name, value);
    else if (!strcmp(type, "int") || !strcmp(type, "bool"))
        buf_printf(out, "enum { %s = %s };\n", name, value);
    else
        buf_printf(out, "static const %s %s = %s;\n", type, name, value);
}

static void define_int(const Extern *x, Buf *out, const char *own, const char *name, int64_t v)
{
    bool wide = v != (int32_t)v;
    define(x, out, own, wide ? "long long" : "int", name,
           arena_printf(x->ctx->arena, wide ? "%lldll" : "%lld", (long long)v));
}

// Defines types, sizes and numbers known at compile time as names for the text.
static void constants(const Extern *x, const char *own, Buf *out)
{
    Arena *a = x->ctx->arena;
    for (int i = 0; i < x->nvalues; i++) {
        const Type *t = &x->type[i];
        const char *name = x->name[i];
        rename(out, arena_printf(a, "%s_type", name), own);
        buf_printf(out, "typedef %s %s_type;\n", element(x, t->dtype), name);
        define_int(x, out, own, arena_printf(a, "%s_rank", name), t->rank);
        define_int(x, out, own, arena_printf(a, "%s_size", name), type_count(t));
        for (int k = 0; k < t->rank; k++)
            define_int(x, out, own, arena_printf(a, "%s_dim%d", name, k), t->dim[k]);
    }
    for (const char *p = x->constants; *p; p += *p == ' ') {
        size_t len = strcspn(p, " "), at = strcspn(p, "=");
        if (at < len) {
            const char *value = arena_strndup(a, p + at + 1, len - at - 1);
            const char *type = *value == 't' || *value == 'f' ? "bool"
                               : strpbrk(value, ".pin")       ? "double"
                                                              : "long long";
            define(x, out, own, type, arena_strndup(a, p, at), value);
        }
        p += len;
    }
}

static bool word_char(char c)
{
    return plain_alnum(c) || c == '_';
}

static char *next_word(const char *text, char *p, const char *word)
{
    size_t n = strlen(word);
    for (; n && (p = strstr(p, word)); p += n)
        if (!word_char(p[n]) && (p == text || !word_char(p[-1]))) return p;
    return NULL;
}

// The text with its kernels turned into device functions. *bounds: the launch bounds of the
// launched kernel, or NULL.
static const char *as_functions(Arena *a, const char *source, const char *kernel,
                                const char **bounds)
{
    char *text = arena_strdup(a, source);
    *bounds = NULL;
    for (char *p = text; (p = next_word(text, p, "__global__"));) memcpy(p, "__device__", 10);
    for (char *p = text; (p = next_word(text, p, "__launch_bounds__"));) {
        char *open = p + strlen("__launch_bounds__"), *end = open;
        open += strspn(open, " \t\r\n");
        int depth = 0;
        for (end = open; *end; end++) {
            depth += (*end == '(') - (*end == ')');
            if (!depth) break;
        }
        if (*open != '(' || !*end) break;
        char *name = next_word(text, end, kernel);
        if (name && name < end + strcspn(end + 1, "(") + 1 && !*bounds)
            *bounds = arena_strndup(a, open, (size_t)(end + 1 - open));
        for (char *q = p; q <= end; q++)
            if (*q != '\n') *q = ' ';
        p = end;
    }
    return text;
}

// Prints the call, with its values as C expressions.
static void call_text(const Extern *x, const Launch *l, Buf *out)
{
    bool brackets = false; // (C has no templates)
    for (const char *p = l->call; p < l->call + l->len; p++) {
        brackets |= *p == '<';
        if (*p == '$') {
            char *end;
            long at = strtol(p + 1, &end, 10);
            int i = 0;
            while (l->arg[i] != at) i++;
            if (x->cuda)
                buf_printf(out, "a%d", i);
            else
                buf_printf(out, "(%s%s_type *)args[%d]", at < x->n->nargs ? "const " : "",
                           x->name[at], i);
            p = end - 1;
        } else if (x->cuda || !brackets) {
            buf_char(out, *p);
        }
        brackets &= *p != '>';
    }
}

static const char *cuda_text(const Extern *x, const ProgKernel *k, const Launch *l)
{
    const char *bounds, *source = attr_str(x->n, ATTR_source);
    Buf out = buf_new(x->ctx->arena);
    buf_printf(&out, "#define NETC_%s 1\n", l->kernel);
    constants(x, "", &out);
    buf_str(&out, as_functions(x->ctx->arena, source, l->kernel, &bounds));
    buf_printf(&out, "\n#line 1 \"launch of %s\"\nextern \"C\" __global__ void __launch_bounds__",
               l->kernel);
    if (bounds)
        buf_str(&out, bounds);
    else
        buf_printf(&out, "(%u)", k->block[0] * k->block[1] * k->block[2]);
    buf_printf(&out, " %s(", k->symbol);
    for (int i = 0; i < l->nargs; i++)
        buf_printf(&out, "%s%s%s_type *__restrict__ a%d", i ? ", " : "",
                   l->arg[i] < (int)x->n->nargs ? "const " : "", x->name[l->arg[i]], i);
    buf_str(&out, ")\n{\n    ");
    call_text(x, l, &out);
    buf_str(&out, ";\n}\n");
    return out.data;
}

// Renames the functions that the text defines at its outermost level.
static void rename_functions(const char *text, const char *own, Buf *out)
{
    const char *name = NULL, *end = NULL; // the last word, and its end
    const char *call = NULL;              // what was before the last brackets
    int depth = 0, round = 0;
    size_t len = 0;
    for (const char *p = text; *p; p++) {
        if (p[0] == '/' && p[1] == '/') {
            p += strcspn(p, "\n") - 1;
        } else if (p[0] == '/' && p[1] == '*') {
            const char *close = strstr(p + 2, "*/");
            if (!close) return;
            p = close + 1;
        } else if (*p == '#') {
            p += strcspn(p, "\n") - 1;
        } else if (*p == '"' || *p == '\'') {
            for (char q = *p++; *p && *p != q; p++) p += *p == '\\' && p[1];
            if (!*p) return;
        } else if (word_char(*p)) {
            for (name = p; word_char(p[1]);) p++;
            end = p + 1;
        } else if (*p == '(') {
            if (!depth && !round++) call = name, len = name ? (size_t)(end - name) : 0;
        } else if (*p == ')') {
            round -= !depth;
        } else if (*p == '{') {
            if (!depth && call) {
                buf_printf(out, "#define %.*s %.*s%s\n", (int)len, call, (int)len, call, own);
                call = NULL;
            }
            depth++;
        } else if (*p == '}') {
            depth--;
        } else if (*p == ';' || *p == '=') {
            if (!depth) call = NULL;
        }
    }
}

static const char *c_text(const Extern *x, const ProgKernel *k, const Launch *l)
{
    Arena *a = x->ctx->arena;
    Buf before = buf_new(a), out = buf_new(a);
    const char *own = arena_printf(a, "_%s", k->symbol), *source = attr_str(x->n, ATTR_cpu);
    buf_printf(&before, "#define NETC_%s 1\n", l->kernel);
    rename_functions(source, own, &before);
    constants(x, own, &before);
    buf_str(&out, before.data);
    buf_str(&out, source);
    buf_printf(&out,
               "\n#line 1 \"launch of %s\"\nvoid %s(void *const *args, const NcPar *par)\n{\n"
               "    (void)par;\n    (void)args;\n    ",
               l->kernel, k->symbol);
    call_text(x, l, &out);
    buf_str(&out, ";\n}\n");
    for (const char *p = before.data; (p = strstr(p, "#define ")); p += 8)
        buf_printf(&out, "#undef %.*s\n", (int)strcspn(p + 8, " "), p + 8);
    return out.data;
}

// -- launches -------------------------------------------------------------------------------------

static const char *file_of(Arena *a, const char *text) // from the line that names it
{
    const char *begin = strchr(text, '"'), *end = begin ? strchr(begin, '\n') : NULL;
    if (!end || end < begin + 2) return "";
    return arena_strndup(a, begin + 1, (size_t)(end - begin - 2));
}

static bool fits(const Extern *x, const char *kernel, int64_t shared)
{
    const Target *t = x->ctx->target;
    if (!x->cuda || shared <= t->shared_per_block) return true;
    diag_error(x->ctx->diags, x->n->loc,
               "'%s' asks for %lld bytes of shared memory; a block of %s has %lld", kernel,
               (long long)shared, t->name, (long long)t->shared_per_block);
    return false;
}

static void set_costs(const Extern *x, const Launch *l, ProgKernel *p)
{
    for (int i = 0; i < l->nargs; i++)
        *(l->arg[i] < (int)x->n->nargs ? &p->bytes_read : &p->bytes_written) +=
            type_bytes(&x->type[l->arg[i]]);
    double rate = x->ctx->target->bytes_per_second;
    if (rate > 0) p->floor_seconds = (double)(p->bytes_read + p->bytes_written) / rate;
}

static void set_args(const Extern *x, const Launch *l, LoweredKernel *k)
{
    k->args = NEW_ARRAY(x->ctx->arena, KernelArg, l->nargs + 1);
    k->nargs = l->nargs;
    for (int i = 0; i < l->nargs; i++) {
        int at = l->arg[i];
        KernelArg *a = &k->args[i];
        *a = (KernelArg){.kind = KA_NODE, .node = x->value[at], .same_as = -1};
        a->written = at >= (int)x->n->nargs;
        if (a->node) continue;
        a->kind = KA_SCRATCH;
        a->scratch = at;
        a->scratch_type = x->type[at].dtype;
        a->scratch_bytes = type_bytes(&x->type[at]);
    }
}

static LoweredKernel one_launch(const Extern *x, const Launch *l)
{
    Arena *a = x->ctx->arena;
    LoweredKernel k = {.loc = x->n->loc};
    ProgKernel *p = &k.prog;
    const char *source = attr_str(x->n, x->cuda ? ATTR_source : ATTR_cpu);
    Buf head = buf_new(a);
    constants(x, "", &head);
    uint64_t h = hash_mix(hash_str(source), hash_bytes(l->call, l->len, hash_str(head.data)));
    for (int i = 0; i < EXTERN_LAUNCH; i++) h = hash_mix(h, (uint64_t)l->size[i]);
    p->identity = hash_mix(h, x->n->nargs);
    p->symbol = arena_printf(a, "k_%016llx", (unsigned long long)p->identity);
    p->name = arena_printf(a, "%s_%08x", l->kernel, (unsigned)(p->identity >> 32));
    p->file = file_of(a, source);
    for (int i = 0; i < 3; i++) {
        p->grid[i] = x->cuda ? (uint32_t)l->size[i] : 1;
        p->block[i] = x->cuda ? (uint32_t)l->size[3 + i] : 1;
    }
    p->shared_bytes = x->cuda ? (uint32_t)l->size[6] : 0;
    set_costs(x, l, p);
    set_args(x, l, &k);
    p->text = x->cuda ? cuda_text(x, p, l) : c_text(x, p, l);
    p->schedule = arena_printf(a, "as written in %s", p->file);
    p->annotated =
        arena_printf(a, "// %s: %s of extern fn %s\n// %-24s %s\n// %s\n%s", p->name, l->kernel,
                     attr_str(x->n, ATTR_name), loc_text(x->ctx->diags, x->n->loc),
                     loc_line(x->ctx->diags, x->n->loc), p->schedule, p->text);
    return k;
}

static Launch read_call(const Extern *x, const char *call)
{
    Arena *a = x->ctx->arena;
    Launch l = {.call = call, .len = strcspn(call, " ")};
    l.kernel = arena_strndup(a, call, strcspn(call, "<("));
    l.arg = NEW_ARRAY(a, int, x->nvalues + 1);
    for (const char *p = call; p < call + l.len; p++) {
        if (*p != '$') continue;
        int at = (int)strtol(p + 1, NULL, 10), i = 0;
        while (i < l.nargs && l.arg[i] != at) i++;
        if (i == l.nargs) l.arg[l.nargs++] = at;
    }
    return l;
}

int lower_extern(LowerCtx *ctx, const Graph *g, const Group *group, LoweredKernel **out)
{
    Extern x = extern_begin(ctx, g, group);
    VEC(LoweredKernel) kernels = {0};
    const char *call = attr_str(x.n, ATTR_kernels);
    int n;
    const int64_t *size = attr_ints(x.n, ATTR_launch, &n);
    for (; n > 0; n -= EXTERN_LAUNCH, size += EXTERN_LAUNCH) {
        Launch l = read_call(&x, call);
        l.size = size;
        if (!fits(&x, l.kernel, size[EXTERN_LAUNCH - 1])) return -1;
        vec_push(ctx->arena, &kernels, one_launch(&x, &l));
        call += l.len;
        call += strspn(call, " ");
    }
    *out = kernels.at;
    return (int)kernels.n;
}
