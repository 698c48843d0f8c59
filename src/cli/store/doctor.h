/* doctor.h - what `weir doctor` finds, and how it is told. */
#ifndef WEIR_CLI_STORE_DOCTOR_H
#define WEIR_CLI_STORE_DOCTOR_H

#include "base/buf.h"
#include "weir.h"

enum finding_level {
    FINDING_FINE,
    FINDING_UNSEEN, /* it may not be asked for, as in many managed services */
    FINDING_CHANGE, /* it works, but should not stay so */
    FINDING_WRONG   /* it does not work */
};

enum { FINDINGS_MOST = 96, FINDING_TEXT = 240 };

struct finding {
    enum finding_level level;
    char about[24]; /* "memory" */
    char text[FINDING_TEXT];
    char advice[FINDING_TEXT]; /* what to do; "": nothing */
};

struct findings {
    struct finding all[FINDINGS_MOST];
    size_t count;
};

/* Note one: `text` and what follows as printf() has it. */
void find(struct findings *f, enum finding_level level, const char *about, const char *advice,
          const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Look a store over. On failure it cannot be asked at all. */
WEIR_MUSTCHECK weir_err doctor_redis(const char *uri, struct findings *f, weir_diag *diag);
/* `documents`: of the policies that should be there; NULL: they are not looked at. */
WEIR_MUSTCHECK weir_err doctor_postgres(const char *uri, const char *documents, struct findings *f,
                                        weir_diag *diag);

#endif
