/* counted.c - instructions, counted by callgrind. */
#include "counted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double collected(const char *self, const char *what, int count)
{
    char command[4096], line[256];
    double found = 0;
    FILE *p;

    snprintf(command, sizeof command,
             "valgrind --tool=callgrind --callgrind-out-file=/dev/null %s --counted %s %d 2>&1",
             self, what, count);
    p = popen(command, "r");
    while (p && fgets(line, sizeof line, p)) {
        char *at = strstr(line, "Collected : ");

        if (at)
            found = atof(at + strlen("Collected : "));
    }
    if (p)
        pclose(p);
    return found;
}

double counted_instructions(const char *self, const char *what)
{
    const double few = collected(self, what, COUNTED_FEW),
                 most = collected(self, what, COUNTED_MOST);

    return few > 0 ? (most - few) / (COUNTED_MOST - COUNTED_FEW) : 0;
}
