/* reading.c - the words of a WEIR.* command, read into a request.
 *
 * HOW A KEY IS TOLD FROM ATTRIBUTES. What follows the policy is either one bare key or any number
 * of name=value words, and then options.
 *   - Several words with an '=' behind a valid name are attributes.
 *   - One such word is an attribute, unless there is one policy and it counts by a single attribute
 *     of another name: then it is that attribute's value (`c29tZQ==` is a key).
 *   - Every other first word is the key, even if it spells an option. An empty one stands for none,
 *     for a policy that counts everyone together and an option behind it.
 * So a value that comes from outside is given by its name, `user=…`: only the first '=' counts, and
 * it cannot be taken for anything else. */
#include "server/resp/reading.h"

#include "base/suggest.h"

/* The attributes are left as they are: most commands have few of them. */
void reading_begin(struct reading *in, struct session *s, struct resp_command *c, size_t at)
{
    in->session = s;
    in->command = c;
    in->at = at;
    in->is_full = false;
    in->trace = (struct span){ 0 };
    in->asked.request = (weir_request){ .attributes = in->asked.attributes };
    in->asked.peek = in->asked.wants_tag = in->asked.is_release = false;
}

/* ---- options ----------------------------------------------------------------------------- */

enum option_kind { NUMBER, COST, NAME, FLAG, FULL, POLICY, ON_ERROR, START, TRACE };

struct option {
    const char *word;
    enum option_kind kind;
    int64_t least; /* of a number */
    size_t place;  /* in struct parsed_request */
    unsigned of;
};

#define IN_REQUEST(member)                                                                         \
    (offsetof(struct parsed_request, request) + offsetof(weir_request, member))

static const struct option options[] = {
    { "COST", COST, 0, IN_REQUEST(cost), OF_COUNTED | OF_COMMIT | OF_GROW },
    { "TTL", NUMBER, 1, IN_REQUEST(ttl_ms), OF_RESERVE | OF_EXTEND },
    { "ID", NAME, 0, IN_REQUEST(id), OF_CHECK | OF_LIMIT | OF_RESERVE },
    { "PLAN", NAME, 0, IN_REQUEST(plan), OF_POLICY },
    { "PEEK", FLAG, 0, offsetof(struct parsed_request, peek), OF_CHECK | OF_LIMIT },
    { "NOW", NUMBER, 1, IN_REQUEST(now), OF_COUNTED | OF_RESERVATION },
    { "FULL", FULL, 0, 0, OF_ALL },
    { "TAG", FLAG, 0, offsetof(struct parsed_request, wants_tag), OF_POLICY | OF_LIMIT },
    { "EXEMPT", FLAG, 0, IN_REQUEST(exempt), OF_CHECK | OF_LIMIT | OF_RESERVE },
    { "POLICY", POLICY, 0, 0, OF_POLICY },
    { "BURST", NUMBER, 1, IN_REQUEST(burst), OF_LIMIT },
    { "PRECISION", NUMBER, 1, IN_REQUEST(precision_ms), OF_LIMIT },
    { "START", START, 0, IN_REQUEST(start), OF_LIMIT },
    { "BLOCK_FOR", NUMBER, 1, IN_REQUEST(block_for_ms), OF_LIMIT },
    { "NAME", NAME, 0, IN_REQUEST(name), OF_LIMIT },
    { "ON_ERROR", ON_ERROR, 0, IN_REQUEST(on_error), OF_LIMIT },
    { "TRACEPARENT", TRACE, 0, 0, OF_CHECK | OF_LIMIT | OF_RESERVE },
};

enum { OPTIONS = sizeof options / sizeof *options };

/* A word may be an identity in the wrong place: error texts do not repeat it. */
static void refuse_option(const struct reading *in, unsigned of)
{
    const char *known[OPTIONS], *near;
    size_t n = 0;

    for (size_t i = 0; i < OPTIONS; i++)
        if (options[i].of & of)
            known[n++] = options[i].word;
    near = suggest(in->command->words[in->at], known, n);
    resp_reply_error(in->session, "INVALID_REQUEST word %zu is not an option of %s%s%s%s",
                     in->at + 1, resp_find(in->command->words[0])->name,
                     near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* … that is a name, or another word. */
static bool read_word(struct reading *in, const struct option *option, void *place)
{
    const struct span value = in->command->words[in->at];

    if (option->kind == TRACE) { /* one that is not valid is as good as none, as in HTTP */
        in->trace = value;
        return true;
    }
    if (option->kind == START) {
        if (parsed_request_start(value, place))
            return true;
        resp_reply_error(in->session, "INVALID_REQUEST START must be followed by epoch or first");
        return false;
    }
    if (option->kind == ON_ERROR) {
        if (parsed_request_on_error(value, place))
            return true;
        resp_reply_error(in->session,
                         "INVALID_REQUEST ON_ERROR must be followed by local, allow or deny");
        return false;
    }
    if (!resp_word_is_text(value) || value.len == 0) {
        resp_reply_error(in->session, "INVALID_REQUEST %s must be followed by a name",
                         option->word);
        return false;
    }
    if (option->kind == NAME) {
        *(const char **)place = value.at;
    } else if (!parsed_request_add_policy(&in->asked, value.at)) {
        resp_reply_error(in->session, "INVALID_REQUEST there are more than %d policies",
                         WEIR_MAX_RULES);
        return false;
    }
    return true;
}

/* `COST tokens 1200` */
static bool read_named_cost(struct reading *in, struct span name, int64_t amount)
{
    in->at++;
    if (!resp_word_is_text(name) || name.len == 0) {
        resp_reply_error(in->session, "INVALID_REQUEST COST must be followed by a number, or by a "
                                      "name and a number");
        return false;
    }
    if (parsed_request_add_cost(&in->asked, name.at, amount))
        return true;
    resp_reply_error(in->session, "INVALID_REQUEST there are more than %d costs", WEIR_MAX_COSTS);
    return false;
}

/* What follows an option; false: an error was replied. */
static bool read_value(struct reading *in, const struct option *option)
{
    const struct span value = in->command->words[in->at];
    char *const place = (char *)&in->asked + option->place;
    int64_t number;

    if (option->kind != NUMBER && option->kind != COST)
        return read_word(in, option, place);
    if (option->kind == COST && in->at + 1 < in->command->count &&
        !resp_word_number(value, &number) &&
        resp_word_number(in->command->words[in->at + 1], &number))
        return read_named_cost(in, value, number);
    if (!resp_word_number(value, &number) || number < option->least) {
        resp_reply_error(in->session,
                         "INVALID_REQUEST %s must be followed by a whole number from %d on",
                         option->word, (int)option->least);
        return false;
    }
    if (option->kind == COST && in->asked.request.cost != 0) {
        resp_reply_error(in->session, "INVALID_REQUEST %s is given twice", option->word);
        return false;
    }
    if (number == 0) /* only of a cost; in a request 0 means that there is none */
        number = WEIR_COST_ZERO;
    *(int64_t *)place = number;
    return true;
}

bool reading_options(struct reading *in, unsigned of)
{
    const struct resp_command *c = in->command;
    unsigned given = 0;

    for (; in->at < c->count; in->at++) {
        const struct option *option = options;

        while (option < options + OPTIONS &&
               !(option->of & of && resp_word_is(c->words[in->at], option->word)))
            option++;
        if (option == options + OPTIONS) {
            refuse_option(in, of);
            return false;
        }
        if (given & 1U << (option - options) && option->kind != POLICY && option->kind != COST) {
            resp_reply_error(in->session, "INVALID_REQUEST %s is given twice", option->word);
            return false;
        }
        given |= 1U << (option - options);
        if (option->kind == FULL)
            in->is_full = true;
        if (option->kind == FLAG)
            *(bool *)((char *)&in->asked + option->place) = true;
        if (option->kind == FLAG || option->kind == FULL)
            continue;
        if (++in->at == c->count) {
            resp_reply_error(in->session, "INVALID_REQUEST %s must be followed by a %s",
                             option->word,
                             option->kind == NUMBER || option->kind == COST      ? "number"
                             : option->kind == ON_ERROR || option->kind == START ? "word"
                             : option->kind == TRACE                             ? "traceparent"
                                                                                 : "name");
            return false;
        }
        if (!read_value(in, option))
            return false;
    }
    return true;
}

/* ---- policies ---------------------------------------------------------------------------- */

static bool is_in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_.:/-", c));
}

/* The '=' of name=value, or NULL: it is something else. */
static char *equals_of(struct span word)
{
    const size_t most = word.len < WEIR_MAX_NAME + 1 ? word.len : WEIR_MAX_NAME + 1;
    const char *equals = memchr(word.at, '=', most);

    if (!equals || equals == word.at)
        return NULL;
    for (const char *at = word.at; at < equals; at++)
        if (!is_in_name(*at))
            return NULL;
    return (char *)equals;
}

/* The only word that looks like an attribute: is it the key of this policy? */
static bool is_key_all_the_same(const struct reading *in, struct span word)
{
    struct loop *loop = session_loop(in->session);
    const struct policy *policy;

    if (!turn_begin_asking(loop))
        return false;
    policy = policies_find(loop->turn.pin->visit.current, span_of(in->asked.request.policy));
    return policy && policy->sole_attribute &&
           !span_equal(span_of(policy->sole_attribute),
                       (struct span){ word.at, (size_t)(equals_of(word) - word.at) });
}

static void add_attribute(struct reading *in, struct span word)
{
    char *equals = equals_of(word);

    *equals = '\0';
    in->asked.attributes[in->asked.request.attribute_count++] = (weir_attribute){
        .name = word.at,
        .value = equals + 1,
        .value_len = (size_t)(word.at + word.len - equals) - 1,
    };
}

static void set_key(struct reading *in, struct span key)
{
    if (key.len == 0)
        return;
    in->asked.request.key = key.at;
    in->asked.request.key_len = key.len;
}

bool reading_identity(struct reading *in, unsigned of)
{
    const struct resp_command *c = in->command;
    const size_t first = in->at;
    size_t n = 0;

    if (in->at == c->count)
        return true;
    while (first + n < c->count && equals_of(c->words[first + n]))
        n++;
    if (n == 0) {
        set_key(in, c->words[in->at++]);
        if (in->at < c->count && equals_of(c->words[in->at])) {
            resp_reply_error(in->session, "INVALID_REQUEST give a key or attributes, not both");
            return false;
        }
        return reading_options(in, of);
    }
    if (n > WEIR_MAX_ATTRIBUTES) {
        resp_reply_error(in->session, "INVALID_REQUEST %zu attributes are too many: at most %d", n,
                         WEIR_MAX_ATTRIBUTES);
        return false;
    }
    in->at += n;
    if (!reading_options(in, of))
        return false;
    if (n == 1 && in->asked.request.policy && is_key_all_the_same(in, c->words[first]))
        set_key(in, c->words[first]);
    else
        for (size_t i = 0; i < n; i++)
            add_attribute(in, c->words[first + i]);
    return true;
}
