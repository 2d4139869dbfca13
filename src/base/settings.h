/* The arguments of a run: one typed field each, made from settings.def. Owns its texts and values; checks names, types
 * and ranges, and writes args.yaml. Does not look at files or devices. Not thread-safe while being set, read-only
 * afterwards. */
#ifndef BASE_SETTINGS_H
#define BASE_SETTINGS_H

#include "base/value.h"

#include <limits.h>

/* Kind, field type, what is accepted. "or None" only where the default is None. */
typedef enum setting_kind {
    SETTING_TEXT,              /* const char *, NULL for None; one of the allowed words where settings.def lists them */
    SETTING_INTEGER,           /* int; integral floats are taken too, here and below */
    SETTING_NATURAL,           /* int >= 0 */
    SETTING_POSITIVE,          /* int >= 1 */
    SETTING_OPTIONAL_POSITIVE, /* int >= 1, or SETTING_UNSET for None */
    SETTING_REAL,              /* double, NAN for None */
    SETTING_FRACTION,          /* double in [0, 1] */
    SETTING_OPTIONAL_FRACTION, /* double in [0, 1], NAN for None */
    SETTING_BATCH,             /* double: -1, (0, 1), or an integral number >= 1 */
    SETTING_BOOL,              /* bool */
    SETTING_TRISTATE,          /* setting_tristate */
    SETTING_SIZE,              /* const value *: int >= 1 or a list of one or two; see settings_image_size */
    SETTING_CACHE,             /* const value *: bool or a word; see settings_cache */
    SETTING_DEVICE,            /* const value *: None, int, text or a list */
    SETTING_SWITCH,            /* const value *: bool or text; see settings_switch_on and settings_switch_text */
    SETTING_AMP,               /* const value *: bool or a word */
    SETTING_SHARE,             /* const value *: (0, 1], int > 1, or a list of two or three; see settings_fraction */
    SETTING_INTS,              /* const value *: None, int, or a list of ints; see settings_ints */
    SETTING_QUANTIZE,          /* const value *: None, 8, 16, 32 or a word */
    SETTING_RANGE,             /* const value *: 0..1 or a pair; see settings_range */
    SETTING_KIND_COUNT
} setting_kind;

#define SETTING_UNSET INT_MIN
typedef enum setting_tristate { SETTING_NONE = -1, SETTING_FALSE = 0, SETTING_TRUE = 1 } setting_tristate;
typedef enum setting_cache { SETTING_CACHE_OFF, SETTING_CACHE_RAM, SETTING_CACHE_DISK } setting_cache;
typedef enum setting_group {
    SETTING_GROUP_GENERAL,
    SETTING_GROUP_TRAIN,
    SETTING_GROUP_VAL,
    SETTING_GROUP_PREDICT,
    SETTING_GROUP_EXPORT,
    SETTING_GROUP_HYPER,
    SETTING_GROUP_COUNT
} setting_group;

/* SETTING_ID_epochs … */
typedef enum setting_id {
#define SETTING(kind, name, default_text, words, group, doc) SETTING_ID_##name,
#include "base/settings.def"
#undef SETTING
    SETTING_COUNT
} setting_id;

#define SETTING_FIELD_TEXT              const char *
#define SETTING_FIELD_INTEGER           int
#define SETTING_FIELD_NATURAL           int
#define SETTING_FIELD_POSITIVE          int
#define SETTING_FIELD_OPTIONAL_POSITIVE int
#define SETTING_FIELD_REAL              double
#define SETTING_FIELD_FRACTION          double
#define SETTING_FIELD_OPTIONAL_FRACTION double
#define SETTING_FIELD_BATCH             double
#define SETTING_FIELD_BOOL              bool
#define SETTING_FIELD_TRISTATE          setting_tristate
#define SETTING_FIELD_SIZE              const value *
#define SETTING_FIELD_CACHE             const value *
#define SETTING_FIELD_DEVICE            const value *
#define SETTING_FIELD_SWITCH            const value *
#define SETTING_FIELD_AMP               const value *
#define SETTING_FIELD_SHARE             const value *
#define SETTING_FIELD_INTS              const value *
#define SETTING_FIELD_QUANTIZE          const value *
#define SETTING_FIELD_RANGE             const value *

/* Read the fields freely; change them only through the settings_set functions, which keep `values` in step. */
typedef struct settings {
    arena memory;
#define SETTING(kind, name, default_text, words, group, doc) SETTING_FIELD_##kind name;
#include "base/settings.def"
#undef SETTING
    const char *save_dir;               /* the run folder, NULL until it is known; last line of args.yaml */
    const value *values[SETTING_COUNT]; /* never NULL; what args.yaml shows */
    bool given[SETTING_COUNT];          /* set by the user on the command line or through the library, not by a file */
} settings;

typedef struct setting_info {
    const char *name;
    setting_kind kind;
    const char *default_text; /* as typed: "None", "0.01", "auto" */
    const char *words;        /* "a|b|c" or "" */
    setting_group group;
    const char *doc;
} setting_info;

extern const setting_info setting_infos[SETTING_COUNT];
bool setting_find(const char *name, setting_id *id);
bool setting_is_flag(setting_id id); /* may be given without "=": True */
const char *setting_group_name(setting_group group);
/* "int >= 1", "0 to 1", "True or False" …: for help pages. */
const char *setting_kind_text(setting_kind kind);

/* All defaults. On failure `s` needs no deinit. */
ol_status settings_init(settings *s, ol_context *ctx);
void settings_deinit(settings *s);
/* `copy` is not initialised before; afterwards independent of `s`. */
ol_status settings_copy(const settings *s, settings *copy);

/* Checks and stores; `v` may live anywhere. Deprecated names are translated with a warning. Unknown names, wrong types
 * and values out of range fail with OL_ERROR_ARGUMENT. settings_set marks the key as given, settings_set_quietly does
 * not. */
ol_status settings_set(settings *s, const char *name, const value *v);
ol_status settings_set_quietly(settings *s, setting_id id, const value *v);
/* The same from text in the grammar of the command line ("none", "[0, 1]", "0.5"); an empty text is an error. */
ol_status settings_set_text(settings *s, const char *name, const char *typed);
/* Defaults from a map (a cfg file, a checkpoint's train_args): keys already given keep their value. `strict`: an
 * unknown name fails; otherwise unknown names are passed over and unusable values keep the default. `where` is for
 * messages. */
ol_status settings_set_map(settings *s, const value *map, const char *where, bool strict);
ol_status settings_read(settings *s, const char *path);
ol_status settings_set_save_dir(settings *s, const char *path);

/* All settings in order with save_dir last: args.yaml, and the train_args of a checkpoint (values are shared with `s`).
 */
ol_status settings_to_map(arena *a, const settings *s, const value **map);
ol_status settings_write(text *out, const settings *s);

/* Up to three known words like `name`, as "['mode=train', 'model']"; nothing is appended when none is close (similarity
 * at least 0.6 among arguments, tasks, modes and special words). */
void settings_suggest(text *out, const char *name);
/* The whole "'x' is not a valid YOLO argument." message. */
ol_status settings_fail_unknown(ol_context *ctx, const char *name);

/* Height and width in pixels; a single number is square. */
void settings_image_size(const settings *s, int hw[2]);
setting_cache settings_cache(const settings *s);
/* True or a text. */
bool settings_switch_on(const value *v);
/* The text, NULL when it is a plain bool or None. */
const char *settings_switch_text(const value *v);
/* *items is NULL and *count 0 for None; a single int n is a list of one. Lives in `a`. */
ol_status settings_ints(arena *a, const value *v, int **items, size_t *count);
/* 0.5 -> [0.5, 1.5]: multipliers of the zoom (random perspective, data document 2.5); a pair is taken as it is. */
void settings_range(const value *v, double *low, double *high);
/* Part of a split (0 train, 1 val, 2 test): *count > 0 is a number of pictures, else *share is in (0, 1]. */
void settings_fraction(const settings *s, int split, double *share, int64_t *count);

#endif
