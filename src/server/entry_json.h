/* entry_json.h - an entry of the ledger as JSON, with its identity hashed. */
#ifndef WEIR_SERVER_ENTRY_JSON_H
#define WEIR_SERVER_ENTRY_JSON_H

#include "base/json.h"
#include "store/ledger.h"

void entry_json(struct json *j, const struct ledger_entry *e);

#endif
