/* replay.c - runs a fuzz target over a corpus, without a fuzzer.
 *
 * Each input is also fed cut off after every byte, in a block of exactly its size, so that
 * a sanitizer sees a read behind the end. The name of an input is printed before it is fed:
 * the last name printed is the one that failed. */
#include <dirent.h>
#include <err.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_INPUT = 1 << 20, LONGEST_CUT = 2048 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void feed(const uint8_t *bytes, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);

    if (!exact)
        err(1, "malloc");
    memcpy(exact, bytes, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void replay_file(const char *path)
{
    static uint8_t bytes[LONGEST_INPUT];
    FILE *f = fopen(path, "rb");
    size_t size;

    if (!f)
        err(1, "%s", path);
    size = fread(bytes, 1, sizeof bytes, f);
    if (ferror(f) || !feof(f))
        errx(1, "%s cannot be read, or is longer than %d bytes", path, LONGEST_INPUT);
    fclose(f);

    printf("# %s\n", path);
    fflush(stdout);
    for (size_t cut = 0; cut < size && cut < LONGEST_CUT; cut++)
        feed(bytes, cut);
    feed(bytes, size);
}

static int replay_directory(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *entry;
    int count = 0;

    if (!d)
        err(1, "%s", path);
    while ((entry = readdir(d))) {
        char file[4096];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        replay_file(file);
        count++;
    }
    closedir(d);
    return count;
}

int main(int argc, char **argv)
{
    bool empty = false;

    printf("1..%d\n", argc - 1);
    for (int i = 1; i < argc; i++) {
        int count = replay_directory(argv[i]);

        printf("%s %d - replayed %d inputs of %s\n", count ? "ok" : "not ok", i, count, argv[i]);
        empty |= count == 0;
    }
    return empty;
}
