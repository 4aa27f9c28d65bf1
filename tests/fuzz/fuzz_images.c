// Any bytes as an image, PNG or JPEG by the first byte, and as an archive of images; whatever is
// decoded is brought to another size.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/data/images.h"

static void decode(const uint8_t *data, size_t n, int how)
{
    static const char *const magic[] = {"\x89PNG\r\n\x1a\n", "\xff\xd8\xff\xe0"};
    size_t head = how & 1 ? 4 : 8;
    unsigned char *copy = malloc(n + head), *p, out[15 * 3];
    int64_t w, h, c = how & 2 ? 1 : 3;
    RtError e = {0};
    memcpy(copy, magic[how & 1], head), memcpy(copy + head, data, n);
    RtBytes b = {copy, n + head, false};
    if (rt_image_decode("it", &b, c, &p, &w, &h, &e) == RT_OK) {
        if (rt_image_fit(p, w, h, c, out, 5, 3, &e)) abort();
        free(p);
    } else if (!e.text[0] || p) {
        abort();
    }
    free(copy);
}

static void list(const uint8_t *data, size_t n)
{
    char path[64];
    RtError e = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0) return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    RtImages *s = NULL;
    if (write(fd, data, n) == (ssize_t)n) {
        if (rt_images_open(path, true, true, &s, &e) == RT_OK) {
            RtArray a;
            ProgType wanted = {.dtype = PD_U8, .rank = 3, .dim = {3, 5, 3}};
            if (!rt_images_array(s, NULL, &wanted, SIZE_MAX, &a, &e)) rt_array_free(&a);
            rt_images_free(s);
        } else if (!e.text[0] || s) {
            abort();
        }
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 1) return 0;
    int how = data[--n];
    if (how & 4)
        list(data, n);
    else
        decode(data, n, how);
    return 0;
}
