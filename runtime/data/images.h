// Internal: PNG and JPEG images, decoded by libraries that are opened at run time, and sets of such
// files: a folder per class, or tar archives in the format of WebDataset.
#ifndef RUNTIME_DATA_IMAGES_H
#define RUNTIME_DATA_IMAGES_H

#include "runtime/data.h"
#include "runtime/host/file.h"

// Functions on whole image files in memory. Files that are too large are refused before they are
// decoded. RT_ENV: the library was not found.
bool rt_image_named(const char *name); // by its suffix
RtCode rt_image_size(const char *name, const RtBytes *b, int64_t *w, int64_t *h, int64_t *c,
                     RtError *e);
// Decodes to pixels of 1 (luma) or 3 channels, (h, w, c). Alpha is dropped, 16 bits become 8. *out:
// malloc'ed.
RtCode rt_image_decode(const char *name, const RtBytes *b, int64_t c, unsigned char **out,
                       int64_t *w, int64_t *h, RtError *e);
// Scales the image, preserving proportions, until it covers (to_h, to_w), and crops the middle. The
// filter is a triangle; its half-width is a pixel of the source or the result, whichever is larger.
RtCode rt_image_fit(const unsigned char *in, int64_t w, int64_t h, int64_t c, unsigned char *out,
                    int64_t to_w, int64_t to_h, RtError *e);

// The images in order, with the class of each.
typedef struct RtListed {
    char *name;       // for messages, and the path of a file
    int tar;          // index of its archive; -1: it is a file
    int64_t at, size; // in the archive
    int64_t label;    // -1: none
} RtListed;
typedef struct RtListing {
    RtListed *image;
    int64_t n, room;
    char **classes; // sorted by name; only for folders
    int nclasses;
    char **tars;
    int ntars;
    bool labels; // there are labels
} RtListing;
RtCode rt_list_folder(RtListing *l, const char *path, RtError *e);
RtCode rt_list_tar(RtListing *l, const char *path, RtError *e);  // appends to the list
RtCode rt_list_add(RtListing *l, const RtListed *x, RtError *e); // takes ownership of x->name
void rt_list_free(RtListing *l);
// Whether such files can be read on this machine; if not, why.
bool rt_tar_readable(const char **why);
bool rt_images_readable(const char **png, const char **jpeg);

#endif
