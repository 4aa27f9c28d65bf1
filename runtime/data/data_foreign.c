// Formats whose bytes are not elements. A file in one of them, recognised by its first bytes or its
// name, is refused with advice instead of being read as a file without a header; `FILE:raw` reads
// it anyway.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/plain.h"
#include "runtime/data/data_read.h"

#define MAKE_NPY(code) "save it as .npy: numpy.save('x.npy', " code ")"
#define IMAGE          MAKE_NPY("numpy.asarray(PIL.Image.open(FILE))") ", all images of a set in one array"
#define SOUND          MAKE_NPY("soundfile.read(FILE)[0]")
#define UNPACK         "unpack it and give what is inside"

typedef struct Foreign {
    const char *what;
    const char *suffixes; // each is followed by a space; "": none
    int at, n;            // position and length of its magic bytes; length 0: known only by name
    const char *magic;
    const char *advice;
} Foreign;

// More specific formats come first.
static const Foreign table[] = {
    {"a file of PyTorch", ".pt .pth .ckpt ", 0, 0, "", MAKE_NPY("torch.load(FILE).numpy()")},
    {"a spreadsheet", ".xlsx .xls .ods ", 0, 0, "", MAKE_NPY("pandas.read_excel(FILE).to_numpy()")},
    {"JSON", ".json .jsonl .ndjson ", 0, 0, "", MAKE_NPY("numpy.array(json.load(open(FILE)))")},
    {"a checkpoint", ".safetensors ", 8, 2, "{\"",
     "parameters are given with --weights; data " MAKE_NPY(
         "safetensors.numpy.load_file(FILE)['NAME']")},
    {"a pickled object", ".pkl .pickle ", 0, 3, "\x80\x04\x95",
     MAKE_NPY("numpy.asarray(pickle.load(open(FILE, 'rb')))")},
    {"a pickled object", "", 0, 3, "\x80\x05\x95",
     MAKE_NPY("numpy.asarray(pickle.load(open(FILE, 'rb')))")},
    {"an HDF5 file", ".h5 .hdf5 ", 0, 8, "\x89HDF\r\n\x1a\n",
     MAKE_NPY("h5py.File(FILE)['NAME'][:]")},
    {"a Parquet file", ".parquet ", 0, 4, "PAR1", MAKE_NPY("pandas.read_parquet(FILE).to_numpy()")},
    {"an Arrow file", ".arrow .feather ", 0, 6, "ARROW1",
     MAKE_NPY("pandas.read_feather(FILE).to_numpy()")},
    {"an Avro file", ".avro ", 0, 4, "Obj\x01", MAKE_NPY("numpy.array(…)")},
    {"an ORC file", ".orc ", 0, 0, "", MAKE_NPY("pandas.read_orc(FILE).to_numpy()")},
    {"a file of MATLAB", ".mat ", 0, 10, "MATLAB 5.0", MAKE_NPY("scipy.io.loadmat(FILE)['NAME']")},
    {"a NetCDF file", ".nc ", 0, 4, "CDF\x01",
     MAKE_NPY("xarray.open_dataset(FILE)['NAME'].values")},
    {"TFRecord data", ".tfrecord .tfrecords ", 0, 0, "", MAKE_NPY("numpy.array(…)")},
    {"a SQLite data base", ".sqlite ", 0, 16, "SQLite format 3", MAKE_NPY("numpy.array(…)")},
    {"a PNG image", ".png ", 0, 8, "\x89PNG\r\n\x1a\n", IMAGE},
    {"a JPEG image", ".jpg .jpeg ", 0, 3, "\xff\xd8\xff", IMAGE},
    {"a GIF image", ".gif ", 0, 4, "GIF8", IMAGE},
    {"a TIFF image", ".tif .tiff ", 0, 4, "II*\0", IMAGE},
    {"a TIFF image", "", 0, 4, "MM\0*", IMAGE},
    {"a WebP image", ".webp ", 8, 4, "WEBP", IMAGE},
    {"a BMP image", ".bmp ", 0, 0, "", IMAGE},
    {"a WAV file", ".wav ", 8, 4, "WAVE", SOUND},
    {"a FLAC file", ".flac ", 0, 4, "fLaC", SOUND},
    {"an Ogg file", ".ogg .opus ", 0, 4, "OggS", SOUND},
    {"an MP3 file", ".mp3 ", 0, 0, "", SOUND},
    {"a video", ".mp4 .mov .m4a ", 4, 4, "ftyp",
     MAKE_NPY("numpy.stack(list(imageio.imiter(FILE)))")},
    {"a video", ".mkv .webm ", 0, 4, "\x1a\x45\xdf\xa3",
     MAKE_NPY("numpy.stack(list(imageio.imiter(FILE)))")},
    {"a video", ".avi ", 8, 4, "AVI ", MAKE_NPY("numpy.stack(list(imageio.imiter(FILE)))")},
    {"a PDF", ".pdf ", 0, 5, "%PDF-", "save its text as .txt"},
    {"a GGUF model", ".gguf ", 0, 4, "GGUF",
     "parameters are given with --weights, as .safetensors"},
    {"an ONNX model", ".onnx ", 0, 0, "", "parameters are given with --weights, as .safetensors"},
    {"a compiled model", "", 0, 8, RT_CONTAINER_MAGIC, "give data"},
    {"a model's text", ".net ", 0, 0, "", "give data"},
    {"a program", ".so .exe ", 0, 4,
     "\x7f"
     "ELF",
     "give data"},
    {"a tar archive", ".tar .tgz ", 257, 5, "ustar", UNPACK},
    {"a zip archive", ".zip ", 0, 4, "PK\x03\x04", UNPACK},
    {"an empty zip archive", "", 0, 4, "PK\x05\x06", UNPACK},
    {"a bzip2 file", ".bz2 ", 4, 6, "1AY&SY", UNPACK},
    {"an xz file", ".xz ", 0, 6,
     "\xfd"
     "7zXZ\0",
     UNPACK},
    {"a Zstandard file", ".zst ", 0, 4, "\x28\xb5\x2f\xfd", UNPACK},
    {"an LZ4 file", ".lz4 ", 0, 4, "\x04\x22\x4d\x18", UNPACK},
    {"a 7z archive", ".7z ", 0, 6, "7z\xbc\xaf\x27\x1c", UNPACK},
    {"a RAR archive", ".rar ", 0, 6, "Rar!\x1a\x07", UNPACK},
};

bool rt_path_named(const char *path, const char *suffixes)
{
    char end[24], one[16];
    size_t n = strlen(path), from = n < sizeof end ? 0 : n - sizeof end + 1;
    for (size_t i = from; i <= n; i++)
        end[i - from] = path[i] >= 'A' && path[i] <= 'Z' ? (char)(path[i] | 32) : path[i];
    for (size_t k; *suffixes; suffixes += k + 1) {
        k = strcspn(suffixes, " ");
        snprintf(one, sizeof one, "%.*s", (int)k, suffixes);
        if (rt_path_ends(end, one)) return true;
    }
    return false;
}

static bool begins(const RtBytes *b, const Foreign *f)
{
    return f->n && b->n >= (size_t)(f->at + f->n) && !memcmp(b->at + f->at, f->magic, (size_t)f->n);
}

// The name takes precedence over the contents, since many formats are zip archives.
static const Foreign *find(const char *path, const RtBytes *b)
{
    enum { COUNT = sizeof table / sizeof *table };
    for (int i = 0; i < COUNT; i++)
        if (rt_path_named(path, table[i].suffixes)) return &table[i];
    for (int i = 0; i < COUNT; i++)
        if (begins(b, &table[i])) return &table[i];
    return NULL;
}

bool rt_path_unnamed(const char *path)
{
    struct stat st;
    return !strcmp(path, "/dev/stdin") || !strncmp(path, "/dev/fd/", 8) ||
           !strncmp(path, "/proc/", 6) ||
           (!stat(path, &st) && S_ISFIFO(st.st_mode) && !rt_path_named(path, ".bin .raw "));
}

bool rt_text_recognise(const RtBytes *b)
{
    enum { ENOUGH = 4096 };
    size_t n = b->n < ENOUGH ? b->n : ENOUGH, ascii = 0, lines = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = b->at[i];
        if ((c < 0x20 && !plain_space((char)c)) || c == 0x7f) return false;
        ascii += c < 0x80;
        lines += c == '\n';
    }
    return lines && ascii * 4 >= n * 3;
}

bool rt_zip_recognise(const RtBytes *b)
{
    return b->n >= 4 && !memcmp(b->at, "PK\x03\x04", 4);
}

bool rt_raw_refused(const char *path, const RtBytes *b)
{
    return b->packed && !rt_path_named(path, ".txt .bin .raw ");
}

RtCode rt_foreign_check(const char *path, const RtBytes *b, bool can_be_raw, RtError *e)
{
    const Foreign *f = rt_path_named(path, ".txt ") ? NULL : find(path, b);
    if (!f && !rt_raw_refused(path, b)) return RT_OK;
    return rt_fail(e, RT_USER, "%s %s%s; %s%s%s%s", path, f ? "is " : "holds something compressed",
                   f ? f->what : " that is neither .npy nor IDX", f ? f->advice : UNPACK,
                   can_be_raw ? " (or give " : "", can_be_raw ? path : "",
                   can_be_raw ? ":raw to read its bytes as elements)" : "");
}
