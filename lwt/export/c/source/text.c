/* See text.h. What is removed, and in which order, is what lwt/data/text.py does; the README names the differences. */
#include "model.h"

#if LWT_REMOVE_HTML || LWT_REMOVE_URLS

static int is_letter(uint32_t c)
{
    return (c | 32) >= 'a' && (c | 32) <= 'z';
}

static int is_space(uint32_t c)
{
    return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f) || c == 0x85 || c == 0xa0 || c == 0x1680
        || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Letters, digits and the underscore; beyond ASCII, all but Latin-1 signs, general punctuation and emoji. */
static int is_word(uint32_t c)
{
    if (c < 128)
        return is_letter(c) || (c >= '0' && c <= '9') || c == '_';
#if LWT_CODE_BYTES > 1 /* and, with a large alphabet, the punctuation of Chinese and Japanese */
    if ((c >= 0x3008 && c < 0x3021) || c == 0x30fb || (c >= 0xfe10 && c < 0xfe70) || (c >= 0xff01 && c < 0xff10)
        || (c >= 0xff1a && c < 0xff21) || (c >= 0xff3b && c < 0xff41) || (c >= 0xff5b && c < 0xff66))
        return 0;
#endif
    return c >= 0xc0 && !(c >= 0x2000 && c < 0x2c00) && !(c >= 0x3000 && c < 0x3004) && c < 0x1f000;
}

/* Whether the bytes from `at` are `word`, in any case; `word` is in lower case. */
static int starts(const uint8_t *at, const uint8_t *end, const char *word)
{
    for (; *word; at++, word++)
        if (at == end || (is_letter(*at) ? *at | 32 : *at) != (uint8_t)*word)
            return 0;
    return 1;
}

#endif

static uint32_t next_code_point(lwt_text *text)
{
    uint32_t c = *text->at++;
    if (c < 0x80)
        return c;
    int more = c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 0;
    if (!more)
        return 0xfffd;
    uint8_t least = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80; /* of the second byte: no long forms, */
    uint8_t most = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;  /* no surrogates, nothing beyond U+10FFFF */
    c &= 0x3f >> more;
    for (; more; more--, least = 0x80, most = 0xbf) {
        if (text->at == text->end || *text->at < least || *text->at > most)
            return 0xfffd;
        c = c << 6 | (*text->at++ & 0x3f);
    }
    return c;
}

#if LWT_REMOVE_HTML

/* The end of `</name >`, or NULL. */
static const uint8_t *closing(const uint8_t *at, const uint8_t *end, const char *name, int length)
{
    for (; at < end; at++) {
        if (!starts(at, end, "</") || !starts(at + 2, end, name))
            continue;
        const uint8_t *close = at + 2 + length;
        while (close < end && is_space(*close))
            close++;
        if (close < end && *close == '>')
            return close + 1;
    }
    return 0;
}

/* The end of `-->`, or NULL. */
static const uint8_t *comment_end(const uint8_t *at, const uint8_t *end)
{
    for (; at < end; at++)
        if (starts(at, end, "-->"))
            return at + 3;
    return 0;
}

/* The end of the tag whose `<` was read last, or NULL. A script is removed with its content. */
static const uint8_t *tag(lwt_text *text)
{
    const uint8_t *at = text->at, *end = text->end, *close = 0;
    int script = starts(at, end, "script"), kind = 0;
    if ((script || starts(at, end, "style")) && (at + 5 + script == end || !is_word(at[5 + script])))
        kind = script ? 1 : 2;
    else if (starts(at, end, "!--"))
        kind = 4;
    if (kind == 4 && !(text->endless & kind))
        close = comment_end(at + 3, end);
    else if (kind && !(text->endless & kind))
        close = closing(at + 5 + script, end, script ? "script" : "style", 5 + script);
    if (close)
        return close;
    text->endless |= kind;
    at += at < end && *at == '/';
    if (at == end || !(is_letter(*at) || *at == '!'))
        return 0;
    while (++at < end && *at != '<' && *at != '>')
        ;
    return at < end && *at == '>' ? at + 1 : 0;
}

/* The character of `#123;` or `#x7b;` after an ampersand, or 0. */
static uint32_t number(lwt_text *text)
{
    int hexadecimal = starts(text->at, text->end, "#x");
    const uint8_t *p = text->at + 1 + hexadecimal, *first = p;
    uint32_t value = 0;
    for (; p < text->end; p++) {
        int letter = hexadecimal && is_letter(*p) && (*p | 32) <= 'f';
        if (!letter && (*p < '0' || *p > '9'))
            break;
        int digit = letter ? (*p | 32) - 'a' + 10 : *p - '0';
        value = value < LWT_END ? value * (hexadecimal ? 16 : 10) + digit : LWT_END;
    }
    if (p == first)
        return 0;
    text->at = p + (p < text->end && *p == ';');
    return value == 0 || value >= LWT_END || (value >= 0xd800 && value < 0xe000) ? 0xfffd : value;
}

/* The character of the entity after an ampersand; the ampersand itself if the entity is unknown. */
static uint32_t entity(lwt_text *text)
{
    static const struct {
        char name[6];
        uint8_t length, character;
    } names[] = {{"amp", 3, '&'}, {"lt", 2, '<'}, {"gt", 2, '>'}, {"quot", 4, '"'}, {"nbsp", 4, 0xa0}, {"apos;", 5, '\''}};
    if (text->at < text->end && *text->at == '#') {
        uint32_t found = number(text);
        return found ? found : '&';
    }
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        const uint8_t *behind = text->at + names[i].length;
        if (starts(text->at, text->end, names[i].name)) {
            text->at = behind + (i < 5 && behind < text->end && *behind == ';');
            return names[i].character;
        }
    }
    return '&';
}

#endif

/* The next character, addresses included. */
static uint32_t next_character(lwt_text *text)
{
    if (text->at == text->end)
        return LWT_END;
    uint32_t c = next_code_point(text);
#if LWT_REMOVE_HTML
    if (c == '<') {
        const uint8_t *close = tag(text);
        if (close) {
            text->at = close;
            return ' ';
        }
    }
    if (c == '&')
        return entity(text);
#endif
    return c;
}

#if LWT_REMOVE_URLS

/* Skips an address that begins here: up to the next space, without the punctuation before it. */
static int skip_address(lwt_text *text)
{
    static const char *const schemes[] = {"https://", "http://", "ftp://", "www."};
    static const char trailing[] = ".,;:!?)]}\"'";
    lwt_text probe = *text;
    for (unsigned i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        if (!starts(text->at, text->end, schemes[i]))
            continue;
        for (const char *p = schemes[i]; *p; p++)
            probe.at++;
        int length = 0;
        for (uint32_t c; (c = next_character(&probe)) != LWT_END && !is_space(c); length++) {
            int ends = c == 0xbb;
            for (const char *p = trailing; *p; p++)
                ends |= c == (uint8_t)*p;
            if (!ends || !length)
                text->at = probe.at;
        }
        text->endless = probe.endless;
        return length > 0;
    }
    return 0;
}

#endif

uint32_t lwt_next(lwt_text *text)
{
#if LWT_REMOVE_URLS
    if (!is_word(text->before) && skip_address(text)) {
        text->before = 'a'; /* an address does not begin right after another */
        return ' ';
    }
#endif
    return text->before = next_character(text);
}
