// What a compiled kernel needs, read from the ELF file of the compiler, so that it is known without
// a GPU. Nothing in the file is trusted.
#include "runtime/cuda/cubin.h"

#include <elf.h>
#include <string.h>

enum { // records of .nv.info: format, attribute, size in two bytes, then a symbol and a value
    RECORD_SIZED = 4,
    ATTR_REGISTERS = 0x2f,
    ATTR_FRAME = 0x11, // bytes of local memory per thread
};

typedef struct Elf {
    const unsigned char *at;
    size_t n;
    Elf64_Ehdr h;
} Elf;

static bool part(const Elf *f, uint64_t offset, uint64_t n)
{
    return offset <= f->n && n <= f->n - offset;
}

static bool section(const Elf *f, unsigned i, Elf64_Shdr *out)
{
    uint64_t at = f->h.e_shoff + (uint64_t)i * sizeof *out;
    if (i >= f->h.e_shnum || !part(f, at, sizeof *out)) return false;
    memcpy(out, f->at + at, sizeof *out);
    return out->sh_type == SHT_NOBITS || part(f, out->sh_offset, out->sh_size);
}

// The name at [offset] of a string table, or "".
static const char *name_at(const Elf *f, const Elf64_Shdr *table, uint64_t offset)
{
    if (table->sh_type == SHT_NOBITS || offset >= table->sh_size) return "";
    const char *s = (const char *)f->at + table->sh_offset + offset;
    return memchr(s, 0, table->sh_size - offset) ? s : "";
}

// The number of the symbol [name]; 0, which is no symbol, if there is none.
static uint32_t find_symbol(const Elf *f, const char *name)
{
    Elf64_Shdr s, strings;
    for (unsigned i = 0; i < f->h.e_shnum; i++) {
        if (!section(f, i, &s) || s.sh_type != SHT_SYMTAB || !section(f, s.sh_link, &strings))
            continue;
        for (uint64_t k = 1; k < s.sh_size / sizeof(Elf64_Sym); k++) {
            Elf64_Sym y;
            memcpy(&y, f->at + s.sh_offset + k * sizeof y, sizeof y);
            if (ELF64_ST_TYPE(y.st_info) == STT_FUNC &&
                !strcmp(name_at(f, &strings, y.st_name), name))
                return (uint32_t)k;
        }
    }
    return 0;
}

static uint32_t word(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void read_info(const Elf *f, const Elf64_Shdr *s, uint32_t symbol, RtKernelInfo *out)
{
    const unsigned char *p = f->at + s->sh_offset, *end = p + s->sh_size;
    while (end - p >= 4) {
        size_t n = p[0] == RECORD_SIZED ? (size_t)(p[2] | p[3] << 8) : 0;
        if ((size_t)(end - p - 4) < n) return;
        if (n == 8 && word(p + 4) == symbol) {
            if (p[1] == ATTR_REGISTERS) out->registers = (int)word(p + 8);
            if (p[1] == ATTR_FRAME) out->local_bytes = (int)word(p + 8);
        }
        p += 4 + n;
    }
}

bool rt_cubin_info(const void *bytes, size_t n, int arch, const char *symbol, RtKernelInfo *out)
{
    Elf f = {.at = bytes, .n = n};
    Elf64_Shdr s, names;
    *out = (RtKernelInfo){-1, -1, -1, -1, -1};
    if (n < sizeof f.h) return false;
    memcpy(&f.h, bytes, sizeof f.h);
    if (memcmp(f.h.e_ident, ELFMAG, SELFMAG) || f.h.e_ident[EI_CLASS] != ELFCLASS64 ||
        f.h.e_shentsize != sizeof s || !section(&f, f.h.e_shstrndx, &names))
        return false;
    uint32_t number = find_symbol(&f, symbol);
    if (!number) return false;
    out->shared_bytes = 0;
    for (unsigned i = 0; i < f.h.e_shnum; i++) {
        if (!section(&f, i, &s)) return false;
        const char *name = name_at(&f, &names, s.sh_name);
        if (!strcmp(name, ".nv.info") && s.sh_type != SHT_NOBITS) read_info(&f, &s, number, out);
        if (strncmp(name, ".nv.shared.", 11) || strcmp(name + 11, symbol)) continue;
        // From sm_90 on, the section includes 1 KiB per block that is reserved for the system.
        uint64_t own = arch >= 90 ? 1024 : 0;
        out->shared_bytes = s.sh_size > own ? (int)(s.sh_size - own) : 0;
    }
    return out->registers >= 0;
}
