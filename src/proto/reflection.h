/* reflection.h - what services and messages there are, for clients that ask: grpc.reflection.v1, and
 * v1alpha, which is the same. */
#ifndef WEIR_PROTO_REFLECTION_H
#define WEIR_PROTO_REFLECTION_H

#include "proto/protobuf.h"

/* One ServerReflectionResponse to one ServerReflectionRequest. What is not found is told in it. */
enum protobuf_fault reflection_answer(struct buf *out, struct span message,
                                      weir_diag *diag) WEIR_MUSTCHECK;

/* ---- the files of proto/, by scripts/embed.py ----------------------------------------------- */

struct descriptor_file {
    const char *name;
    struct span descriptor;     /* a FileDescriptorProto */
    const unsigned char *needs; /* itself, and all others that it leads to */
    size_t need_count;
};

struct descriptor_symbol {
    const char *name; /* of a message, an enum, a service or a method */
    size_t file;
};

extern const struct descriptor_file descriptor_files[];
extern const size_t descriptor_file_count;
extern const struct descriptor_symbol descriptor_symbols[];
extern const size_t descriptor_symbol_count;
extern const char *const descriptor_services[];
extern const size_t descriptor_service_count;

#endif
