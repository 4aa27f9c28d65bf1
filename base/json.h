// A streaming JSON writer and a small hardened reader (safetensors headers, result files).
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>

#include "base/buf.h"

typedef struct Json {
    Buf *out;
    uint64_t object; // bit d: the container at depth d is an object
    uint8_t depth;
    bool comma;
    bool raw; // to be set by the caller: bytes of strings that are no UTF-8 are written as they are
} Json;

// A byte of a string that is no UTF-8, as in the name of a file, is written as a half of a
// surrogate pair, "\udcff", which json_parse reads as that byte. (So do Python's json and os.)
Json json_writer(Buf *out);
void json_object(Json *j); // opens {
void json_array(Json *j);  // opens [
void json_end(Json *j);    // closes the innermost object or array
void json_key(Json *j, const char *key);
void json_string(Json *j, const char *s);
void json_int(Json *j, int64_t v);
void json_double(Json *j, double v); // null when not finite
void json_bool(Json *j, bool v);
void json_null(Json *j);

typedef enum JsonKind {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
} JsonKind;

typedef struct JsonValue {
    JsonKind kind;
    bool boolean, is_int; // is_int: the number is an integer that fits in [integer]
    double number;
    int64_t integer;
    const char *string; // NUL-terminated, unescaped
    const char *key;    // of a member of an object
    struct JsonValue *child, *next;
    uint32_t n; // children
} JsonValue;

// Returns NULL if the input is malformed or a string contains \u0000, with *error saying where.
// Depth is limited to 64.
JsonValue *json_parse(Arena *a, const char *text, size_t len, const char **error);
// The same, but \u0000 and halves of surrogate pairs become U+FFFD, which also is one UTF-16 unit.
JsonValue *json_parse_loose(Arena *a, const char *text, size_t len, const char **error);
const JsonValue *json_get(const JsonValue *object, const char *key); // NULL when absent

#endif
