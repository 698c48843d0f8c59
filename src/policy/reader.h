/* reader.h - reading a tree of YAML, and complaining of what is wrong in it.
 *
 * Readers complain and go on, so that one run tells all. */
#ifndef WEIR_POLICY_READER_H
#define WEIR_POLICY_READER_H

#include "policy/yaml.h"

struct reader {
    const char *file; /* what problems call it */
    struct problems *problems;
};

void complain(struct reader *r, const struct yaml *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Is it of this kind? If not, `what` it is and an example of it go into the complaint. */
bool wants(struct reader *r, const struct yaml *node, enum yaml_kind kind, const char *what,
           const char *example);

bool read_choice(struct reader *r, const struct yaml *node, const char *what,
                 const char *const *words, size_t n, size_t *chosen);
bool read_whole(struct reader *r, const struct yaml *node, const char *what, int64_t least,
                int64_t most, int64_t *out);

/* Sort the keys of a mapping into keys[], by their place in `words`. `allowed` has a bit for
 * each word that may stand here; all others are complained of. */
void read_keys(struct reader *r, const struct yaml *mapping, const char *what,
               const char *const *words, size_t n, unsigned allowed, const struct yaml **keys);

/* The whole file, or a complaint of the file. No larger one than this is taken. */
WEIR_MUSTCHECK weir_err reader_read_file(struct reader *r, const char *path, struct buf *into);
WEIR_MUSTCHECK weir_err reader_check_size(struct reader *r, size_t len);

#endif
