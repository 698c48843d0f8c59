/* file.c - a policy file as `weir policy` sees it.
 *
 * The file is read here and handed on as a text: so standard input will do, a file that
 * cannot be read is told from one with problems, and explanations can look at the text
 * that was loaded. The loader calls a text POLICY_FILE_TEXT; what it says of one is said of the
 * file instead. */
#include "cli/policy/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/secret.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/terminal.h"
#include "policy/envoy.h"
#include "policy/policies_json.h"
#include "replay/section.h"
#include "server/settings.h"

enum { MOST = 1 << 20 }; /* the loader refuses what is larger */

static bool complain_of_nul(struct policy_file *f)
{
    const struct span text = buf_span(&f->text);
    const char *nul = memchr(text.at, '\0', text.len);
    int line = 1, column = 1;

    if (!nul)
        return false;
    for (const char *c = text.at; c < nul; c++) {
        line += *c == '\n';
        column = *c == '\n' ? 1 : column + 1;
    }
    problems_add(&f->problems, POLICY_FILE_TEXT, line, column,
                 "there is a NUL byte: a policy file must be UTF-8 text");
    return true;
}

/* Files for envoyproxy/ratelimit are read by the loader: there may be several. */
static int read_text(struct policy_file *f, struct policy_source *source)
{
    if (f->is_envoy) {
        source->envoy = envoy_files_at(f->path, f->merges_domains);
        return input_is_there(f->path) ? STATUS_YES : STATUS_TROUBLE;
    }
    if (!input_read(f->path, MOST, &f->text))
        return STATUS_TROUBLE;
    if (complain_of_nul(f))
        return STATUS_NO;
    source->text = buf_span(&f->text).at;
    return STATUS_YES;
}

int policy_file_load(struct policy_file *f, bool with_environment)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct policy_source source = { .secret = &f->secret, .allocator = usual };
    weir_err err;
    int status;

    f->set = NULL;
    buf_init(&f->text, &usual);
    problems_init(&f->problems, &usual);
    f->names = intern_new(&usual);
    if (!f->names)
        return trouble("%s", weir_err_text(WEIR_ENOMEM));
    status = read_text(f, &source);
    if (status != STATUS_YES)
        return status;
    source.environment = with_environment ? (const char *const *)environ : NULL;
    source.names = f->names;
    err = policies_load(&source, &f->set, &f->problems);
    if (err && err != WEIR_EPOLICY)
        return trouble("%s: %s", f->path, weir_err_text(err));
    return err ? STATUS_NO : STATUS_YES;
}

/* A server reads more of the file than the policies. */
int policy_file_lint(struct policy_file *f, bool with_environment)
{
    const int status = policy_file_load(f, with_environment);

    if (status == STATUS_TROUBLE || f->is_envoy)
        return status;
    settings_lint(POLICY_FILE_TEXT, buf_span(&f->text), &f->problems);
    section_lint(POLICY_FILE_TEXT, buf_span(&f->text), &f->problems);
    problems_order(&f->problems, 0);
    return f->problems.count > 0 ? STATUS_NO : STATUS_YES;
}

size_t policy_file_rules(const struct policy_file *f)
{
    size_t rules = 0;

    for (size_t i = 0; i < policies_count(f->set); i++)
        rules += policies_at(f->set, i)->rule_count;
    return rules;
}

void policy_file_done(struct policy_file *f)
{
    policies_free(f->set);
    intern_free(f->names);
    problems_done(&f->problems);
    buf_done(&f->text);
}

/* "12:5: what is wrong"; false: it is another text. */
static bool read_place(struct problem_line *p)
{
    char *end;
    long line, column;

    line = strtol(p->text.at, &end, 10);
    if (end == p->text.at || *end != ':')
        return false;
    column = strtol(end + 1, &end, 10);
    if (strncmp(end, ": ", 2) != 0)
        return false;
    p->line = (int)line;
    p->column = (int)column;
    p->text.len -= (size_t)(end + 1 - p->text.at);
    p->text.at = end + 1;
    return true;
}

/* The file is what stands before this colon. */
static void cut_file(struct problem_line *p, struct span line, const char *colon)
{
    p->file = (struct span){ line.at, (size_t)(colon - line.at) };
    p->text = (struct span){ colon + 1, line.len - p->file.len - 1 };
}

/* A path may have colons: the file ends where a place follows, if there is one. */
static void find_file(struct problem_line *p, struct span line)
{
    const char *end = line.at + line.len;

    for (const char *c = line.at; (c = memchr(c, ':', (size_t)(end - c))); c++) {
        cut_file(p, line, c);
        if (read_place(p))
            return;
    }
    cut_file(p, line, strstr(line.at, ": "));
}

bool policy_file_problem(const struct policy_file *f, size_t *offset, struct problem_line *out)
{
    const struct span all = buf_span(&f->problems.lines);
    struct span line = { all.at + *offset, 0 };

    if (*offset >= all.len)
        return false;
    line.len = strcspn(line.at, "\n");
    *offset += line.len + 1;
    *out = (struct problem_line){ 0 };
    if (f->is_envoy) {
        find_file(out, line);
    } else {
        cut_file(out, line, strchr(line.at, ':'));
        if (span_is(out->file, POLICY_FILE_TEXT)) {
            out->file = span_of(f->path);
            (void)read_place(out);
        } else {
            out->file = span_of("environment");
        }
    }
    if (out->text.len > 0 && *out->text.at == ' ') {
        out->text.at++;
        out->text.len--;
    }
    return true;
}

void policy_file_print_problems(const struct policy_file *f)
{
    struct problem_line p;
    size_t offset = 0;

    fflush(stdout);
    while (policy_file_problem(f, &offset, &p)) {
        fprintf(stderr, "%.*s:", (int)p.file.len, p.file.at);
        if (p.line > 0)
            fprintf(stderr, "%d:%d:", p.line, p.column);
        fprintf(stderr, " %.*s\n", (int)p.text.len, p.text.at);
    }
}

int policy_file_documents(const char *path, struct buf *out)
{
    const weir_allocator usual = alloc_or_default((weir_allocator){ 0 });
    struct policy_file f = { .path = path };
    weir_diag diag;
    int status;

    buf_init(out, &usual);
    if (secret_random(&f.secret, &diag)) /* no hash is shown */
        return trouble("%s", diag.text);
    status = policy_file_load(&f, false);
    if (status == STATUS_YES)
        policies_json_documents(f.set, out);
    else if (status == STATUS_NO)
        policy_file_print_problems(&f);
    if (status == STATUS_YES && out->failed)
        trouble("%s", weir_err_text(WEIR_ENOMEM));
    policy_file_done(&f);
    return status == STATUS_YES && !out->failed ? STATUS_YES : STATUS_TROUBLE;
}
