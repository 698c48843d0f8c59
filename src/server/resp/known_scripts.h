/* known_scripts.h - the Lua scripts of other limiters that are recognised, by their SHA-1. */
#ifndef WEIR_SERVER_RESP_KNOWN_SCRIPTS_H
#define WEIR_SERVER_RESP_KNOWN_SCRIPTS_H

#include "base/span.h"

enum { SCRIPT_MOST_TEXT = 16 * 1024 }; /* bytes of a script that is looked at */

/* What a script does to the counter of its key, and answers. "later": the time to live begins again
 * with this hit. */
enum script_kind {
    SCRIPT_ADD,          /* points, seconds                             {value, ms} */
    SCRIPT_COUNT,        /* ms                                          {value, ms} */
    SCRIPT_COUNT_LATER,  /* "1": later; ms                              {value, ms} */
    SCRIPT_READ,         /*                                             {GET's answer, PTTL's} */
    SCRIPT_READ_NUMBERS, /*                                             {value or 0, ms or 0} */
    SCRIPT_TAKE_BACK,    /*                                             nothing */
    SCRIPT_OVER,         /* ms, max, "true": later if above max         {value, ms} */
    SCRIPT_BAN,          /* ms, max, ban, "true": as before             {value, ms, is banned} */
    SCRIPT_BACKOFF,      /* ms, max, "true": as before, "true": twice as late each time
                                                                        {value, ms} */
    SCRIPT_BLOCK,        /* name, ms, limit, ms of a block if above it, whose key is the second
                                                        {value, ms, is blocked, ms of the block} */
};

enum { SCRIPT_SHA1_HEX = 40 };

struct known_script {
    char sha1[SCRIPT_SHA1_HEX + 1]; /* in lower case */
    enum script_kind kind;
};

/* NULL: it is none of them. */
const struct known_script *known_script_by_sha1(struct span hex); /* in any case */
const struct known_script *known_script_by_text(struct span text);

/* The packages that they are of, for people. */
extern const char known_script_packages[];

#endif
