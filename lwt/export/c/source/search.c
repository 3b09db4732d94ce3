/* See search.h. */
#include "model.h"

/* Most ids of an answer, the end mark included. */
static int limit(const lwt_network *net)
{
    int most = net->length * 3 / 2 + 16;
    return most < LWT_LENGTH ? most : LWT_LENGTH;
}

#if LWT_BEAMS > 1

/* Puts a branch in its place among the best `room`; of equal ones, the first is better. */
static void put_branch(lwt_branch *best, int room, lwt_branch branch)
{
    int place = room;
    while (place && branch.score > best[place - 1].score)
        place--;
    for (int i = room - 1; i > place; i--)
        best[i] = best[i - 1];
    if (place < room)
        best[place] = branch;
}

static void put_finished(lwt_search *search, const lwt_candidate *answer, float score)
{
    int place = LWT_BEAMS;
    while (place && score > search->finished[place - 1].score)
        place--;
    for (int i = LWT_BEAMS - 1; i > place; i--)
        search->finished[i] = search->finished[i - 1];
    if (place == LWT_BEAMS)
        return;
    search->finished[place] = *answer;
    search->finished[place].score = score;
}

/* Finds the best continuations of all running answers, whose last id is at position t. */
static void extend(lwt_search *search, lwt_network *net, int t)
{
    lwt_choices choices;
    for (int i = 0; i < 2 * LWT_BEAMS; i++)
        search->found[i].score = LWT_LEAST;
    for (int i = 0; i < LWT_BEAMS; i++) {
        lwt_branch branch = search->branches[i];
        if (branch.score <= LWT_LEAST)
            continue;
        lwt_step(net, branch.slot, t, branch.id, &choices);
        for (int c = 0; c < LWT_CHOICES; c++) {
            float score = branch.score + (choices.logits[c] - choices.total);
            put_branch(search->found, 2 * LWT_BEAMS, (lwt_branch){branch.slot, choices.ids[c], score});
        }
    }
}

/* Answers that end among the first are finished; the best others keep running. */
static void select(lwt_search *search, int t)
{
    int count = 0;
    for (int i = 0; i < 2 * LWT_BEAMS; i++) {
        const lwt_branch *found = &search->found[i];
        if (found->score <= LWT_LEAST)
            break;
        if (found->id != LWT_STOP && count < LWT_BEAMS)
            search->branches[count++] = *found;
        else if (found->id == LWT_STOP && i < LWT_BEAMS)
            put_finished(search, &search->running[found->slot], found->score / lwt_penalties[t + 1]);
    }
    for (; count < LWT_BEAMS; count++)
        search->branches[count].score = LWT_LEAST;
}

/* Gives every branch a slot of its own: the first of an answer takes its slot, the others get copies. */
static void divide(lwt_search *search, lwt_network *net, int t)
{
    int owner[LWT_BEAMS], next = 0;
    for (int slot = 0; slot < LWT_BEAMS; slot++)
        owner[slot] = -1;
    for (int i = 0; i < LWT_BEAMS; i++)
        if (search->branches[i].score > LWT_LEAST && owner[search->branches[i].slot] < 0)
            owner[search->branches[i].slot] = i;
    for (int i = 0; i < LWT_BEAMS; i++) {
        int from = search->branches[i].slot;
        if (search->branches[i].score <= LWT_LEAST || owner[from] == i)
            continue;
        while (owner[next] >= 0)
            next++;
        owner[next] = i;
        search->branches[i].slot = next;
        search->running[next] = search->running[from];
        lwt_copy_answer(net, next, from, t + 1);
    }
    for (int i = 0; i < LWT_BEAMS; i++) {
        lwt_candidate *answer = &search->running[search->branches[i].slot];
        if (search->branches[i].score > LWT_LEAST) {
            answer->ids[t] = search->branches[i].id;
            answer->length = t + 1;
        }
    }
}

/* Whether no running answer can become better than the worst finished one. */
static int is_done(const lwt_search *search, int t, int most)
{
    float penalty = lwt_penalties[LWT_POWER_PENALTY ? t + 1 : most];
    return search->branches[0].score / penalty <= search->finished[LWT_BEAMS - 1].score;
}

int lwt_find_answer(lwt_search *search, lwt_network *net, uint16_t *answer)
{
    int most = limit(net);
    for (int i = 0; i < LWT_BEAMS; i++) {
        search->branches[i] = (lwt_branch){0, LWT_BEGIN, i ? LWT_LEAST : 0};
        search->finished[i].score = LWT_LEAST;
    }
    search->running[0].length = 0;
    for (int t = 0, done = 0; t < most && !done; t++) {
        extend(search, net, t);
        select(search, t);
        divide(search, net, t);
        done = is_done(search, t, most);
    }
    const lwt_candidate *best = &search->finished[0];
    if (best->score <= LWT_LEAST)
        best = &search->running[search->branches[0].slot];
    for (int i = 0; i < best->length; i++)
        answer[i] = best->ids[i];
    return best->length;
}

#else

int lwt_find_answer(lwt_search *search, lwt_network *net, uint16_t *answer)
{
    int most = limit(net);
    uint16_t id = LWT_BEGIN;
    for (int t = 0; t < most; t++) {
        lwt_step(net, 0, t, id, &search->choices);
        id = search->choices.ids[0];
        if (id == LWT_STOP)
            return t;
        answer[t] = id;
    }
    return most;
}

#endif
