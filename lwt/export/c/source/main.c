/* The host program: answers every line of standard input with a label and the logits, or tests itself.

       classify < texts          a label and the logits a line, with tabs between
       classify --ids < texts    the ids that the network reads
       classify --self-test      compares with the golden vectors; exit code 1 if they differ@USAGE@ */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"

static lwt_arena arena;
static long cut; /* texts of which tokens were left out */

#if LWT_TASKS
static lwt_task task;

/* Selects the task of a name, or the first one, from the program's slots or from a file that takes their place. */
static int choose(const char *name, const char *path)
{
    static uint16_t slots[LWT_TASKS][LWT_SLOT_BYTES / 2];
    FILE *file = path ? fopen(path, "rb") : NULL;
    size_t count = file ? fread(slots, sizeof slots[0], LWT_TASKS, file) : LWT_TASKS;
    if (path && !file) {
        perror(path);
        return 1;
    }
    if (file)
        fclose(file);
    for (size_t i = 0; i < count; i++) {
        lwt_status status = lwt_select(&task, file ? slots[i] : lwt_tasks[i]);
        if (status != LWT_OK)
            fprintf(stderr, "slot %d: status %d\n", (int)i, (int)status);
        else if (!name || !strcmp(name, task.name))
            return 0;
    }
    fprintf(stderr, "no slot has %s%s; tasks:", name ? "the task " : "a task", name ? name : "");
    for (size_t i = 0; i < count; i++)
        if (lwt_select(&task, file ? slots[i] : lwt_tasks[i]) == LWT_OK)
            fprintf(stderr, " %s", task.name);
    fprintf(stderr, "\n");
    return 1;
}
#endif

static int self_test(void)
{
    lwt_findings found;
    int failures = lwt_self_test(&arena, &found);
    printf("self-test: %d of %d failed, largest difference %.5f, tolerance %.5f, bits %08lx\n", failures,
           lwt_golden_count, (double)found.worst, (double)LWT_TOLERANCE, (unsigned long)found.bits);
    return failures != 0;
}

static void print_ids(const char *first, const char *second)
{
    static uint16_t ids[LWT_LENGTH];
    static lwt_words words;
    lwt_row row = {.ids = ids};
    lwt_encode(&words, first, second, &row);
    for (int i = 0; i < row.length; i++)
        printf("%d%c", row.ids[i], i + 1 < row.length ? ' ' : '\n');
}

static void print_answer(const char *first, const char *second)
{
    lwt_answer answer;
    cut += lwt_classify(&arena, @ARGUMENT@first, second, &answer) == LWT_CUT;
    if (answer.classes)
        printf("%s", @LABEL@);
    for (int i = 0; i < answer.classes || i < 1; i++)
        printf(i || answer.classes ? "\t%.9g" : "%.9g", (double)answer.logits[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    int ids = argc == 2 && !strcmp(argv[1], "--ids");
    if (argc == 2 && !strcmp(argv[1], "--self-test"))
        return self_test();
#if LWT_TASKS
    if (argc > 1 && !ids && argv[1][0] != '-') {
        if (choose(argv[1], argc > 2 ? argv[2] : NULL))
            return 3;
        argc = 1;
    } else if (choose(NULL, NULL)) {
        return 3;
    }
#endif
    if (argc > 1 && !ids) {
        fprintf(stderr, "usage: %s [--ids | --self-test@OPTIONS@] < texts\n", argv[0]);
        return 2;
    }
    char *line = NULL;
    size_t size = 0;
    long number = 0;
    for (ssize_t length; (length = getline(&line, &size, stdin)) >= 0;) {
        number++;
        while (length && (line[length - 1] == '\n' || line[length - 1] == '\r'))
            line[--length] = 0;
        char *second = LWT_TEXTS == 2 ? strchr(line, '\t') : NULL;
        if (LWT_TEXTS == 2 && !second) {
            fprintf(stderr, "line %ld must be two texts with a tab between: %.60s\n", number, line);
            free(line);
            return 2;
        }
        if (second)
            *second++ = 0;
        (ids ? print_ids : print_answer)(line, second);
    }
    if (cut)
        fprintf(stderr, "texts longer than the %d tokens of a row, which were cut: %ld\n", LWT_LENGTH, cut);
    free(line);
    return 0;
}
