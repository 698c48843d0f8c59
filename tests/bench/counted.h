/* counted.h - instructions, counted by callgrind. */
#ifndef WEIR_BENCH_COUNTED_H
#define WEIR_BENCH_COUNTED_H

enum { COUNTED_FEW = 2000, COUNTED_MOST = 12000 };

/* Of one of what `self --counted WHAT N` does N times, without those that it begins and ends with; 0:
 * there is no valgrind. */
double counted_instructions(const char *self, const char *what);

#endif
