/* byte_source.c - the bytes of a log: a file or standard input, plain or compressed. */
#include "replay/byte_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "replay/decoder.h"

enum { READ_SIZE = 256 * 1024, LONGEST_MAGIC = 4 };

struct byte_source {
    int fd;
    bool owns_fd;
    bool is_whole; /* the decoder has come to an end, and nothing was begun since */
    bool is_full;  /* … or has filled all room: there may be more without more to read */
    const struct decoder *decoder; /* NULL: plain */
    void *state;
    int64_t taken, size;
    int64_t at;            /* in the file, which may not be the first of its name */
    enum bytes_read ended; /* BYTES_MORE: not yet */
    struct span raw;       /* read, and not handed out or decoded */
    char buffer[READ_SIZE];
};

/* A signal ends the log: its handler has noted that the user does not want to wait. */
static ssize_t read_some(int fd, char *to, size_t room)
{
    const ssize_t got = read(fd, to, room);

    return got < 0 && errno == EINTR ? 0 : got;
}

/* Enough to see what it is, unless it is shorter. */
static bool read_magic(struct byte_source *s)
{
    s->raw.at = s->buffer;
    while (s->raw.len < LONGEST_MAGIC) {
        const ssize_t got = read_some(s->fd, s->buffer + s->raw.len, READ_SIZE - s->raw.len);

        if (got < 0)
            return false;
        if (got == 0)
            break;
        s->raw.len += (size_t)got;
        s->taken += got;
        s->at += got;
    }
    return true;
}

static weir_err find_decoder(struct byte_source *s, const char *path, weir_diag *diag)
{
    static const struct decoder *const all[] = { &gzip_decoder, &zstd_decoder };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i]->is_for(s->raw))
            continue;
        if (!all[i]->open)
            return diag_fail(diag, WEIR_EOPTION,
                             "%s is compressed by %s, which this weir was built without: "
                             "decompress it, as in `%s -dc FILE | weir replay ... -`",
                             path, all[i]->name, all[i]->name);
        s->decoder = all[i];
        s->state = all[i]->open();
        if (!s->state)
            return diag_fail(diag, WEIR_ENOMEM, "out of memory");
    }
    return WEIR_OK;
}

static weir_err begin(struct byte_source *s, const char *path, weir_diag *diag)
{
    struct stat st;

    s->fd = s->owns_fd ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (s->fd < 0)
        return diag_fail(diag, WEIR_ESYSTEM, "cannot open %s: %s", path, strerror(errno));
    if (fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode)) {
        s->size = st.st_size;
        (void)posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    }
    if (!read_magic(s))
        return diag_fail(diag, WEIR_ESYSTEM, "cannot read %s: %s", path, strerror(errno));
    return find_decoder(s, path, diag);
}

weir_err byte_source_open(const char *path, struct byte_source **out, weir_diag *diag)
{
    struct byte_source *s = calloc(1, sizeof *s);
    weir_err err;

    *out = NULL;
    if (!s)
        return diag_fail(diag, WEIR_ENOMEM, "out of memory");
    s->size = -1;
    s->owns_fd = strcmp(path, "-") != 0;
    err = begin(s, s->owns_fd ? path : "standard input", diag);
    if (err) {
        byte_source_close(s);
        return err;
    }
    *out = s;
    return WEIR_OK;
}

void byte_source_close(struct byte_source *s)
{
    if (!s)
        return;
    if (s->decoder)
        s->decoder->close(s->state);
    if (s->owns_fd && s->fd >= 0)
        close(s->fd);
    free(s);
}

/* Straight into the caller's room, once what was looked at is handed out. */
static enum bytes_read read_plain(struct byte_source *s, char *to, size_t room, size_t *len)
{
    ssize_t got;

    if (s->raw.len > 0) {
        *len = s->raw.len < room ? s->raw.len : room;
        memcpy(to, s->raw.at, *len);
        s->raw.at += *len;
        s->raw.len -= *len;
        return BYTES_MORE;
    }
    got = read_some(s->fd, to, room < READ_SIZE ? room : READ_SIZE);
    if (got < 0)
        return BYTES_FAILED;
    if (got == 0)
        return BYTES_END;
    s->taken += got;
    s->at += got;
    *len = (size_t)got;
    return BYTES_MORE;
}

/* Behind the last byte of one stream, zeros may follow, as tapes have them. */
static bool is_padding(struct span raw)
{
    for (size_t i = 0; i < raw.len; i++)
        if (raw.at[i] != '\0')
            return false;
    return true;
}

static enum bytes_read decode(struct byte_source *s, char *to, size_t room, size_t *len)
{
    while (*len == 0) {
        enum decoded result;

        if (s->raw.len == 0 && !s->is_full) {
            const ssize_t got = read_some(s->fd, s->buffer, READ_SIZE);

            if (got < 0)
                return s->ended = BYTES_FAILED;
            if (got == 0)
                return s->is_whole ? BYTES_END : (s->ended = BYTES_CUT);
            s->taken += got;
            s->raw = (struct span){ s->buffer, (size_t)got };
        }
        if (s->is_whole && is_padding(s->raw)) {
            s->raw.len = 0;
            continue;
        }
        result = s->decoder->run(s->state, &s->raw, to, room, len);
        s->is_whole = result == DECODED_WHOLE;
        s->is_full = *len == room && !s->is_whole;
        if (result == DECODED_BROKEN) {
            s->ended = BYTES_BROKEN;
            return *len > 0 ? BYTES_MORE : BYTES_BROKEN;
        }
    }
    return BYTES_MORE;
}

enum bytes_read byte_source_read(struct byte_source *s, char *to, size_t room, size_t *len)
{
    *len = 0;
    if (s->ended != BYTES_MORE)
        return s->ended;
    return s->decoder ? decode(s, to, room, len) : read_plain(s, to, room, len);
}

/* As logrotate does it: the file is renamed and a new one has its name; or it is copied and cut. */
bool byte_source_renew(struct byte_source *s, const char *path)
{
    struct stat now, ours;
    int fd;

    if (s->decoder || !s->owns_fd || stat(path, &now) != 0 || fstat(s->fd, &ours) != 0)
        return false;
    if (now.st_ino == ours.st_ino && now.st_dev == ours.st_dev) {
        if (ours.st_size >= s->at)
            return false;
        s->at = 0;
        return lseek(s->fd, 0, SEEK_SET) == 0;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    close(s->fd);
    s->fd = fd;
    s->at = 0;
    return true;
}

int64_t byte_source_taken(const struct byte_source *s)
{
    return s->taken - (int64_t)s->raw.len;
}

int64_t byte_source_size(const struct byte_source *s)
{
    return s->size;
}

const char *byte_source_kind(const struct byte_source *s)
{
    return s->decoder ? s->decoder->name : NULL;
}
