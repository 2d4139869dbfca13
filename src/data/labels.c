#include "data/labels.h"

#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COORDINATE_MAX     1.01f /* what rounding in annotation tools may leave outside the picture */
#define COORDINATE_MIN     (-0.01f)
#define CLASS_LIMIT        1000000.0f /* when the set's class count is not known */
#define OUTLINE_MIN_POINTS 3

typedef struct box_row {
    float cls, cx, cy, w, h;
} box_row;

typedef struct raw_row {
    size_t first, count; /* into the numbers */
    int line;
} raw_row;

/* The numbers of a label file before any meaning. */
typedef struct raw_file {
    ol_context *ctx;
    float *numbers;
    raw_row *rows;
    size_t n_numbers, number_capacity, n_rows, row_capacity;
} raw_file;

static void raw_deinit(raw_file *raw) {
    mem_free(raw->ctx, raw->numbers);
    mem_free(raw->ctx, raw->rows);
}

static void reject(label_verdict *v, int line, const char *format, ...) CTX_PRINTF(3, 4);
static void reject(label_verdict *v, int line, const char *format, ...) {
    va_list args;
    v->rejected = true;
    v->line = line;
    va_start(args, format);
    vsnprintf(v->reason, sizeof v->reason, format, args);
    va_end(args);
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* A decimal number that fills `length` bytes. Hexadecimal, which strtod takes too, is none. */
static bool parse_number(const char *text, size_t length, float *x) {
    char copy[64];
    if (length >= sizeof copy) return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (strpbrk(copy, "xX(") != NULL) return false;
    char *end = NULL;
    const double parsed = strtod(copy, &end);
    if (end != copy + length) return false;
    *x = (float)parsed;
    return true;
}

static ol_status add_number(raw_file *raw, float x) {
    void *block = raw->numbers;
    const ol_status status = mem_grow(raw->ctx, &block, &raw->number_capacity, raw->n_numbers + 1, sizeof x);
    raw->numbers = block;
    if (status == OL_OK) raw->numbers[raw->n_numbers++] = x;
    return status;
}

static ol_status add_row(raw_file *raw, size_t first, int line) {
    void *block = raw->rows;
    const ol_status status = mem_grow(raw->ctx, &block, &raw->row_capacity, raw->n_rows + 1, sizeof *raw->rows);
    raw->rows = block;
    if (status == OL_OK) raw->rows[raw->n_rows++] = (raw_row){first, raw->n_numbers - first, line};
    return status;
}

static ol_status read_line(raw_file *raw, const char *at, const char *end, int line, label_verdict *v) {
    const size_t first = raw->n_numbers;
    while (at < end && !v->rejected) {
        while (at < end && is_blank(*at)) at++;
        const char *start = at;
        while (at < end && !is_blank(*at)) at++;
        if (at == start) break;
        float x = 0;
        if (!parse_number(start, (size_t)(at - start), &x)) {
            const int shown = at - start > 40 ? 40 : (int)(at - start);
            reject(v, line, "'%.*s' is not a number", shown, start);
        } else if (!isfinite(x)) {
            reject(v, line, "'%.*s' is not a finite number", (int)(at - start), start);
        } else if (add_number(raw, x) != OL_OK) {
            return OL_ERROR_MEMORY;
        }
    }
    return raw->n_numbers > first && !v->rejected ? add_row(raw, first, line) : OL_OK;
}

static ol_status read_numbers(raw_file *raw, const char *text, size_t length, label_verdict *v) {
    const char *at = text, *end = text + length;
    if (length >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) at += 3;
    for (int line = 1; at < end && !v->rejected; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL) stop = end;
        if (read_line(raw, at, stop, line, v) != OL_OK) return OL_ERROR_MEMORY;
        at = stop + 1;
    }
    return OL_OK;
}

/* Rows of key points count as boxes; returns whether the file holds outlines. */
static bool find_form(raw_file *raw, const label_rules *rules, label_verdict *v) {
    bool outlines = false;
    for (size_t i = 0; i < raw->n_rows; i++) {
        if (rules->pose_fields > 0 && raw->rows[i].count == 5 + (size_t)rules->pose_fields) raw->rows[i].count = 5;
        outlines = outlines || raw->rows[i].count > 6;
    }
    for (size_t i = 0; i < raw->n_rows && !v->rejected; i++) {
        const raw_row *row = &raw->rows[i];
        if (!outlines && row->count != 5)
            reject(v, row->line, "labels require 5 columns, %zu columns detected", row->count);
        else if (outlines && row->count == 5)
            reject(v, row->line, "labels mix segment and detection rows");
        else if (outlines && (row->count % 2 == 0 || row->count < 1 + 2 * OUTLINE_MIN_POINTS))
            reject(v, row->line, "an outline needs x y pairs of at least %d points, %zu numbers follow the class",
                   OUTLINE_MIN_POINTS, row->count - 1);
    }
    return outlines;
}

static box_row row_from_outline(const float *numbers, size_t count) {
    float x0 = numbers[1], x1 = x0, y0 = numbers[2], y1 = y0;
    for (size_t k = 1; k + 1 < count; k += 2) {
        x0 = fminf(x0, numbers[k]);
        x1 = fmaxf(x1, numbers[k]);
        y0 = fminf(y0, numbers[k + 1]);
        y1 = fmaxf(y1, numbers[k + 1]);
    }
    return (box_row){numbers[0], (x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0};
}

/* The value checks of the data document's table, one after another over all rows. */
static void check_values(const raw_file *raw, const box_row *rows, const label_rules *rules, label_verdict *v) {
    const size_t n = raw->n_rows;
    for (size_t i = 0; i < n && !v->rejected; i++) {
        const float most = fmaxf(fmaxf(rows[i].cx, rows[i].cy), fmaxf(rows[i].w, rows[i].h));
        if (most > COORDINATE_MAX)
            reject(v, raw->rows[i].line, "non-normalized or out of bounds coordinates [%g]", (double)most);
    }
    for (size_t i = 0; i < n && !v->rejected; i++) {
        const box_row *r = &rows[i];
        const float least = fminf(fminf(r->cls, fminf(r->cx, r->cy)), fminf(r->w, r->h));
        if (least < COORDINATE_MIN || r->w < 0 || r->h < 0 || r->cls < 0)
            reject(v, raw->rows[i].line, "negative label values [%g]", (double)least);
    }
    for (size_t i = 0; i < n && !v->rejected; i++)
        if (rows[i].cls != floorf(rows[i].cls))
            reject(v, raw->rows[i].line, "non-integer class labels [%g]", (double)rows[i].cls);
    for (size_t i = 0; i < n && !v->rejected && !rules->any_class; i++) {
        if (rules->nc > 0 && rows[i].cls >= (float)rules->nc)
            reject(v, raw->rows[i].line,
                   "Label class %.0f exceeds dataset class count %d. Possible class labels are 0-%d",
                   (double)rows[i].cls, rules->nc, rules->nc - 1);
        else if (rules->nc == 0 && rows[i].cls >= CLASS_LIMIT)
            reject(v, raw->rows[i].line, "class %g is too large", (double)rows[i].cls);
    }
}

/* ---- duplicates ---- */

typedef struct sort_row {
    box_row row;
    const float *points;
    size_t n_points;
} sort_row;

static int compare_floats(const float *x, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    return 0;
}

static int compare_rows(const void *x, const void *y) {
    const sort_row *a = x, *b = y;
    const int by_row = compare_floats(&a->row.cls, &b->row.cls, 5);
    if (by_row != 0) return by_row;
    const int by_points =
        compare_floats(a->points, b->points, 2 * (a->n_points < b->n_points ? a->n_points : b->n_points));
    if (by_points != 0) return by_points;
    return (a->n_points > b->n_points) - (a->n_points < b->n_points);
}

/* Removes equal rows. `sorted` (n) stays in file order unless there were some (data document, section 1.3). */
static ol_status remove_duplicates(ol_context *ctx, sort_row *rows, size_t *n, label_verdict *v) {
    if (*n < 2) return OL_OK;
    sort_row *sorted = mem_alloc(ctx, *n, sizeof *sorted);
    if (sorted == NULL) return OL_ERROR_MEMORY;
    memcpy(sorted, rows, *n * sizeof *rows);
    qsort(sorted, *n, sizeof *sorted, compare_rows);
    size_t kept = 1;
    for (size_t i = 1; i < *n; i++)
        if (compare_rows(&sorted[kept - 1], &sorted[i]) != 0) sorted[kept++] = sorted[i];
    if (kept < *n) {
        v->n_duplicates = (int)(*n - kept);
        memcpy(rows, sorted, kept * sizeof *rows);
        *n = kept;
    }
    mem_free(ctx, sorted);
    return OL_OK;
}

/* ---- result ---- */

static ol_status emit(arena *a, const sort_row *rows, size_t n, bool outlines, label_rows *out) {
    size_t n_points = 0;
    for (size_t i = 0; i < n; i++) n_points += rows[i].n_points;
    float *boxes = arena_alloc(a, n, 5 * sizeof *boxes);
    float *points = outlines ? arena_alloc(a, n_points, 2 * sizeof *points) : NULL;
    int32_t *first = outlines ? arena_alloc(a, n + 1, sizeof *first) : NULL;
    if (boxes == NULL || (outlines && (points == NULL || first == NULL))) return OL_ERROR_MEMORY;
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(boxes + 5 * i, &rows[i].row, sizeof rows[i].row);
        if (!outlines) continue;
        first[i] = (int32_t)at;
        memcpy(points + 2 * at, rows[i].points, 2 * rows[i].n_points * sizeof *points);
        at += rows[i].n_points;
    }
    if (outlines) first[n] = (int32_t)at;
    *out = (label_rows){(int)n, boxes, points, first};
    return OL_OK;
}

ol_status labels_parse(arena *a, const char *text, size_t length, const label_rules *rules, label_rows *out,
                       label_verdict *verdict) {
    raw_file raw = {.ctx = a->ctx};
    box_row *rows = NULL;
    sort_row *kept = NULL;
    label_verdict v = {0};
    label_rows found = {0};
    ol_status status = read_numbers(&raw, text, length, &v);
    if (status != OL_OK || v.rejected || raw.n_rows == 0) goto done;
    const bool outlines = find_form(&raw, rules, &v);
    if (v.rejected) goto done;
    status = OL_ERROR_MEMORY;
    size_t n = raw.n_rows;
    rows = mem_alloc(a->ctx, n, sizeof *rows);
    kept = mem_alloc(a->ctx, n, sizeof *kept);
    if (rows == NULL || kept == NULL) goto done;
    status = OL_OK;
    for (size_t i = 0; i < n; i++) {
        const float *numbers = raw.numbers + raw.rows[i].first;
        rows[i] = outlines ? row_from_outline(numbers, raw.rows[i].count)
                           : (box_row){numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
        kept[i] = (sort_row){rows[i], numbers + 1, outlines ? (raw.rows[i].count - 1) / 2 : 0};
    }
    check_values(&raw, rows, rules, &v);
    if (v.rejected) goto done;
    status = remove_duplicates(a->ctx, kept, &n, &v);
    if (status == OL_OK) status = emit(a, kept, n, outlines, &found);
done:
    mem_free(a->ctx, kept);
    mem_free(a->ctx, rows);
    raw_deinit(&raw);
    if (status != OL_OK) return status;
    *out = found;
    *verdict = v;
    return OL_OK;
}

char *label_path(arena *a, const char *picture_path) {
    static const char images[] = "/images/";
    const char *last = NULL;
    for (const char *at = picture_path; (at = strstr(at, images)) != NULL; at++) last = at;
    char *text = path_with_suffix(a, picture_path, ".txt");
    if (text == NULL || last == NULL) return text;
    memcpy(text + (last - picture_path), "/labels/", sizeof images - 1); /* equally long */
    return text;
}
