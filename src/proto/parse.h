/* parse.h - what a parser of bytes from a client or server can say. */
#ifndef WEIR_PROTO_PARSE_H
#define WEIR_PROTO_PARSE_H

enum parse {
    PARSE_MORE, /* it is not all there yet: call again with the same bytes and more behind them */
    PARSE_DONE, /* one whole message; `consumed` says where the next one begins */
    PARSE_BAD,  /* it cannot become a message; the parser says why */
};

#endif
