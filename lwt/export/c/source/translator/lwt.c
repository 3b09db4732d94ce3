/* See lwt.h. */
#include "model.h"

typedef struct {
    uint16_t source[LWT_LENGTH], answer[LWT_LENGTH];
    lwt_search search;
    union { /* ids are made before the network runs */
        lwt_words words;
        lwt_network network;
    } use;
} memory;

typedef char the_arena_has_room[sizeof(memory) <= LWT_ARENA_BYTES ? 1 : -1];

lwt_status lwt_translate(lwt_arena *arena, const char *text, char *answer, int size, lwt_translation *translation)
{
    if (!arena || !text || !answer)
        return LWT_NULL;
    memory *own = (memory *)arena;
    lwt_translation found = {0, 0, 0, 0};
    lwt_stage(0);
    int pieces = lwt_read_ids(&own->use.words, text, own->source, LWT_LENGTH - 1), cut = pieces > LWT_LENGTH - 1;
    found.pieces = cut ? LWT_LENGTH - 1 : pieces;
    for (int i = 0; i < found.pieces; i++)
        found.unknown += own->source[i] == LWT_UNKNOWN;
    own->source[found.pieces] = LWT_STOP;
    lwt_stage(1);
    lwt_encode_source(&own->use.network, own->source, found.pieces + 1);
    lwt_stage(2);
    found.answer_pieces = lwt_find_answer(&own->search, &own->use.network, own->answer);
    lwt_stage(3);
    found.bytes = lwt_detokenize(own->answer, found.answer_pieces, answer, size);
    if (translation)
        *translation = found;
    return found.bytes >= size ? LWT_SMALL : cut ? LWT_CUT : LWT_OK;
}

const char *lwt_version(void)
{
    return "@VERSION@";
}

const lwt_description *lwt_describe(void)
{
    static const lwt_description description = {@DESCRIPTION@};
    return &description;
}
