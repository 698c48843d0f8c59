/* byte_source.h - the bytes of a log: a file or standard input, plain or compressed.
 *
 * Which of these it is, its first bytes tell. */
#ifndef WEIR_REPLAY_BYTE_SOURCE_H
#define WEIR_REPLAY_BYTE_SOURCE_H

#include <stdint.h>

#include "base/span.h"
#include "weir.h"

struct byte_source;

/* "-" is standard input. */
WEIR_MUSTCHECK weir_err byte_source_open(const char *path, struct byte_source **out,
                                         weir_diag *diag);
void byte_source_close(struct byte_source *s); /* NULL is fine */

enum bytes_read {
    BYTES_MORE,
    BYTES_END,    /* for now: a file may grow */
    BYTES_CUT,    /* compressed, and ends in the middle */
    BYTES_BROKEN, /* compressed, and damaged from here on */
    BYTES_FAILED, /* reading failed; see errno */
};

/* As many bytes as there are, up to `room`, which is not 0. What is not BYTES_MORE comes with none,
 * and comes again. */
enum bytes_read byte_source_read(struct byte_source *s, char *to, size_t room, size_t *len);

/* At the end of a plain file that is written to by others: if another file has its name by now, or
 * if it was emptied, go on with its beginning. False: there is nothing new. */
bool byte_source_renew(struct byte_source *s, const char *path);

int64_t byte_source_taken(const struct byte_source *s);    /* bytes of the file, compressed ones */
int64_t byte_source_size(const struct byte_source *s);     /* -1: not known */
const char *byte_source_kind(const struct byte_source *s); /* "gzip"; NULL: plain */

#endif
