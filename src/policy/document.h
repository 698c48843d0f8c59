/* document.h - policies as the documents that a database keeps. */
#ifndef WEIR_POLICY_DOCUMENT_H
#define WEIR_POLICY_DOCUMENT_H

#include "base/buf.h"
#include "policy/policy.h"

/* One JSON object of documents by name, as sql/0003_policies.sql describes them. */
void policy_documents_write(const struct policies *set, struct buf *to);

#endif
