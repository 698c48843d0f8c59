/* store.c - finds the store that a URI names. */
#include "store/store.h"

#include <string.h>

#include "base/diag.h"
#include "base/show.h"
#include "base/suggest.h"

static const struct store_ops *const stores[] = { &file_store_ops, &memory_store_ops };
enum { STORE_COUNT = sizeof stores / sizeof stores[0] };

weir_err store_open(struct store **out, const struct store_options *options, weir_diag *diag)
{
    const char *schemes[STORE_COUNT], *near;
    struct span scheme = { options->uri, strcspn(options->uri, ":") + 1 };

    for (size_t i = 0; i < STORE_COUNT; i++) {
        schemes[i] = stores[i]->scheme;
        if (strncmp(options->uri, schemes[i], strlen(schemes[i])) == 0)
            return stores[i]->open(out, options, diag);
    }
    if (options->uri[scheme.len - 1] != ':')
        scheme.len--;
    near = suggest(scheme, schemes, STORE_COUNT);
    return diag_fail(diag, WEIR_EOPTION, "there is no store '%s': %s%s%s", show(scheme).text,
                     near ? "did you mean '" : "use ",
                     near ? near : "file:DIR or memory:", near ? "'?" : "");
}
