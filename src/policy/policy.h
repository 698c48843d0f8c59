/* policy.h - which rules apply to a request: the policy file, loaded and immutable.
 *
 * A loaded set never changes, but for what readers keep with it, and may be read by any number of
 * threads. Names point into `names` and outlive the set; everything else is freed with it. */
#ifndef WEIR_POLICY_POLICY_H
#define WEIR_POLICY_POLICY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/hash.h"
#include "base/intern.h"
#include "base/span.h"
#include "limit/limit.h"
#include "policy/problems.h"
#include "policy/rate.h"

enum { POLICY_MAX_BY = 8 }; /* attributes that one rule counts by */

/* X(name, text) */
#define POLICY_MODES(X)                                                                            \
    X(ENFORCE, "enforce")                                                                          \
    X(SHADOW, "shadow")                                                                            \
    X(OFF, "off")

enum mode {
#define X(name, text) MODE_##name,
    POLICY_MODES(X)
#undef X
        MODE_COUNT
};
extern const char *const mode_names[MODE_COUNT];

enum on_error {
#define X(name, value, text) ON_ERROR_##name,
    WEIR_ON_ERRORS(X)
#undef X
        ON_ERROR_COUNT
};
extern const char *const on_error_names[ON_ERROR_COUNT];

enum retry { RETRY_LONGEST, RETRY_SOONEST };

/* Could this name a policy, a rule, a plan or an attribute? 1 to WEIR_MAX_NAME of
 * a-z A-Z 0-9 _ . : / - */
bool name_is_valid(struct span name);

/* What a rule counts that does not say it. */
#define COUNTS_REQUESTS "requests"

/* The one rule of a short policy, and of a limit that came with a request and a name. */
#define SOLE_RULE "default"

/* A named fact about a request. */
struct attribute {
    struct span name, value;
};

/* What tags of identities are made with. */
struct tag_key {
    struct hash_key hash_key;
    const struct shared_key *shared_key; /* the same, made ready; NULL: it is not */
};

/* A limit as one key counts it: the numbers, and what keys are made with. */
struct counted {
    struct rule rule;
    struct hash_key hash_key;            /* what identities are hashed with … */
    uint64_t own_bits;                   /* … and key_beside(); 0: the hash is the key */
    const struct shared_key *shared_key; /* that of a shared store, made ready; NULL: it is not */
};

/* How the keys of a policy's limits are made for one identity: side by side, by one hash of it, or each
 * by a hash of its own, as in shared stores and in files of before. Those of a SOLE_RULE always are: it
 * has none beside it, and counts what a limit of this name has counted that came with requests. These
 * choose their window, and so could make keys side by side without end; of a policy there are no more
 * than it has rules, with their plans and shadow limits. */
enum key_way { KEYS_TOGETHER, KEYS_APART };

struct plan {
    const char *name;
    struct counted counted;
    int line;
};

/* Whether instances take chunks of its limit from a shared store, and answer from these. */
struct policy_lease {
    int64_t ttl;  /* ms that a chunk lasts; 0: none is taken */
    int64_t most; /* of one chunk; 0: as much as is wanted */
};
enum {
    LEASE_LEAST_TTL_MS = 500,
    LEASE_MOST_TTL_MS = 60000,
    LEASE_USUAL_TTL_MS = 1000,
    LEASE_SLIDING_PARTS = 40, /* of a sliding window: the longest that a chunk is held … */
    LEASE_LEAST_MS = 250,     /* … and the shortest, so that not all windows are leased */
    LEASE_LEAST_SLIDING_MS = LEASE_LEAST_MS * LEASE_SLIDING_PARTS,
};

struct policy_rule {
    const char *name;            /* SOLE_RULE for the one of a short policy */
    const struct policy *policy; /* whose it is */
    enum mode mode;              /* its own or the policy's: off beats shadow beats enforce */
    enum mode own_mode;
    const char *counts; /* the amount of a request that it counts; NULL: requests */
    struct counted counted;
    const struct counted *shadow_limit; /* a second limit beside the live one, or NULL */
    int rollout; /* to this share of identities it is enforced, for the others it is in shadow */
    struct hash_key rollout_key; /* … which this tells apart */
    uint8_t class;               /* for stores; from 1 on, and its own as far as there are enough */
    const char *const *by;       /* attributes it counts by; none: one global count */
    size_t by_count;
    int ipv6_prefix;        /* how many bits of an IPv6 address are the identity */
    struct tag_key tag_key; /* what its identities are called by */
    const struct plan *plans;
    size_t plan_count;
    struct policy_lease lease;
    int line;
};

/* How its reservations are held. */
struct policy_reserve {
    int64_t ttl;     /* ms, of one that brings none; 0: each must */
    int64_t max_ttl; /* 0: WEIR_MAX_TTL_MS */
    bool releases;   /* what is not settled in time is given back, and not used */
};
extern const char *const expiry_names[2]; /* what `releases` is called */

/* What is worked out once for requests that differ in their key alone. */
enum policy_prepared { POLICY_PREPARED_CHECK, POLICY_PREPARED_RESERVE, POLICY_PREPARED };

struct policy {
    const char *name;
    uint64_t name_hash; /* XXH3, of 64 bits */
    enum mode mode;
    enum on_error on_error;
    enum retry retry;
    struct policy_reserve reserve;
    const struct policy_rule *rules; /* in file order */
    size_t rule_count;
    const char *sole_attribute;     /* what a bare `key` stands for; NULL: there is no such one */
    const struct exemption *exempt; /* its own, beside the file's */
    size_t exempt_count;
    const struct envoy_limit *envoy; /* that it is made of, see envoy.h; NULL: it is of the file */
    int line;
    _Atomic(void *)
        prepared[POLICY_PREPARED]; /* what a first reader worked out for others; or NULL */
};

enum alert_kind {
    ALERT_DENY_RATE,        /* a policy denies more than such a share of its checks */
    ALERT_IDENTITY_DENIALS, /* an identity is refused more than so often */
    ALERT_BREAKER_OPEN,     /* the store cannot be asked for as long as this */
    ALERT_FALLBACK,         /* on_error decides more than so often */
    ALERT_UNANSWERED,       /* checks have no answer more than so often */
    ALERT_KINDS
};

/* What a webhook takes. */
enum webhook_format {
    WEBHOOK_JSON,
    WEBHOOK_SLACK,
    WEBHOOK_DISCORD,
    WEBHOOK_PAGERDUTY,
    WEBHOOK_FORMATS
};

struct alert {
    const char *name;
    enum alert_kind kind;
    const char *policy; /* NULL: any */
    int64_t over;       /* hundredths of a percent, or how often */
    int64_t window;
    int64_t least;       /* requests in the window, for a share of them to count */
    const char *webhook; /* NULL: it is only logged */
    enum webhook_format format;
    const char *routing_key; /* of PagerDuty; NULL: there is none */
    int line;
};

/* What happens while the store cannot be asked. */
struct fallback {
    int64_t instances; /* that share each limit */
    int64_t
        after_errors; /* failures in a row, and no check waits for a shared store; 0: not said */
    int64_t deny_after_errors; /* questions in a row, and `local` refuses; 0: never */
};

struct policies; /* one loaded set */

/* Where a set comes from. */
/* For envoyproxy/ratelimit. Their reader is a pointer, so that the library is linked without it. */
struct envoy_files {
    const char *path;    /* a file, or a directory of them; NULL: there are none */
    bool merges_domains; /* several may have the same domain */
    const struct envoy_reader *reader;
};

struct policy_source {
    const char *file; /* NULL: `text` */
    const char *text;
    const char *const *environment; /* NAME=value strings, NULL at the end; NULL: no overrides */
    const struct secret *secret;
    enum key_way key_way;
    struct intern *names;
    weir_allocator allocator;
    struct envoy_files envoy;
};

/* Load everything or nothing. On failure `problems` has all that is wrong, in file order,
 * each as `file:line:column: what is wrong and what would be right`. */
WEIR_MUSTCHECK weir_err policies_load(const struct policy_source *source, struct policies **out,
                                      struct problems *problems);
void policies_free(struct policies *set);

/* Keep `prepared`, which the allocator of the set has made, with this policy of it until the set is
 * freed. False: another thread was faster. */
bool policy_keep_prepared(const struct policy *p, enum policy_prepared what, void *prepared);

/* Tells a set from one that was before it, which may have had the same address. Set before it is
 * published, and never 0 then. */
void policies_set_edition(struct policies *set, uint64_t edition);
uint64_t policies_edition(const struct policies *set);

bool policies_enabled(const struct policies *set); /* false: WEIR_ENABLED=false */
struct fallback policies_fallback(const struct policies *set);
size_t policies_count(const struct policies *set);
const struct policy *policies_at(const struct policies *set, size_t i); /* in file order */
const struct policy *policies_find(const struct policies *set, struct span name); /* NULL: none */
const char *policies_suggest(const struct policies *set, struct span name);       /* or NULL */

const struct alert *policies_alerts(const struct policies *set, size_t *count);

/* Does an exemption of the file or of this policy (may be NULL) cover these attributes? */
bool policies_exempt(const struct policies *set, const struct policy *policy,
                     const struct attribute *attributes, size_t n);

/* Can there be one that does? */
bool policies_may_exempt(const struct policies *set, const struct policy *policy);

/* Do its rules count by this attribute, or do exemptions that it is under look at it? */
bool policies_use(const struct policies *set, const struct policy *policy, struct span attribute);

/* The numbers this rule has under a plan: the plan's, or its own if it has no such plan. */
const struct counted *policy_rule_under(const struct policy_rule *rule, struct span plan);

/* What a limit is: its policy, its rule, its algorithm, its window and what it counts. Limit, burst and
 * precision are not, so that changing them keeps what is counted. */
struct counted_scope {
    struct span policy, rule;
    const struct rule *numbers;
    const char *counts; /* NULL: requests */
    bool is_shadow_limit;
};

/* The hash key of its identities, where each limit has its own. */
struct hash_key counted_hash_key(const struct secret *secret, const struct counted_scope *of);

/* What its keys are made with; no shared key. By KEYS_TOGETHER it depends on its policy's name and on
 * itself, and not on what other rules there are: so a reload keeps what is counted, whichever rules come,
 * go or change places. */
struct counted counted_make(const struct secret *secret, enum key_way way,
                            const struct counted_scope *of);

/* The key of an identity that was hashed with the hash key. */
static inline struct key counted_key(const struct counted *c, struct key hashed)
{
    return key_beside(hashed, c->own_bits);
}

/* The same for tags: an identity is called the same under all rules of all policies that count by
 * the same. */
struct hash_key tag_hash_key(const struct secret *secret, const char *const *by, size_t by_count);

/* Is the rule enforced for this identity, or in shadow? The same everywhere and for good; who is
 * within a share is within every larger one. */
bool policy_rule_reaches(const struct policy_rule *rule, struct span identity);
struct hash_key rollout_hash_key(const struct secret *secret, struct span policy, struct span rule);

/* Its mode where an operator has set `live` for its policy's; NULL: none has. A mode of its own
 * that is milder stays. */
enum mode policy_rule_mode(const struct policy_rule *rule, const enum mode *live);

const char *alert_kind_name(enum alert_kind kind); /* "deny_rate" */
const char *mode_name(enum mode mode);
bool mode_by_name(struct span name, enum mode *out); /* false: there is no such mode */
const char *on_error_name(enum on_error on_error);
const char *retry_name(enum retry retry);

#endif
