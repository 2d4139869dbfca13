#include "data/label_cache.h"

#include "base/file.h"
#include "base/text.h"

#include <string.h>

#define CACHE_LIMIT_BYTES ((size_t)8 << 30)
#define ALIGNMENT         8

static const char magic[8] = {'O', 'L', 'L', 'A', 'B', 'E', 'L', '1'};

typedef struct cache_head {
    char magic[8];
    uint64_t key, n_records, payload_bytes, checksum;
} cache_head;

/* Followed by path, label path, reason (each with its NUL), rows, first points and points, padded to ALIGNMENT. */
typedef struct record_head {
    uint64_t path_bytes, label_bytes, reason_bytes, n_rows, n_points;
    file_stamp picture, label;
    int32_t h, w, line, n_duplicates;
    int32_t state, rejected, outlines, unused;
} record_head;

/* ---- reading ---- */

typedef struct cursor {
    const char *at;
    size_t left;
} cursor;

/* Hands out `count * size` bytes; NULL when the file has no more of them. */
static const void *take(cursor *c, uint64_t count, size_t size) {
    if (count > c->left / size) return NULL;
    const char *start = c->at;
    const size_t bytes = (size_t)count * size, padded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const size_t step = padded < c->left ? padded : c->left;
    c->at += step;
    c->left -= step;
    return start;
}

static const char *take_text(cursor *c, uint64_t bytes) {
    const char *text = bytes > 0 ? take(c, bytes, 1) : NULL;
    return text != NULL && text[bytes - 1] == '\0' && strlen(text) + 1 == bytes ? text : NULL;
}

static bool outlines_valid(const int32_t *first, uint64_t n_rows, uint64_t n_points) {
    if (first[0] != 0 || (uint64_t)first[n_rows] != n_points) return false;
    for (uint64_t i = 0; i < n_rows; i++)
        if (first[i] > first[i + 1]) return false;
    return true;
}

static bool read_record(cursor *c, scan_record *out) {
    const record_head *h = take(c, 1, sizeof *h);
    if (h == NULL) return false;
    const char *path = take_text(c, h->path_bytes), *label = take_text(c, h->label_bytes);
    const char *reason = take_text(c, h->reason_bytes);
    const float *rows = h->n_rows < INT32_MAX ? take(c, h->n_rows, 5 * sizeof *rows) : NULL;
    const int32_t *first = h->outlines && h->n_rows < INT32_MAX ? take(c, h->n_rows + 1, sizeof *first) : NULL;
    const float *points = take(c, h->n_points, 2 * sizeof *points);
    if (path == NULL || label == NULL || reason == NULL || rows == NULL || points == NULL) return false;
    if (h->outlines && (first == NULL || !outlines_valid(first, h->n_rows, h->n_points))) return false;
    if (h->reason_bytes > sizeof out->verdict.reason || h->state < LABEL_FOUND || h->state > LABEL_MISSING)
        return false;
    *out = (scan_record){.path = path,
                         .label_path = label,
                         .picture = h->picture,
                         .label = h->label,
                         .state = (label_state)h->state,
                         .h = h->h,
                         .w = h->w,
                         .rows = {(int)h->n_rows, rows, h->outlines ? points : NULL, first},
                         .verdict = {.rejected = h->rejected != 0, .line = h->line, .n_duplicates = h->n_duplicates}};
    memcpy(out->verdict.reason, reason, h->reason_bytes);
    return true;
}

static size_t slot_of(const label_cache *c, const char *path) {
    return (size_t)hash_bytes(HASH_START, path, strlen(path)) & (c->n_slots - 1);
}

static ol_status build_index(label_cache *c) {
    c->n_slots = 16;
    while (c->n_slots < 2 * c->n) c->n_slots *= 2;
    uint32_t *slots = arena_alloc(&c->arena, c->n_slots, sizeof *slots);
    if (slots == NULL) return OL_ERROR_MEMORY;
    for (size_t i = 0; i < c->n; i++) {
        size_t s = slot_of(c, c->records[i].path);
        while (slots[s] != 0) s = (s + 1) & (c->n_slots - 1);
        slots[s] = (uint32_t)i + 1;
    }
    c->slots = slots;
    return OL_OK;
}

static bool head_valid(const char *bytes, size_t n, uint64_t key) {
    const cache_head *h = (const void *)bytes;
    if (n < sizeof *h || memcmp(h->magic, magic, sizeof magic) != 0 || h->key != key) return false;
    if (h->payload_bytes != n - sizeof *h || h->n_records > h->payload_bytes / sizeof(record_head)) return false;
    return h->n_records < UINT32_MAX && hash_bytes(HASH_START, bytes + sizeof *h, n - sizeof *h) == h->checksum;
}

static ol_status parse(label_cache *c, const char *bytes, size_t n) {
    const cache_head *h = (const void *)bytes;
    char *payload = arena_alloc(&c->arena, n, 1);
    c->records = arena_alloc(&c->arena, (size_t)h->n_records, sizeof *c->records);
    if (payload == NULL || c->records == NULL) return OL_ERROR_MEMORY;
    memcpy(payload, bytes + sizeof *h, n - sizeof *h);
    cursor at = {payload, n - sizeof *h};
    while (c->n < h->n_records && read_record(&at, &c->records[c->n])) c->n++;
    return build_index(c);
}

ol_status label_cache_load(ol_context *ctx, const char *path, uint64_t key, label_cache *out) {
    label_cache c = {0};
    char *bytes = NULL;
    size_t n = 0;
    arena_init(&c.arena, ctx, 0);
    ol_status status = file_exists(path) ? file_read(ctx, path, CACHE_LIMIT_BYTES, &bytes, &n) : OL_ERROR_NOT_FOUND;
    if (status == OL_OK && head_valid(bytes, n, key))
        status = parse(&c, bytes, n);
    else if (status != OL_ERROR_MEMORY)
        status = OL_OK;
    mem_free(ctx, bytes);
    if (status != OL_OK) {
        arena_deinit(&c.arena);
        return status;
    }
    ctx_clear(ctx);
    *out = c;
    return OL_OK;
}

void label_cache_deinit(label_cache *c) {
    arena_deinit(&c->arena);
}

const scan_record *label_cache_find(const label_cache *c, const char *path, const char *label_path) {
    const uint32_t *slots = c->slots;
    if (slots == NULL) return NULL;
    for (size_t s = slot_of(c, path); slots[s] != 0; s = (s + 1) & (c->n_slots - 1)) {
        const scan_record *r = &c->records[slots[s] - 1];
        if (strcmp(r->path, path) != 0) continue;
        const file_stamp picture = file_stamp_get(path), label = file_stamp_get(label_path);
        const bool same = strcmp(r->label_path, label_path) == 0 && file_stamp_equal(&r->picture, &picture) &&
                          file_stamp_equal(&r->label, &label);
        return same ? r : NULL;
    }
    return NULL;
}

/* ---- writing ---- */

static void put(text *out, const void *bytes, size_t n) {
    static const char zeros[ALIGNMENT] = {0};
    if (n > 0) text_append(out, bytes, n);
    text_append(out, zeros, (ALIGNMENT - n % ALIGNMENT) % ALIGNMENT);
}

static void put_record(text *out, const scan_record *r) {
    const int32_t *first = r->rows.first_point;
    const size_t n_rows = (size_t)r->rows.n;
    record_head h;
    memset(&h, 0, sizeof h);
    h.path_bytes = strlen(r->path) + 1;
    h.label_bytes = strlen(r->label_path) + 1;
    h.reason_bytes = strlen(r->verdict.reason) + 1;
    h.n_rows = n_rows;
    h.n_points = first != NULL ? (uint64_t)first[n_rows] : 0;
    h.picture = r->picture;
    h.label = r->label;
    h.h = r->h;
    h.w = r->w;
    h.line = r->verdict.line;
    h.n_duplicates = r->verdict.n_duplicates;
    h.state = (int32_t)r->state;
    h.rejected = r->verdict.rejected;
    h.outlines = first != NULL;
    put(out, &h, sizeof h);
    put(out, r->path, (size_t)h.path_bytes);
    put(out, r->label_path, (size_t)h.label_bytes);
    put(out, r->verdict.reason, (size_t)h.reason_bytes);
    put(out, r->rows.rows, n_rows * 5 * sizeof(float));
    if (first == NULL) return;
    put(out, first, (n_rows + 1) * sizeof *first);
    put(out, r->rows.points, (size_t)h.n_points * 2 * sizeof(float));
}

ol_status label_cache_write(ol_context *ctx, const char *path, uint64_t key, const scan_record *records, size_t n,
                            int64_t now_ns) {
    cache_head head;
    text out;
    memset(&head, 0, sizeof head);
    text_init(&out, ctx);
    text_append(&out, (const char *)&head, sizeof head);
    for (size_t i = 0; i < n; i++) {
        if (!file_stamp_settled(&records[i].picture, now_ns) || !file_stamp_settled(&records[i].label, now_ns))
            continue;
        put_record(&out, &records[i]);
        head.n_records++;
    }
    ol_status status = out.failed ? OL_ERROR_MEMORY : OL_OK;
    if (status == OL_OK) {
        memcpy(head.magic, magic, sizeof magic);
        head.key = key;
        head.payload_bytes = out.length - sizeof head;
        head.checksum = hash_bytes(HASH_START, out.bytes + sizeof head, out.length - sizeof head);
        memcpy(out.bytes, &head, sizeof head);
        status = file_write_atomic(ctx, path, out.bytes, out.length);
    }
    text_deinit(&out);
    return status;
}
