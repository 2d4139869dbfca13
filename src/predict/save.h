/* Files of a prediction: the annotated picture, label text, crops (data document, sections 4.5, 4.6). Remembers the
 * stems it has used, so that two pictures of one name do not overwrite each other. One thread at a time. */
#ifndef PREDICT_SAVE_H
#define PREDICT_SAVE_H

#include "base/settings.h"
#include "predict/result.h"

typedef struct result_saver {
    ol_context *ctx;
    const settings *s; /* reads save_txt, save_conf, save_crop, show_labels, show_conf, show_boxes, line_width */
    const char *folder;
    bool save_pictures;
    char **stems; /* open-addressed set */
    size_t n_stems, stem_capacity;
    size_t n_labels; /* label files written */
} result_saver;

/* `folder` exists; it and `s` outlive the saver. */
ol_status result_saver_init(result_saver *v, ol_context *ctx, const settings *s, const char *folder,
                            bool save_pictures);
void result_saver_deinit(result_saver *v);
/* <folder>/<stem>.jpg, labels/<stem>.txt, crops/<class>/<stem>.jpg. */
ol_status result_save(result_saver *v, const predict_result *r);

/* The picture with its boxes, as saved; `out` is zero-initialised or reused. */
ol_status result_draw(ol_context *ctx, const settings *s, const predict_result *r, image *out);
/* Rows `class cx cy w h [score]` as fractions of the picture, "%g". */
void result_print_labels(text *out, const predict_result *r, bool scores);
/* The part of a picture around a box, 2 % and 10 pixels larger, cut to whole pixels; false when nothing is left. */
bool crop_rectangle(const detection *d, int height, int width, int *left, int *top, int *right, int *bottom);

#endif
