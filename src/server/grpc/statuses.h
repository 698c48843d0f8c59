/* statuses.h - how a call of gRPC can end. */
#ifndef WEIR_SERVER_GRPC_STATUSES_H
#define WEIR_SERVER_GRPC_STATUSES_H

#define GRPC_STATUSES(X)                                                                           \
    X(OK)                                                                                          \
    X(CANCELLED)                                                                                   \
    X(UNKNOWN)                                                                                     \
    X(INVALID_ARGUMENT)                                                                            \
    X(DEADLINE_EXCEEDED)                                                                           \
    X(NOT_FOUND)                                                                                   \
    X(ALREADY_EXISTS)                                                                              \
    X(PERMISSION_DENIED)                                                                           \
    X(RESOURCE_EXHAUSTED)                                                                          \
    X(FAILED_PRECONDITION)                                                                         \
    X(ABORTED)                                                                                     \
    X(OUT_OF_RANGE)                                                                                \
    X(UNIMPLEMENTED)                                                                               \
    X(INTERNAL)                                                                                    \
    X(UNAVAILABLE)                                                                                 \
    X(DATA_LOSS)                                                                                   \
    X(UNAUTHENTICATED)

enum grpc_status {
#define WEIR_X(name) GRPC_##name,
    GRPC_STATUSES(WEIR_X)
#undef WEIR_X
        GRPC_STATUS_COUNT
};

#endif
