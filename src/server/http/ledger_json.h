/* ledger_json.h - an entry of the ledger as JSON, with its identity hashed. */
#ifndef WEIR_SERVER_HTTP_LEDGER_JSON_H
#define WEIR_SERVER_HTTP_LEDGER_JSON_H

#include "base/json.h"
#include "store/ledger.h"

void ledger_entry_json(struct json *j, const struct ledger_entry *e);

#endif
