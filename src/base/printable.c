/* printable.c - text from outside, made fit for a message: short, on one line, printable. */
#include "base/printable.h"

#include "base/utf8.h"

/* ASCII controls, and U+0080 to U+009F, which terminals obey too. */
static bool is_control(const unsigned char *c, size_t left)
{
    return c[0] < 0x20 || c[0] == 0x7F ||
           (c[0] == 0xC2 && left > 1 && c[1] >= 0x80 && c[1] <= 0x9F);
}

void printable_all(char *text, size_t len)
{
    const bool is_utf8 = utf8_is_text((struct span){ text, len });

    for (size_t i = 0; i < len; i++) {
        const unsigned char *c = (const unsigned char *)text + i;

        if (is_control(c, len - i)) {
            if (*c == 0xC2)
                text[i++] = '?';
            text[i] = '?';
        } else if (*c >= 0x80 && !is_utf8) {
            text[i] = '?';
        }
    }
}

bool is_printable(struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        if (is_control((const unsigned char *)text.at + i, text.len - i))
            return false;
    return utf8_is_text(text);
}

struct printable printable(struct span text)
{
    struct printable shown = { "" };
    const size_t room = sizeof shown.text - sizeof "...";
    size_t len = text.len;

    if (len > room) {
        len = room;
        while (len > 0 && (text.at[len] & 0xC0) == 0x80) /* cut between characters */
            len--;
    }
    if (len > 0)
        memcpy(shown.text, text.at, len);
    printable_all(shown.text, len);
    if (len < text.len)
        memcpy(shown.text + len, "...", sizeof "...");
    return shown;
}
