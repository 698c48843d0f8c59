/* subject.h - who a request is about, from the command line: a key, or attributes.
 *
 * A word is an attribute if what stands before its first '=' could be the name of one;
 * else it is the key. --key gives a key as it is, --key-file one that other users of the
 * machine cannot see in the list of processes. No error text has a key or a value in it. */
#ifndef WEIR_CLI_SUBJECT_H
#define WEIR_CLI_SUBJECT_H

#include "base/buf.h"
#include "weir.h"

struct subject {
    struct buf key; /* if has_key */
    bool has_key;
    weir_attribute attributes[WEIR_MAX_ATTRIBUTES];
    size_t attribute_count;
    char names[WEIR_MAX_ATTRIBUTES][WEIR_MAX_NAME + 1];
};

void subject_init(struct subject *s);
void subject_done(struct subject *s);

bool word_is_attribute(const char *word);

/* Each of these returns false after it has said on stderr what is wrong. */
bool subject_add_word(struct subject *s, const char *word);
bool subject_set_key(struct subject *s, struct span key);
bool subject_read_key(struct subject *s, const char *path);

#endif
