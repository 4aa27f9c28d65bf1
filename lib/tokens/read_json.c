// Reads Hugging Face's tokenizer.json for byte-level byte-pair encoding. Anything else that such a
// file may require is refused by its name: the tokens must equal the reference's, or there is an
// error.
#include <inttypes.h>
#include <string.h>

#include "lib/tokens/tokenizer.h"

static const char *string_of(const JsonValue *object, const char *key)
{
    const JsonValue *v = json_get(object, key);
    return v && v->kind == JSON_STRING ? v->string : NULL;
}

static bool is_true(const JsonValue *object, const char *key, bool otherwise)
{
    const JsonValue *v = json_get(object, key);
    return v && v->kind == JSON_BOOL ? v->boolean : otherwise;
}

static bool given(const JsonValue *object, const char *key)
{
    const JsonValue *v = json_get(object, key);
    return v && v->kind != JSON_NULL;
}

static void unsupported(Reading *r, const char *what, const char *value)
{
    reading_fail(r,
                 "%s: %s%s%s%s is not supported; only byte-level BPE is: no normalizer, texts cut "
                 "by ByteLevel or by Split with a pattern",
                 r->path, what, value ? " '" : "", value ? value : "", value ? "'" : "");
}

// -- how text is cut ------------------------------------------------------------------------------

static void read_split(Reading *r, const JsonValue *v)
{
    const JsonValue *pattern = json_get(v, "pattern");
    const char *regex = string_of(pattern, "Regex"), *text = string_of(pattern, "String");
    const char *behavior = string_of(v, "behavior");
    if (!behavior || strcmp(behavior, "Isolated"))
        return unsupported(r, "a Split with the behavior", behavior ? behavior : "none");
    // (Inverted, the text between matches is the matches: this gives the same pieces.)
    if (regex) return reading_cut(r, r->path, regex, PATTERN_RUBY);
    if (!text || !*text) return unsupported(r, "a Split without a pattern", NULL);
    Buf quoted = buf_new(r->t->arena);
    for (const char *p = text; *p; p++) {
        if (strchr("\\^$.|?*+()[]{}-&", *p)) buf_char(&quoted, '\\');
        buf_char(&quoted, *p);
    }
    reading_cut(r, r->path, quoted.data, PATTERN_RUBY);
}

// Reads a pre-tokenizer. *level: there was a ByteLevel, after which nothing may follow.
static void read_pre_tokenizer(Reading *r, const JsonValue *v, bool *level)
{
    const char *type = string_of(v, "type");
    if (reading_failed(r)) return;
    if (!type) return unsupported(r, "a pre_tokenizer without a type", NULL);
    if (!strcmp(type, "Sequence")) {
        const JsonValue *list = json_get(v, "pretokenizers");
        for (const JsonValue *k = list ? list->child : NULL; k; k = k->next)
            read_pre_tokenizer(r, k, level);
        return;
    }
    if (*level) return unsupported(r, "after ByteLevel the pre_tokenizer", type);
    if (!strcmp(type, "Split")) return read_split(r, v);
    if (!strcmp(type, "Digits"))
        return reading_cut(r, r->path,
                           is_true(v, "individual_digits", false) ? "\\p{N}" : "\\p{N}+",
                           PATTERN_RUBY);
    if (strcmp(type, "ByteLevel")) return unsupported(r, "the pre_tokenizer", type);
    *level = true;
    if (is_true(v, "add_prefix_space", true)) {
        if (r->t->ncuts) return unsupported(r, "ByteLevel's add_prefix_space after a Split", NULL);
        r->t->space_first = true;
    }
    if (is_true(v, "use_regex", true)) reading_cut(r, r->path, gpt2_pattern, PATTERN_RUBY);
}

// -- the model ------------------------------------------------------------------------------------

static void read_vocabulary(Reading *r, const JsonValue *vocab, const StrMap *added)
{
    if (!vocab || vocab->kind != JSON_OBJECT)
        return reading_fail(r, "%s is damaged: its model has no vocab", r->path);
    for (const JsonValue *k = vocab->child; k && !reading_failed(r); k = k->next) {
        Bytes b;
        const JsonValue *special = strmap_get(added, k->key);
        bool level = byte_level(r->t->arena, k->key, &b);
        if (k->kind != JSON_NUMBER || !k->is_int)
            reading_fail(r, "%s is damaged: token '%s' has no number", r->path, k->key);
        else if (special && json_get(special, "id")->integer != k->integer)
            reading_fail(r, "%s is damaged: '%s' has two numbers", r->path, k->key);
        else if (special && !level)
            continue; // handled by read_added
        else if (!level)
            reading_fail(r,
                         "%s: token '%s' is not of a byte-level vocabulary (it may be from "
                         "SentencePiece), which is not supported",
                         r->path, k->key);
        else
            reading_add(r, r->path, k->integer, b.at, b.n);
    }
}

// Reads "a b" or ["a", "b"].
static bool pair(Arena *a, const JsonValue *v, Bytes out[2])
{
    if (v->kind == JSON_ARRAY && v->n == 2) {
        const JsonValue *x = v->child, *y = x->next;
        return x->kind == JSON_STRING && y->kind == JSON_STRING &&
               byte_level(a, x->string, &out[0]) && byte_level(a, y->string, &out[1]);
    }
    const char *space = v->kind == JSON_STRING ? strchr(v->string, ' ') : NULL;
    return space && !strchr(space + 1, ' ') &&
           byte_level(a, arena_strndup(a, v->string, (size_t)(space - v->string)), &out[0]) &&
           byte_level(a, space + 1, &out[1]);
}

static void read_merges(Reading *r, const JsonValue *merges)
{
    Bpe *b = r->t->bpe;
    int32_t rank = 0;
    if (!merges || merges->kind != JSON_ARRAY)
        return reading_fail(r, "%s is damaged: its model has no merges", r->path);
    for (const JsonValue *k = merges->child; k; k = k->next, rank++) {
        Bytes p[2];
        if (!pair(r->t->arena, k, p))
            return reading_fail(r, "%s is damaged: merge %d is not a pair of byte-level tokens",
                                r->path, rank + 1);
        Buf made = buf_new(r->t->arena);
        buf_bytes(&made, p[0].at, p[0].n);
        buf_bytes(&made, p[1].at, p[1].n);
        int32_t x = bpe_find(b, p[0].at, p[0].n), y = bpe_find(b, p[1].at, p[1].n),
                z = bpe_find(b, made.data, made.len);
        if (x < 0 || y < 0 || z < 0)
            return reading_fail(r,
                                "%s is damaged: merge %d is of tokens that the vocab does not have",
                                r->path, rank + 1);
        if (!bpe_merge(b, x, y, rank, z))
            return reading_fail(r, "%s is damaged: merge %d appears twice", r->path, rank + 1);
    }
}

static void read_model(Reading *r, const JsonValue *model, const StrMap *added)
{
    const char *type = string_of(model, "type");
    if (!model || model->kind != JSON_OBJECT)
        return reading_fail(r, "%s is not a tokenizer.json: it has no model", r->path);
    if (type ? strcmp(type, "BPE") : !json_get(model, "merges"))
        return unsupported(r, "the model", type ? type : "without merges");
    const JsonValue *dropout = json_get(model, "dropout");
    if (dropout && dropout->kind == JSON_NUMBER && dropout->number != 0)
        return unsupported(r, "the model's dropout", NULL);
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const char *s = string_of(model, affixes[i]);
        if (s && *s) return unsupported(r, affixes[i], s);
    }
    if (is_true(model, "byte_fallback", false)) return unsupported(r, "byte_fallback", NULL);
    read_vocabulary(r, json_get(model, "vocab"), added);
    if (!reading_failed(r)) read_merges(r, json_get(model, "merges"));
    r->t->bpe->whole = is_true(model, "ignore_merges", false);
}

// -- added tokens ---------------------------------------------------------------------------------

static StrMap list_added(Reading *r, const JsonValue *list)
{
    static const char *const odd[] = {"single_word", "lstrip", "rstrip"};
    StrMap map = strmap_new(r->t->arena);
    for (const JsonValue *k = list ? list->child : NULL; k && !reading_failed(r); k = k->next) {
        const char *content = string_of(k, "content");
        const JsonValue *id = json_get(k, "id");
        if (!content || !*content || !id || id->kind != JSON_NUMBER || !id->is_int) {
            reading_fail(r, "%s is damaged: an added token has no content or no id", r->path);
            break;
        }
        if (strmap_get(&map, content))
            reading_fail(r, "%s is damaged: the added token '%s' appears twice", r->path, content);
        for (int i = 0; i < 3; i++)
            if (is_true(k, odd[i], false))
                reading_fail(r, "%s: the added token '%s' with %s is not supported", r->path,
                             content, odd[i]);
        strmap_set(&map, content, (void *)k);
    }
    return map;
}

static void read_added(Reading *r, const StrMap *added)
{
    for (uint32_t i = 0; i < added->n && !reading_failed(r); i++) {
        const JsonValue *k = added->entry[i].value;
        reading_special(r, r->path, json_get(k, "id")->integer, added->entry[i].key,
                        is_true(k, "normalized", !is_true(k, "special", false)));
    }
}

void read_json(Reading *r, const char *path)
{
    size_t n;
    const char *text = reading_file(r, path, &n), *wrong;
    if (!text) return;
    const JsonValue *v = json_parse(r->t->arena, text, n, &wrong);
    if (!v) return reading_fail(r, "%s is not a tokenizer: it is not JSON: %s", path, wrong);
    const JsonValue *model = json_get(v, "model"), *cut = json_get(v, "pre_tokenizer"),
                    *decoder = json_get(v, "decoder");
    if (given(v, "normalizer"))
        return unsupported(r, "the normalizer", string_of(json_get(v, "normalizer"), "type"));
    if (given(v, "truncation")) return unsupported(r, "truncation", NULL);
    if (given(v, "padding")) return unsupported(r, "padding", NULL);
    if (given(v, "decoder") &&
        (!string_of(decoder, "type") || strcmp(string_of(decoder, "type"), "ByteLevel")))
        return unsupported(r, "the decoder", string_of(decoder, "type"));
    StrMap added = list_added(r, json_get(v, "added_tokens"));
    if (!reading_failed(r)) read_model(r, model, &added);
    if (!reading_failed(r)) read_added(r, &added);
    if (reading_failed(r)) return;
    bool level = false;
    if (!cut || cut->kind == JSON_NULL)
        return unsupported(r, "a tokenizer without a pre_tokenizer", NULL);
    read_pre_tokenizer(r, cut, &level);
    if (!reading_failed(r) && !level) unsupported(r, "a pre_tokenizer without ByteLevel", NULL);
}
