/* diag.c - text for people, written where it helps; and the names of errors. */
#include "base/diag.h"

#include <stdarg.h>
#include <stdio.h>

static void set_text(weir_diag *diag, const char *format, va_list args)
{
    if (diag)
        vsnprintf(diag->text, sizeof diag->text, format, args);
}

void diag_set(weir_diag *diag, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    set_text(diag, format, args);
    va_end(args);
}

weir_err diag_fail(weir_diag *diag, weir_err err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    set_text(diag, format, args);
    va_end(args);
    return err;
}

const char *weir_err_name(weir_err err)
{
    switch (err) {
#define NAME(name, value, text)                                                                    \
    case WEIR_##name:                                                                              \
        return "WEIR_" #name;
        WEIR_ERRORS(NAME)
#undef NAME
    }
    return "WEIR_UNKNOWN";
}

const char *weir_err_text(weir_err err)
{
    switch (err) {
#define TEXT(name, value, text)                                                                    \
    case WEIR_##name:                                                                              \
        return text;
        WEIR_ERRORS(TEXT)
#undef TEXT
    }
    return "an unknown error";
}
