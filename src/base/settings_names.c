/* Closest known words for a mistyped one (data document, section 5.1). */
#include "base/settings.h"

#include <string.h>

#define MAX_SUGGESTIONS 3
#define MIN_SIMILARITY  0.6

typedef struct candidate {
    const char *word;
    double similarity;
} candidate;

/* Best first; equal ones by descending spelling, as the field's program lists them. */
static bool is_better(const candidate *a, const candidate *b) {
    if (a->similarity != b->similarity) return a->similarity > b->similarity;
    return strcmp(a->word, b->word) > 0;
}

static void consider(candidate best[MAX_SUGGESTIONS], int *count, const char *word, const char *name) {
    const candidate c = {word, text_similarity(word, name)};
    if (c.similarity < MIN_SIMILARITY) return;
    for (int i = 0; i < *count; i++) {
        if (strcmp(best[i].word, word) == 0) return;
    }
    int at = *count;
    while (at > 0 && is_better(&c, &best[at - 1])) at--;
    if (at == MAX_SUGGESTIONS) return;
    const int last = *count < MAX_SUGGESTIONS ? *count : MAX_SUGGESTIONS - 1;
    for (int i = last; i > at; i--) best[i] = best[i - 1];
    best[at] = c;
    *count = last + 1;
}

static void consider_words(candidate best[MAX_SUGGESTIONS], int *count, arena *a, const char *words, const char *name) {
    for (const char *at = words; *at != '\0';) {
        const size_t n = strcspn(at, "|");
        const char *word = arena_strndup(a, at, n);
        if (word != NULL) consider(best, count, word, name);
        at += n + (at[n] == '|');
    }
}

void settings_suggest(text *out, const char *name) {
    arena scratch;
    arena_init(&scratch, out->ctx, 0);
    candidate best[MAX_SUGGESTIONS];
    int count = 0;
    const char *stem = arena_strndup(&scratch, name, strcspn(name, "="));
    for (int i = 0; stem != NULL && i < SETTING_COUNT; i++) consider(best, &count, setting_infos[i].name, stem);
    if (stem != NULL) {
        consider_words(best, &count, &scratch, setting_infos[SETTING_ID_task].words, stem);
        consider_words(best, &count, &scratch, setting_infos[SETTING_ID_mode].words, stem);
        consider_words(best, &count, &scratch, "help|checks|version|settings|cfg|copy-cfg|shapes", stem);
    }
    for (int i = 0; i < count; i++) {
        setting_id id;
        const bool has_default = setting_find(best[i].word, &id) && strcmp(setting_infos[id].default_text, "None") != 0;
        text_printf(out, "%s'%s%s%s'%s", i == 0 ? "[" : ", ", best[i].word, has_default ? "=" : "",
                    has_default ? setting_infos[id].default_text : "", i + 1 == count ? "]" : "");
    }
    arena_deinit(&scratch);
}

ol_status settings_fail_unknown(ol_context *ctx, const char *name) {
    text close;
    text_init(&close, ctx);
    settings_suggest(&close, name);
    const ol_status status =
        ctx_fail(ctx, OL_ERROR_ARGUMENT, "'%.200s' is not a valid YOLO argument.%s%s%s", name,
                 close.length > 0 ? " Similar arguments are i.e. " : " 'yolo cfg' lists all arguments.", text_c(&close),
                 close.length > 0 ? "." : "");
    text_deinit(&close);
    return status;
}
