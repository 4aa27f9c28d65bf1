// libFuzzer: any bytes through the scanner, the layout, the grammar, the formatter and the reader
// of dumps. What formats must parse to the same tree and format to itself.
//
//   tests/fuzz/run.sh 600 parser
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/ast.h"
#include "frontend/frontend.h"
#include "frontend/read_graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *tree(Arena *a, Diags *d, uint32_t source)
{
    Buf b = buf_new(a);
    frontend_print_ast(a, d, source, &b);
    return b.data;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    uint32_t source = source_add(d, "fuzz.net", (const char *)data, size, false);
    File *file = parse_source(a, d, source);
    uint32_t errors = d->errors;
    const char *once = format_source(a, d, source);
    if (!errors != (once != NULL)) abort();
    if (once) {
        uint32_t after = source_add(d, "once.net", once, strlen(once), false);
        const char *twice = format_source(a, d, after);
        if (!twice || strcmp(once, twice)) abort();
        if (strcmp(tree(a, d, source), tree(a, d, after))) abort();
        if (is_graph_dump(file)) read_module(a, d, file);
    }
    Buf text = buf_new(a);
    diags_render(d, &text, false);
    arena_free(a);
    return 0;
}
