#include "data/pixel_cache.h"

#include "base/file.h"
#include "data/file_stamp.h"
#include "data/letterbox.h"
#include "data/resize.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A place in memory for one picture. */
typedef struct slot {
    image view;
    int index; /* of the picture that is here, -1: none */
    int n_pins;
    bool ready; /* false while its first user decodes */
} slot;

struct pixel_cache {
    ol_context *ctx;
    const dataset *d;
    int imgsz;
    pixel_policy policy;
    char *folder; /* of raw files */
    uint8_t *block;
    size_t *offsets; /* of slots in the block */
    slot *slots;
    int n_slots, next_victim;
    int32_t *slot_of; /* (n) by picture, -1: not in memory */
    uint8_t *bad;     /* (n) known to be unreadable */
    bool disk_failed;
    pthread_mutex_t lock; /* guards everything that changes */
    pthread_cond_t loaded;
};

static size_t picture_bytes(const dataset *d, int imgsz, int index) {
    int h, w;
    resize_long_side_size(d->items[index].h, d->items[index].w, imgsz, &h, &w);
    return (size_t)h * (size_t)w * (size_t)d->channels;
}

uint64_t pixel_cache_need(const dataset *d, int imgsz) {
    uint64_t total = 0;
    for (int i = 0; i < d->n; i++) total += picture_bytes(d, imgsz, i);
    return total;
}

/* ---- raw files ---- */

typedef struct raw_head {
    char magic[8];
    uint64_t identity, checksum;
    int32_t h, w, channels, imgsz;
} raw_head;

static const char raw_magic[8] = {'O', 'L', 'P', 'I', 'X', 'E', 'L', '1'};

static void raw_path(const pixel_cache *c, int index, char *path, size_t bytes) {
    const uint64_t identity = c->d->items[index].identity;
    snprintf(path, bytes, "%s/%02x/%016llx-%d-%d.raw", c->folder, (unsigned)(identity & 0xFF),
             (unsigned long long)identity, c->imgsz, c->d->channels);
}

/* False when there is no such file or anything about it is not as it was written. */
static bool raw_read(const pixel_cache *c, int index, image *out) {
    char path[4096];
    raw_head h;
    raw_path(c, index, path, sizeof path);
    FILE *file = fopen(path, "rb");
    if (file == NULL) return false;
    const size_t n = image_bytes(out);
    setvbuf(file, NULL, _IONBF, 0);
    const bool there = fread(&h, sizeof h, 1, file) == 1 && memcmp(h.magic, raw_magic, sizeof raw_magic) == 0 &&
                       h.identity == c->d->items[index].identity && h.h == out->height && h.w == out->width &&
                       h.channels == out->channels && h.imgsz == c->imgsz && fread(out->pixels, 1, n, file) == n &&
                       hash_bytes(HASH_START, out->pixels, n) == h.checksum;
    fclose(file);
    return there;
}

static bool raw_write_file(const pixel_cache *c, int index, const image *im, const char *path) {
    raw_head h;
    memset(&h, 0, sizeof h);
    memcpy(h.magic, raw_magic, sizeof raw_magic);
    h.identity = c->d->items[index].identity;
    h.checksum = hash_bytes(HASH_START, im->pixels, image_bytes(im));
    h.h = im->height;
    h.w = im->width;
    h.channels = im->channels;
    h.imgsz = c->imgsz;
    FILE *file = fopen(path, "wb");
    if (file == NULL) return false;
    const bool written =
        fwrite(&h, sizeof h, 1, file) == 1 && fwrite(im->pixels, 1, image_bytes(im), file) == image_bytes(im);
    return fclose(file) == 0 && written;
}

/* Written aside and renamed, but not synced: a file that a power cut left broken fails its checksum and is made anew.
 */
static void raw_write(pixel_cache *c, ol_context *ctx, int index, const image *im) {
    char path[4096], temporary[4200];
    raw_path(c, index, path, sizeof path);
    snprintf(temporary, sizeof temporary, "%s.tmp-%ld-%d", path, (long)getpid(), index);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        *slash = '/';
    } else {
        *slash = '/';
        if (raw_write_file(c, index, im, temporary) && rename(temporary, path) == 0) return;
    }
    const int why = errno;
    unlink(temporary);
    pthread_mutex_lock(&c->lock);
    const bool first = !c->disk_failed;
    c->disk_failed = true;
    pthread_mutex_unlock(&c->lock);
    if (first)
        ctx_log(ctx, OL_LOG_WARNING, "cache=disk: '%s' cannot be written (%s); pictures are decoded each time instead",
                path, strerror(why));
}

/* ---- decoding ---- */

/* The file's bytes in the reader's buffer, which only grows. */
static ol_status read_file(ol_context *ctx, pixel_reader *r, const char *path, size_t *n_bytes) {
    struct stat st;
    FILE *file = fopen(path, "rb");
    if (file == NULL) return ctx_fail(ctx, OL_ERROR_IO, "cannot open '%s': %s", path, strerror(errno));
    setvbuf(file, NULL, _IONBF, 0);
    ol_status status = OL_OK;
    if (fstat(fileno(file), &st) != 0 || st.st_size < 0 || st.st_size > ((int64_t)1 << 30))
        status = ctx_fail(ctx, OL_ERROR_FORMAT, "'%s' is larger than 1 GiB", path);
    const size_t size = (size_t)st.st_size;
    if (status == OL_OK && size > r->file_capacity) {
        uint8_t *grown = mem_resize(ctx, r->file, size + size / 4, 1);
        if (grown == NULL) {
            status = OL_ERROR_MEMORY;
        } else {
            r->file = grown;
            r->file_capacity = size + size / 4;
        }
    }
    if (status == OL_OK) *n_bytes = fread(r->file, 1, size, file);
    fclose(file);
    return status;
}

static ol_status decode(const pixel_cache *c, ol_context *ctx, pixel_reader *r, int index, image *out) {
    const data_item *item = &c->d->items[index];
    size_t n_bytes = 0;
    ol_status status = read_file(ctx, r, item->path, &n_bytes);
    if (status == OL_OK) status = image_decode(ctx, item->path, r->file, n_bytes, c->d->channels, &r->decoded);
    if (status != OL_OK) return status;
    if (r->decoded.height != item->h || r->decoded.width != item->w)
        return ctx_fail(ctx, OL_ERROR_FORMAT, "it was %d x %d at the scan and is now %d x %d (height x width)", item->h,
                        item->w, r->decoded.height, r->decoded.width);
    return resize_long_side(ctx, &r->decoded, c->imgsz, out);
}

static bool note_bad(pixel_cache *c, int index) {
    pthread_mutex_lock(&c->lock);
    const bool first = !c->bad[index];
    c->bad[index] = 1;
    pthread_mutex_unlock(&c->lock);
    return first;
}

static bool disk_usable(pixel_cache *c) {
    pthread_mutex_lock(&c->lock);
    const bool usable = c->policy == PIXEL_KEEP_DISK && !c->disk_failed;
    pthread_mutex_unlock(&c->lock);
    return usable;
}

static bool is_bad(pixel_cache *c, int index) {
    pthread_mutex_lock(&c->lock);
    const bool bad = c->bad[index] != 0;
    pthread_mutex_unlock(&c->lock);
    return bad;
}

/* `out` has room for the picture. */
static ol_status load(pixel_cache *c, ol_context *ctx, pixel_reader *r, int index, image *out, bool *readable) {
    int h, w;
    char why[512];
    resize_long_side_size(c->d->items[index].h, c->d->items[index].w, c->imgsz, &h, &w);
    ol_status status = image_reserve(ctx, out, h, w, c->d->channels);
    if (status != OL_OK) return status;
    *readable = !is_bad(c, index);
    if (*readable && c->policy == PIXEL_KEEP_DISK && raw_read(c, index, out)) return OL_OK;
    if (*readable) {
        status = decode(c, ctx, r, index, out);
        if (status == OL_ERROR_MEMORY) return status;
        *readable = status == OL_OK;
    }
    if (*readable) {
        if (disk_usable(c)) raw_write(c, ctx, index, out);
        return OL_OK;
    }
    ctx_message(ctx, why, sizeof why);
    ctx_clear(ctx);
    if (note_bad(c, index))
        ctx_log(ctx, OL_LOG_WARNING,
                "%s: %s: it can no longer be read and is replaced by plain grey without objects: %s", c->d->name,
                c->d->items[index].path, why);
    status = image_reserve(ctx, out, h, w, c->d->channels);
    if (status == OL_OK) image_fill(out, LETTERBOX_PAD);
    return status;
}

/* ---- slots ---- */

/* A slot for `index`, its own or one to be filled (then ready is false); -1 when all are in use. Lock held. */
static int take_slot(pixel_cache *c, int index) {
    if (c->policy == PIXEL_KEEP_ALL) return index;
    if (c->policy == PIXEL_KEEP_FIRST) return c->next_victim < c->n_slots ? c->next_victim++ : -1;
    for (int tried = 0; tried < c->n_slots; tried++) {
        const int s = c->next_victim;
        c->next_victim = (s + 1) % c->n_slots;
        if (c->slots[s].n_pins > 0) continue;
        if (c->slots[s].index >= 0) c->slot_of[c->slots[s].index] = -1;
        return s;
    }
    return -1;
}

static ol_status fill_slot(pixel_cache *c, ol_context *ctx, pixel_reader *r, int index, slot *s, size_t offset,
                           bool *readable) {
    /* The room was reckoned from the sizes at the scan, so that load never has to move these pixels. */
    image room = {.pixels = c->block + offset, .capacity_bytes = picture_bytes(c->d, c->imgsz, index)};
    const ol_status status = load(c, ctx, r, index, &room, readable);
    pthread_mutex_lock(&c->lock);
    if (status == OL_OK) {
        s->view = image_view(room.pixels, room.height, room.width, room.channels);
        s->ready = true;
    } else {
        c->slot_of[index] = -1;
        s->index = -1;
        s->n_pins = 0;
    }
    pthread_cond_broadcast(&c->loaded);
    pthread_mutex_unlock(&c->lock);
    return status;
}

ol_status pixel_cache_fetch(pixel_cache *c, ol_context *ctx, pixel_reader *r, int index, image *storage,
                            const image **pixels, bool *readable) {
    int s = -1;
    bool mine = false;
    if (c->n_slots > 0 && r->n_pins < PIXEL_MAX_PINS) {
        pthread_mutex_lock(&c->lock);
        while ((s = c->slot_of[index]) >= 0 && !c->slots[s].ready) pthread_cond_wait(&c->loaded, &c->lock);
        if (s < 0 && (s = take_slot(c, index)) >= 0) {
            mine = true;
            c->slot_of[index] = s;
            c->slots[s].index = index;
            c->slots[s].ready = false;
        }
        if (s >= 0) {
            c->slots[s].n_pins++;
            *readable = !c->bad[index];
        }
        pthread_mutex_unlock(&c->lock);
    }
    if (s < 0) {
        *pixels = storage;
        return load(c, ctx, r, index, storage, readable);
    }
    if (mine) {
        const ol_status status = fill_slot(c, ctx, r, index, &c->slots[s], c->offsets[s], readable);
        if (status != OL_OK) return status;
    }
    r->pins[r->n_pins++] = s;
    *pixels = &c->slots[s].view;
    return OL_OK;
}

void pixel_cache_release(pixel_cache *c, pixel_reader *r) {
    if (r->n_pins == 0) return;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < r->n_pins; i++) c->slots[r->pins[i]].n_pins--;
    pthread_mutex_unlock(&c->lock);
    r->n_pins = 0;
}

/* ---- life ---- */

static ol_status allocate_slots(pixel_cache *c, uint64_t limit_bytes) {
    const dataset *d = c->d;
    size_t largest = 1, total = 0;
    for (int i = 0; i < d->n; i++) {
        const size_t bytes = picture_bytes(d, c->imgsz, i);
        largest = bytes > largest ? bytes : largest;
    }
    c->n_slots = d->n;
    if (c->policy != PIXEL_KEEP_ALL && limit_bytes / largest < (uint64_t)d->n)
        c->n_slots = (int)(limit_bytes / largest);
    c->offsets = mem_alloc0(c->ctx, (size_t)c->n_slots, sizeof *c->offsets);
    c->slots = mem_alloc0(c->ctx, (size_t)c->n_slots, sizeof *c->slots);
    c->slot_of = mem_alloc0(c->ctx, (size_t)d->n, sizeof *c->slot_of);
    if (c->offsets == NULL || c->slots == NULL || c->slot_of == NULL) return OL_ERROR_MEMORY;
    for (int i = 0; i < d->n; i++) c->slot_of[i] = -1;
    for (int s = 0; s < c->n_slots; s++) {
        c->slots[s].index = -1;
        c->offsets[s] = total;
        if (!size_add(total, c->policy == PIXEL_KEEP_ALL ? picture_bytes(d, c->imgsz, s) : largest, &total))
            return ctx_fail(c->ctx, OL_ERROR_MEMORY, "the pictures need more memory than can be addressed");
    }
    c->block = mem_alloc_aligned(c->ctx, total, 1); /* pages are taken when pictures are put into them */
    return c->block != NULL ? OL_OK : OL_ERROR_MEMORY;
}

ol_status pixel_cache_create(ol_context *ctx, const dataset *d, int imgsz, pixel_policy policy, uint64_t limit_bytes,
                             const char *folder, pixel_cache **out) {
    ol_status status = OL_OK;
    pixel_cache *c = mem_alloc0(ctx, 1, sizeof *c);
    if (c == NULL) return OL_ERROR_MEMORY;
    c->ctx = ctx;
    c->d = d;
    c->imgsz = imgsz;
    c->policy = policy;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->loaded, NULL);
    c->bad = mem_alloc0(ctx, (size_t)d->n, 1);
    if (c->bad == NULL) status = OL_ERROR_MEMORY;
    if (status == OL_OK && (policy != PIXEL_KEEP_NONE && policy != PIXEL_KEEP_DISK))
        status = allocate_slots(c, limit_bytes);
    if (status == OL_OK && policy == PIXEL_KEEP_DISK) {
        c->folder = mem_strdup(ctx, folder);
        status = c->folder != NULL ? OL_OK : OL_ERROR_MEMORY;
    }
    if (status != OL_OK) {
        pixel_cache_destroy(c);
        return status;
    }
    *out = c;
    return OL_OK;
}

void pixel_cache_destroy(pixel_cache *c) {
    if (c == NULL) return;
    mem_free_aligned(c->ctx, c->block);
    mem_free(c->ctx, c->offsets);
    mem_free(c->ctx, c->slots);
    mem_free(c->ctx, c->slot_of);
    mem_free(c->ctx, c->bad);
    mem_free(c->ctx, c->folder);
    pthread_cond_destroy(&c->loaded);
    pthread_mutex_destroy(&c->lock);
    mem_free(c->ctx, c);
}

void pixel_reader_deinit(ol_context *ctx, pixel_reader *r) {
    image_deinit(ctx, &r->decoded);
    mem_free(ctx, r->file);
    *r = (pixel_reader){0};
}
