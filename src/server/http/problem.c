/* problem.c - what can be wrong with a request, by names that never change. */
#include "server/http/problem.h"

static const struct {
    int status;
    const char *code;
} problems[PROBLEM_COUNT] = {
#define WEIR_X(name, status, code) { status, code },
    PROBLEMS(WEIR_X)
#undef WEIR_X
};

enum problem problem_of(weir_err err)
{
    switch (err) {
    case WEIR_EREQUEST:
        return PROBLEM_INVALID_REQUEST;
    case WEIR_EATTRIBUTE:
        return PROBLEM_INVALID_ATTRIBUTE;
    case WEIR_ECOST:
        return PROBLEM_INVALID_COST;
    case WEIR_ENOW:
        return PROBLEM_CLOCK_NOT_TRUSTED;
    case WEIR_ENOPOLICY:
        return PROBLEM_NO_SUCH_POLICY;
    case WEIR_ENORESERVATION:
        return PROBLEM_NO_SUCH_RESERVATION;
    case WEIR_EREUSED:
        return PROBLEM_ID_REUSED;
    case WEIR_ESETTLED:
        return PROBLEM_ALREADY_SETTLED;
    case WEIR_EEXPIRED:
        return PROBLEM_RESERVATION_EXPIRED;
    case WEIR_ENEEDSRESERVATION:
        return PROBLEM_NEEDS_RESERVATION;
    case WEIR_ETTL:
        return PROBLEM_INVALID_TTL;
    case WEIR_ENOTHERE:
        return PROBLEM_NOT_IMPLEMENTED;
    case WEIR_EPOLICY:
        return PROBLEM_INVALID_POLICY_FILE;
    case WEIR_EIO:
        return PROBLEM_STORE_FAILED;
    case WEIR_EFULL:
        return PROBLEM_TABLE_FULL;
    case WEIR_ENOMEM:
        return PROBLEM_OUT_OF_MEMORY;
    case WEIR_OK:
    case WEIR_ESYSTEM:
    case WEIR_EOPTION:
    case WEIR_ESECRET:
    case WEIR_EBUSY:
        break;
    }
    return PROBLEM_INTERNAL_ERROR;
}

enum problem problem_of_status(int status)
{
    for (int i = 0; i < PROBLEM_COUNT; i++)
        if (problems[i].status == status)
            return (enum problem)i;
    return PROBLEM_INTERNAL_ERROR;
}

int problem_status(enum problem problem)
{
    return problems[problem].status;
}

const char *problem_code(enum problem problem)
{
    return problems[problem].code;
}
