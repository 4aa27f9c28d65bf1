// Event files: tensorflow.Event messages in TFRecord framing (length, masked CRC-32C of it, data,
// masked CRC-32C of the data). A record that cannot be written completely is removed again and ends
// the file.
#include "cli/events.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// -- protocol buffers -----------------------------------------------------------------------------
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

void message_raw(Message *m, const void *bytes, size_t n)
{
    if (m->n + n > m->room && !m->failed) {
        size_t room = 2 * m->room + n + 64;
        unsigned char *more = realloc(m->at, room);
        if (more)
            m->at = more, m->room = room;
        else
            m->failed = true;
    }
    if (m->failed || !n) return;
    memcpy(m->at + m->n, bytes, n);
    m->n += n;
}

static void put_varint(Message *m, uint64_t v)
{
    unsigned char c;
    for (; v > 127; v >>= 7) c = (unsigned char)(v | 128), message_raw(m, &c, 1);
    c = (unsigned char)v, message_raw(m, &c, 1);
}

static void put_key(Message *m, int field, int kind)
{
    put_varint(m, (uint64_t)(field << 3 | kind));
}

void message_int(Message *m, int field, uint64_t v)
{
    put_key(m, field, VARINT), put_varint(m, v);
}

void message_double(Message *m, int field, double v) // little-endian
{
    put_key(m, field, FIXED64), message_raw(m, &v, sizeof v);
}

void message_float(Message *m, int field, float v)
{
    put_key(m, field, FIXED32), message_raw(m, &v, sizeof v);
}

void message_bytes(Message *m, int field, const void *bytes, size_t n)
{
    put_key(m, field, BYTES), put_varint(m, n), message_raw(m, bytes, n);
}

void message_text(Message *m, int field, const char *text)
{
    message_bytes(m, field, text, strlen(text));
}

void message_in(Message *m, int field, Message *part)
{
    message_bytes(m, field, part->at, part->n);
    m->failed = m->failed || part->failed;
    message_free(part);
}

void message_free(Message *m)
{
    free(m->at);
    *m = (Message){0};
}

// -- records --------------------------------------------------------------------------------------
static uint32_t masked_crc(const void *bytes, size_t n)
{
    uint32_t crc = ~0u;
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0); // CRC-32C
                                                         // (Castagnoli)
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static void write_record(Events *f, const Message *event)
{
    uint64_t length = event->n;
    uint32_t sums[2] = {masked_crc(&length, sizeof length), masked_crc(event->at, event->n)};
    Message all = {0};
    message_raw(&all, &length, sizeof length), message_raw(&all, &sums[0], 4);
    message_raw(&all, event->at, event->n), message_raw(&all, &sums[1], 4);
    size_t done = 0;
    while (!all.failed && done < all.n) {
        ssize_t k = write(f->fd, all.at + done, all.n - done);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) break;
        done += (size_t)k;
    }
    if (!all.failed && done == all.n) {
        f->end += (int64_t)all.n;
    } else {
        f->why = all.failed ? ENOMEM : errno ? errno : EIO;
        if (ftruncate(f->fd, f->end)) f->end = 0; // (readers stop at an incomplete record)
    }
    message_free(&all);
}

static void begin_event(Message *event, int64_t step)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    message_double(event, 1, (double)t.tv_sec + 1e-9 * (double)t.tv_nsec);
    message_int(event, 2, (uint64_t)step);
}

void events_put(Events *f, int64_t step, int field, Message *what)
{
    Message event = {0};
    begin_event(&event, step);
    message_in(&event, field, what);
    if (event.failed && !f->why) f->why = ENOMEM;
    if (f->fd >= 0 && !f->why) write_record(f, &event);
    message_free(&event);
}

bool events_open(Events *f, const char *folder)
{
    char host[65] = "host", path[4400];
    *f = (Events){.fd = -1};
    gethostname(host, sizeof host - 1);
    if (mkdir(folder, 0777) && errno != EEXIST) return false;
    for (int i = 0; f->fd < 0 && i < 1000; i++) {
        int n = snprintf(path, sizeof path, "%s/events.out.tfevents.%010lld.%s.%d.%d", folder,
                         (long long)time(NULL), host, (int)getpid(), i);
        if (n < 0 || (size_t)n >= sizeof path) return errno = ENAMETOOLONG, false;
        f->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd < 0 && errno != EEXIST) return false;
    }
    if (f->fd < 0) return false;
    Message event = {0};
    begin_event(&event, 0);
    message_text(&event, 3, "brain.Event:2");
    write_record(f, &event);
    message_free(&event);
    if (!f->why) return true;
    close(f->fd), unlink(path);
    f->fd = -1;
    return errno = f->why, false;
}

bool events_close(Events *f)
{
    if (f->fd >= 0 && close(f->fd) && !f->why) f->why = errno;
    f->fd = -1;
    return !f->why;
}
