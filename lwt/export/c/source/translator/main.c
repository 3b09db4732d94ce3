/* The host program: translates every line of standard input, or tests itself.

       translate < texts           a translation a line
       translate --ids < texts     the ids of the source, and behind a tab those of the answer
       translate --self-test       compares with the golden answers; exit code 1 if they differ */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"

static lwt_arena arena;
static long cut; /* texts of which tokens were left out */

static int self_test(void)
{
    lwt_findings found;
    int failures = lwt_self_test(&arena, &found);
    printf("self-test: %d of %d failed, bits %08lx\n", failures, lwt_golden_count, (unsigned long)found.bits);
    return failures != 0;
}

static void print_row(const uint16_t *ids, int count, char end)
{
    for (int i = 0; i < count; i++)
        printf(i ? " %d" : "%d", ids[i]);
    putchar(end);
}

static void print_ids(const char *text)
{
    static uint16_t source[LWT_LENGTH], ids[LWT_LENGTH];
    static lwt_words words;
    static lwt_network network;
    static lwt_search search;
    int length = lwt_read_ids(&words, text, source, LWT_LENGTH - 1);
    length = length < LWT_LENGTH ? length : LWT_LENGTH - 1;
    source[length++] = LWT_STOP;
    lwt_encode_source(&network, source, length);
    print_row(source, length, '\t');
    print_row(ids, lwt_find_answer(&search, &network, ids), '\n');
}

static void print_answer(const char *text)
{
    static char answer[LWT_ANSWER_BYTES];
    cut += lwt_translate(&arena, text, answer, sizeof answer, NULL) == LWT_CUT;
    puts(answer);
}

int main(int argc, char **argv)
{
    int ids = argc == 2 && !strcmp(argv[1], "--ids");
    if (argc == 2 && !strcmp(argv[1], "--self-test"))
        return self_test();
    if (argc > 1 && !ids) {
        fprintf(stderr, "usage: %s [--ids | --self-test] < texts\n", argv[0]);
        return 2;
    }
    char *line = NULL;
    size_t size = 0;
    for (ssize_t length; (length = getline(&line, &size, stdin)) >= 0;) {
        while (length && (line[length - 1] == '\n' || line[length - 1] == '\r'))
            line[--length] = 0;
        (ids ? print_ids : print_answer)(line);
        fflush(stdout);
    }
    if (cut)
        fprintf(stderr, "texts longer than the %d tokens of a row, which were cut: %ld\n", LWT_LENGTH, cut);
    free(line);
    return 0;
}
