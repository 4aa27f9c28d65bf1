// Text files compiled into the binary by tools/embed.sh.
#ifndef BASE_EMBEDDED_H
#define BASE_EMBEDDED_H

#include <stddef.h>

typedef struct EmbeddedFile {
    const char *name; // "nn.net"
    const char *text; // NUL-terminated
    size_t len;
} EmbeddedFile;

extern const EmbeddedFile std_files[];     // the standard library, ended by {0}
extern const EmbeddedFile prelude_files[]; // the beginning of generated code, ended by {0}
extern const EmbeddedFile report_files[];  // the files of a page of netc report, ended by {0}

#endif
