/* test_envoy_lookups.c - which limit holds for which descriptor, by the facts that stand beside the
 * configurations in tests/unit/policy/envoy/. Its README.md says how they are written. */
#include "support/loaded.h"

#include <dirent.h>
#include <stdio.h>

#include "policy/envoy.h"

#define FOLDER "tests/unit/policy/envoy/"

enum { MOST_ENTRIES = 8, MOST_WORDS = 24, MOST_LINE = 512, HASH = 9 /* -xxxxxxxx */ };

struct asked {
    struct envoy_entry entries[MOST_ENTRIES];
    size_t count;
    const struct envoy_limit *limit;
};

/* Where a fact is, for what is said of it. */
struct place {
    const char *file;
    int line;
};

static size_t split(char *text, char **words)
{
    size_t n = 0;

    for (char *word = strtok(text, " \n"); word; word = strtok(NULL, " \n")) {
        assert_true(n < MOST_WORDS);
        words[n++] = word;
    }
    return n;
}

/* The entries up to this word, which is there. The number of the word behind it. */
static size_t ask(const struct loaded *l, const char *domain, char **words, size_t n,
                  const char *until, struct asked *out)
{
    const struct envoy_domain *d = envoy_find_domain(l->set, span_of(domain));
    size_t i = 0;

    out->count = 0;
    for (; i < n && strcmp(words[i], until) != 0; i++) {
        char *equals = strchr(words[i], '=');

        assert_non_null(equals);
        assert_true(out->count < MOST_ENTRIES);
        *equals = '\0';
        out->entries[out->count++] = (struct envoy_entry){ span_of(words[i]), span_of(equals + 1) };
    }
    assert_true(i < n || !*until);
    out->limit = d ? envoy_find_limit(d, out->entries, out->count) : NULL;
    return i + 1;
}

/* What metrics call it: a star becomes `_`, and a hash follows then, or where a `#` says so. */
static bool is_called(const struct asked *a, const char *want)
{
    char name[WEIR_MAX_NAME + 1];
    size_t i = 0;

    if (!envoy_metric_name(a->limit, a->entries, a->count, name))
        snprintf(name, sizeof name, "%s", a->limit->rule->policy->name);
    for (; want[i] && want[i] != '#' && name[i]; i++)
        if (name[i] != (want[i] == '*' ? '_' : want[i]))
            return false;
    if (want[i] == '#')
        return strlen(name + i) == HASH;
    return !want[i] && (!name[i] || (strchr(want, '*') && strlen(name + i) == HASH));
}

static bool has(char **flags, size_t n, const char *flag)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(flags[i], flag) == 0)
            return true;
    return false;
}

static void expect_limit(const struct place *at, const struct asked *a, char **words, size_t n)
{
    const struct envoy_limit *limit = a->limit;
    char name[WEIR_MAX_NAME + 8] = "";

    if (strcmp(words[0], "none") == 0) {
        if (limit)
            fail_msg("%s:%d: there is a limit of %u", at->file, at->line, limit->requests_per_unit);
        return;
    }
    if (!limit)
        fail_msg("%s:%d: there is no limit", at->file, at->line);
    if (limit->requests_per_unit != strtoul(words[0], NULL, 10) ||
        strcmp(envoy_unit_names[limit->unit], words[1]) != 0)
        fail_msg("%s:%d: %u per %s", at->file, at->line, limit->requests_per_unit,
                 envoy_unit_names[limit->unit]);
    if (limit->rule && !is_called(a, words[2]))
        fail_msg("%s:%d: called %s", at->file, at->line, limit->rule->policy->name);
    if (limit->name[0])
        snprintf(name, sizeof name, "name=%s", limit->name);
    if (has(words, n, "unlimited") != limit->is_unlimited || limit->is_unlimited != !limit->rule ||
        has(words, n, "quota") != limit->is_quota ||
        has(words, n, "shadow") != (limit->rule && limit->rule->mode == MODE_SHADOW) ||
        has(words, n, "metadata") != (limit->metadata != NULL) ||
        (name[0] ? !has(words, n, name) : n > 3 && strncmp(words[n - 1], "name=", 5) == 0))
        fail_msg("%s:%d: what follows is not so", at->file, at->line);
}

static void expect_count(const struct place *at, const struct asked *a, const struct asked *b,
                         bool is_one)
{
    struct identity left, right;

    if (!a->limit || !b->limit)
        fail_msg("%s:%d: there is no limit", at->file, at->line);
    envoy_identity(a->limit, a->limit->rule, a->entries, a->count, &left);
    envoy_identity(b->limit, b->limit->rule, b->entries, b->count, &right);
    if ((a->limit == b->limit && left.len == right.len &&
         memcmp(left.bytes, right.bytes, left.len) == 0) != is_one)
        fail_msg("%s:%d: not so", at->file, at->line);
}

/* False: the line is no fact. */
static bool check_line(const struct loaded *l, const struct place *at, char *line)
{
    const char kind = line[0] == '#' ? line[1] : '\0';
    const char *relation;
    char *words[MOST_WORDS];
    struct asked a, b;
    size_t n, next;

    if (kind != '?' && kind != '=')
        return false;
    relation = kind == '?' ? "->" : strstr(line, " == ") ? "==" : "!=";
    n = split(line + 2, words);
    next = 1 + ask(l, words[0], words + 1, n - 1, relation, &a);
    assert_true(next < n);
    if (kind == '?') {
        expect_limit(at, &a, words + next, n - next);
    } else {
        (void)ask(l, words[0], words + next, n - next, "", &b);
        expect_count(at, &a, &b, *relation == '=');
    }
    return true;
}

static size_t check_file(const char *path)
{
    struct place at = { path, 0 };
    char line[MOST_LINE];
    struct loaded l;
    size_t facts = 0;
    FILE *f;

    load_source(&l, (struct policy_source){ .envoy = envoy_files_at(path, false) }, -1);
    if (l.err)
        fail_msg("%s", l.problems.lines.at);
    f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        at.line++;
        facts += check_line(&l, &at, line);
    }
    fclose(f);
    unload(&l);
    return facts;
}

static void every_fact_holds(void **state)
{
    DIR *folder = opendir(FOLDER);
    const struct dirent *e;
    size_t files = 0;

    (void)state;
    assert_non_null(folder);
    while ((e = readdir(folder))) {
        char path[PATH_MAX];

        if (!strstr(e->d_name, ".yaml"))
            continue;
        snprintf(path, sizeof path, FOLDER "%s", e->d_name);
        if (check_file(path) == 0)
            fail_msg("%s has no fact", path);
        files++;
    }
    closedir(folder);
    assert_true(files > 0);
}

static void a_star_stands_for_any_characters_or_none(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } all[] = {
        { "a*", "a", true },        { "*a", "a", true },          { "*", "", true },
        { "a*a", "a", false },      { "a*a", "aa", true },        { "a*b*c", "abc", true },
        { "a*b*c", "acb", false },  { "a*b*c", "a.b.b.c", true }, { "a**c", "ac", true },
        { "ab*ba", "aba", false },  { "*b*", "abc", true },       { "*b*b", "ab", false },
        { "a", "a", true },         { "a", "ab", false },         { "a*bc*c", "abcc", true },
        { "a*bc*c", "abc", false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (envoy_pattern_matches(span_of(all[i].pattern), span_of(all[i].text)) != all[i].matches)
            fail_msg("%s and %s", all[i].pattern, all[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fact_holds),
        cmocka_unit_test(a_star_stands_for_any_characters_or_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
