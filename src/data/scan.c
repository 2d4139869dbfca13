#include "data/scan.h"

#include "base/file.h"
#include "data/image.h"

#include <stdio.h>
#include <string.h>

#define LABEL_FILE_BYTES ((size_t)64 << 20)
#define MIN_SIDE         10

/* Turns the pending message into the reason; only a lack of memory stays a failure. */
static ol_status reject_with_message(ol_context *ctx, ol_status status, scan_record *r) {
    if (status == OL_ERROR_MEMORY) return status;
    char message[sizeof r->verdict.reason];
    ctx_message(ctx, message, sizeof message);
    ctx_clear(ctx);
    r->verdict.rejected = true;
    memcpy(r->verdict.reason, message, sizeof message);
    return OL_OK;
}

static ol_status check_picture(ol_context *ctx, scan_record *r) {
    image_info info = {0};
    const ol_status status = image_check_file(ctx, r->path, &info);
    if (status != OL_OK) return reject_with_message(ctx, status, r);
    r->h = info.height;
    r->w = info.width;
    if (r->h >= MIN_SIDE && r->w >= MIN_SIDE) return OL_OK;
    r->verdict.rejected = true;
    snprintf(r->verdict.reason, sizeof r->verdict.reason, "image size (%d, %d) <%d pixels", r->h, r->w, MIN_SIDE);
    return OL_OK;
}

static ol_status read_labels(arena *a, const label_rules *rules, scan_record *r) {
    char *text = NULL;
    size_t n = 0;
    ol_status status = file_check_regular(a->ctx, r->label_path);
    if (status == OL_OK) status = file_read(a->ctx, r->label_path, LABEL_FILE_BYTES, &text, &n);
    if (status != OL_OK) return r->verdict.rejected ? OL_OK : reject_with_message(a->ctx, status, r);
    label_verdict verdict = {0};
    label_rows rows = {0};
    status = labels_parse(a, text, n, rules, &rows, &verdict);
    mem_free(a->ctx, text);
    if (status != OL_OK) return status;
    r->state = rows.n > 0 || verdict.rejected ? LABEL_FOUND : LABEL_EMPTY;
    if (r->verdict.rejected) return OL_OK; /* the picture's fault was found first */
    r->verdict = verdict;
    r->rows = rows;
    return OL_OK;
}

ol_status scan_picture(arena *a, const label_rules *rules, scan_record *r) {
    r->picture = file_stamp_get(r->path);
    r->label = file_stamp_get(r->label_path);
    r->state = r->label.exists ? LABEL_FOUND : LABEL_MISSING;
    r->rows = (label_rows){0};
    r->verdict = (label_verdict){0};
    const ol_status status = check_picture(a->ctx, r);
    if (status != OL_OK || !r->label.exists) return status;
    return read_labels(a, rules, r);
}
