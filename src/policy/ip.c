/* ip.c - addresses and networks, read from text and written in one form only. */
#include "policy/ip.h"

#include "base/diag.h"
#include "base/printable.h"

enum { LONGEST = 128 }; /* an address in brackets with a zone id and a port is shorter */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_v4(struct span text, unsigned char out[4])
{
    const char *at = text.at, *end = at + text.len;

    for (int i = 0; i < 4; i++) {
        unsigned number;

        if (i > 0 && (at == end || *at++ != '.'))
            return false;
        if (at == end || !is_digit(*at))
            return false;
        number = (unsigned)(*at++ - '0');
        if (number > 0) /* a leading zero would be octal to some */
            while (at < end && is_digit(*at) && number <= 255)
                number = number * 10 + (unsigned)(*at++ - '0');
        if (number > 255)
            return false;
        out[i] = (unsigned char)number;
    }
    return at == end;
}

/* RFC 4291 text: groups, at most one "::", perhaps a dotted tail. */
static bool read_v6(struct span text, unsigned char out[16])
{
    const size_t none = 16;
    const char *at = text.at, *end = at + text.len;
    size_t len = 0, gap = none;

    memset(out, 0, 16);
    if (text.len >= 2 && at[0] == ':' && at[1] == ':') {
        gap = 0;
        at += 2;
    }
    while (at < end) {
        const char *start = at;
        unsigned group = 0;

        while (at < end && at - start < 4 && hex_value(*at) >= 0)
            group = group << 4 | (unsigned)hex_value(*at++);
        if (at > start && at < end && *at == '.') {
            if (len > 12 || !read_v4((struct span){ start, (size_t)(end - start) }, out + len))
                return false;
            len += 4;
            break;
        }
        if (at == start || len == 16)
            return false;
        out[len++] = (unsigned char)(group >> 8);
        out[len++] = (unsigned char)group;
        if (at == end)
            break;
        if (*at++ != ':' || at == end)
            return false;
        if (*at == ':') {
            if (gap != none)
                return false;
            gap = len;
            at++;
        }
    }
    if (gap == none)
        return len == 16;
    if (len == 16) /* "::" stands for at least one group */
        return false;
    memmove(out + 16 - (len - gap), out + gap, len - gap);
    memset(out + gap, 0, 16 - len);
    return true;
}

static bool is_v4_mapped(const unsigned char bytes[16])
{
    static const unsigned char prefix[12] = { [10] = 0xFF, [11] = 0xFF };

    return memcmp(bytes, prefix, sizeof prefix) == 0;
}

static void unmap(struct ip *ip)
{
    memmove(ip->bytes, ip->bytes + 12, 4);
    memset(ip->bytes + 4, 0, 12);
    ip->is_v6 = false;
}

static bool is_port(struct span text)
{
    unsigned number = 0;

    if (text.len == 0 || text.len > 5)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (!is_digit(text.at[i]))
            return false;
        number = number * 10 + (unsigned)(text.at[i] - '0');
    }
    return number <= 65535;
}

static bool is_zone(struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] <= ' ' || strchr("[]/%", text.at[i]))
            return false;
    return text.len > 0;
}

/* What stands before the first `c`; `after` gets what stands behind it, or keeps NULL. */
static struct span cut_at(struct span text, char c, struct span *after)
{
    const char *at = text.len > 0 ? memchr(text.at, c, text.len) : NULL;
    size_t len = at ? (size_t)(at - text.at) : text.len;

    *after = (struct span){ NULL, 0 };
    if (at)
        *after = (struct span){ at + 1, text.len - len - 1 };
    return (struct span){ text.at, len };
}

static bool read_v6_with_zone(struct span text, struct ip *out)
{
    struct span zone, address = cut_at(text, '%', &zone);

    if ((zone.at && !is_zone(zone)) || !read_v6(address, out->bytes))
        return false;
    out->is_v6 = true;
    if (is_v4_mapped(out->bytes))
        unmap(out);
    return true;
}

bool ip_is_dotted(struct span text)
{
    unsigned char bytes[4];

    return text.len >= 7 && text.len <= 15 && read_v4(text, bytes);
}

bool ip_read(struct span text, struct ip *out)
{
    struct span address, after, port;

    *out = (struct ip){ .is_v6 = false };
    if (text.len == 0 || text.len > LONGEST)
        return false;
    if (read_v4(text, out->bytes))
        return true;
    if (*text.at == '[') {
        address = cut_at((struct span){ text.at + 1, text.len - 1 }, ']', &after);
        if (!after.at)
            return false;
        if (after.len > 0 &&
            (*after.at != ':' || !is_port((struct span){ after.at + 1, after.len - 1 })))
            return false;
        return read_v6_with_zone(address, out);
    }
    address = cut_at(text, ':', &port);
    if (is_port(port) && read_v4(address, out->bytes))
        return true;
    return read_v6_with_zone(text, out);
}

static void mask(unsigned char *bytes, int len, int bits)
{
    for (int i = 0; i < len; i++, bits -= 8) {
        if (bits <= 0)
            bytes[i] = 0;
        else if (bits < 8)
            bytes[i] &= (unsigned char)(0xFF << (8 - bits));
    }
}

static size_t write_decimal(unsigned number, char *out)
{
    size_t len = 0;

    if (number >= 100)
        out[len++] = (char)('0' + number / 100);
    if (number >= 10)
        out[len++] = (char)('0' + number / 10 % 10);
    out[len++] = (char)('0' + number % 10);
    return len;
}

static size_t write_v4(const unsigned char bytes[4], char *out)
{
    size_t len = 0;

    for (int i = 0; i < 4; i++) {
        if (i > 0)
            out[len++] = '.';
        len += write_decimal(bytes[i], out + len);
    }
    return len;
}

/* The longest run of two or more zero groups, the first if there are several. */
static int find_zeros(const unsigned groups[8], int *count)
{
    int best = -1;

    *count = 1;
    for (int i = 0; i < 8; i++) {
        int n = 0;

        while (i + n < 8 && groups[i + n] == 0)
            n++;
        if (n > *count) {
            best = i;
            *count = n;
        }
    }
    return best;
}

static size_t write_v6(const unsigned char bytes[16], char *out)
{
    unsigned groups[8];
    int zeros, zero_count;
    size_t len = 0;

    for (int i = 0; i < 8; i++)
        groups[i] = (unsigned)bytes[2 * i] << 8 | bytes[2 * i + 1];
    zeros = find_zeros(groups, &zero_count);
    for (int i = 0; i < 8; i++) {
        if (i == zeros) {
            out[len++] = ':';
            out[len++] = ':';
            i += zero_count - 1;
            continue;
        }
        if (i > 0 && out[len - 1] != ':')
            out[len++] = ':';
        for (int shift = 12; shift >= 0; shift -= 4)
            if (groups[i] >> shift != 0 || shift == 0)
                out[len++] = "0123456789abcdef"[groups[i] >> shift & 15];
    }
    return len;
}

size_t ip_write(const struct ip *ip, int ipv6_prefix, char out[IP_TEXT])
{
    struct ip cut = *ip;
    size_t len;

    if (!ip->is_v6)
        return write_v4(ip->bytes, out);
    mask(cut.bytes, 16, ipv6_prefix);
    len = write_v6(cut.bytes, out);
    out[len++] = '/';
    return len + write_decimal((unsigned)ipv6_prefix, out + len);
}

static bool read_bits(struct span text, int most, int *bits)
{
    if (!is_port(text) || text.len > 3 || (text.len > 1 && *text.at == '0'))
        return false;
    *bits = 0;
    for (size_t i = 0; i < text.len; i++)
        *bits = *bits * 10 + (text.at[i] - '0');
    return *bits <= most;
}

static weir_err refuse_bits(const struct cidr *meant, struct span text, weir_diag *diag)
{
    char address[IP_TEXT + 1];
    size_t len = meant->base.is_v6 ? write_v6(meant->base.bytes, address)
                                   : write_v4(meant->base.bytes, address);

    address[len] = '\0';
    return diag_fail(diag, WEIR_EPOLICY, "'%s' has bits set beyond its prefix: write %s/%d",
                     printable(text).text, address, meant->bits);
}

weir_err cidr_read(struct span text, struct cidr *out, weir_diag *diag)
{
    struct span bits, address = cut_at(text, '/', &bits);
    struct ip given;
    int most = 32;

    *out = (struct cidr){ .bits = 32 };
    if (address.len > LONGEST)
        address.len = 0;
    if (!read_v4(address, out->base.bytes)) {
        if (!read_v6(address, out->base.bytes))
            return diag_fail(diag, WEIR_EPOLICY,
                             "'%s' is not an address or network: write 203.0.113.7, 10.0.0.0/8 or "
                             "2001:db8::/32",
                             printable(text).text);
        out->base.is_v6 = true;
        out->bits = most = 128;
    }
    if (bits.at && !read_bits(bits, most, &out->bits))
        return diag_fail(diag, WEIR_EPOLICY, "'%s' has no valid prefix: write 0 to %d after the /",
                         printable(text).text, most);
    if (out->base.is_v6 && is_v4_mapped(out->base.bytes) && out->bits >= 96) {
        unmap(&out->base);
        out->bits -= 96;
    }
    given = out->base;
    mask(out->base.bytes, out->base.is_v6 ? 16 : 4, out->bits);
    if (memcmp(given.bytes, out->base.bytes, sizeof given.bytes) != 0)
        return refuse_bits(out, text, diag);
    return WEIR_OK;
}

bool cidr_has(const struct cidr *net, const struct ip *ip)
{
    const int whole = net->bits / 8, rest = net->bits % 8;

    if (net->base.is_v6 != ip->is_v6 || memcmp(net->base.bytes, ip->bytes, (size_t)whole) != 0)
        return false;
    return rest == 0 ||
           ((net->base.bytes[whole] ^ ip->bytes[whole]) & 0xFF << (8 - rest) & 0xFF) == 0;
}
