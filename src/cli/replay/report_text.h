/* report_text.h - what a replay has found, as text with small drawings for a terminal. */
#ifndef WEIR_CLI_REPLAY_REPORT_TEXT_H
#define WEIR_CLI_REPLAY_REPORT_TEXT_H

#include "replay/report.h"

/* On stdout, for a screen of so many columns. */
void report_print(const struct report *report, int width);

#endif
