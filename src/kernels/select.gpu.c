/* From decoded head outputs to rows: candidates, their order, top-k selection or greedy suppression. The same rows in
 * the same order as ops/nms.c and ops/select.c, which are the reference. A candidate is one 64-bit key: its score, then
 * what decides between equal scores; keys differ, so their order is one order, whatever the order of collection. */
#include "args.h"
#include "gpu.h"

/* Overlaps are compared with a limit: no fused roundings. */
#pragma clang fp contract(off)

/* Scores as numbers that order alike; both zeros are one, what is not a number comes last. */
DEVICE u32 ordered_bits(float x) {
    const u32 b = __builtin_bit_cast(u32, x + 0.0f);
    if (x != x) return 0x007FFFFFu; /* as minus infinity */
    return b & 0x80000000u ? ~b : b | 0x80000000u;
}
DEVICE float score_of(u64 key) {
    const u32 b = (u32)(key >> 32);
    return __builtin_bit_cast(float, b & 0x80000000u ? b & 0x7FFFFFFFu : ~b);
}
/* Of equal scores the one with the smaller `place` comes first. */
DEVICE u64 key_make(float score, u32 place) {
    return (u64)ordered_bits(score) << 32 | (0xFFFFFFFFu - place);
}
DEVICE u32 place_of(u64 key) {
    return 0xFFFFFFFFu - (u32)key;
}

DEVICE u32 atomic_take(u32 *p, u32 n) {
    return __scoped_atomic_fetch_add(p, n, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}

DEVICE const float *scores_of(const select_args &a, i32 image) {
    return (const float *)a.pred + ((i64)image * (4 + a.nc) + 4) * a.anchors;
}
DEVICE bool class_kept(const select_args &a, i32 cls) {
    return !a.keep || ((const u8 *)a.keep)[cls];
}
struct best_class {
    float score;
    i32 cls;
    DEVICE_MEMBER best_class(const float *column, const select_args &a) {
        score = column[0];
        cls = 0;
        for (i32 c = 1; c < a.nc; c++) {
            const float s = column[(i64)c * a.anchors];
            cls = s > score ? c : cls;
            score = s > score ? s : score;
        }
    }
};
DEVICE u32 *counter(const select_args &a, i32 image, i32 stage) {
    return (u32 *)a.counts + image * 2 + stage;
}
DEVICE u32 pushed(const select_args &a, i32 image, i32 stage) {
    const u32 n = *counter(a, image, stage), room = stage ? (u32)(a.limit * a.nc) : (u32)a.capacity;
    return n < room ? n : room;
}
DEVICE u64 *list_of(const select_args &a, i32 image, i32 stage) {
    return stage ? (u64 *)a.entries + (i64)image * a.limit * a.nc : (u64 *)a.list + (i64)image * a.capacity;
}
DEVICE u64 *order_of(const select_args &a, i32 image, i32 stage) {
    return (u64 *)(stage ? a.entry_order : a.order) + (i64)image * a.limit;
}

/* ---- collecting ---- */

/* One thread an anchor, block y an image. Candidates beyond the list's room are counted and not written. */
KERNEL(256) select_collect(select_args a) {
    const i32 anchor = (i32)(block_x() * 256 + thread_x()), image = (i32)block_y();
    if (anchor >= a.anchors) return;
    const float *column = scores_of(a, image) + anchor;
    const best_class best(column, a);
    if (!(best.score > a.conf)) return;
    u64 *list = list_of(a, image, 0);
    if (a.mode != GPU_SELECT_LABELS) {
        const bool whole = a.mode == GPU_SELECT_HEAD;
        if (!whole && !class_kept(a, best.cls)) return;
        const u32 at = atomic_take(counter(a, image, 0), 1);
        if (at < (u32)a.capacity)
            list[at] = key_make(best.score, whole ? (u32)anchor : (u32)anchor * (u32)a.nc + (u32)best.cls);
        return;
    }
    u32 n = 0;
    for (i32 c = 0; c < a.nc; c++) n += column[(i64)c * a.anchors] > a.conf && class_kept(a, c);
    u32 at = atomic_take(counter(a, image, 0), n);
    for (i32 c = 0; c < a.nc && at < (u32)a.capacity; c++) {
        const float s = column[(i64)c * a.anchors];
        if (s > a.conf && class_kept(a, c)) list[at++] = key_make(s, (u32)anchor * (u32)a.nc + (u32)c);
    }
}

/* Block x an image: more candidates than the list has room for. The key of the last one that has a place is found digit
 * by digit, then the list is made anew. Rare, so one block does it. */
KERNEL(256) select_overflow(select_args a) {
    SHARED u32 digits[256];
    SHARED u32 chosen[2]; /* digit, and how many places are left below it */
    const i32 t = (i32)thread_x(), image = (i32)block_x();
    const u32 count = *counter(a, image, 0);
    if (count <= (u32)a.capacity) return;
    const float *scores = scores_of(a, image);
    u64 *list = list_of(a, image, 0);
    u64 prefix = 0;
    u32 left = (u32)a.capacity;
    for (i32 shift = 56; shift >= -8; shift -= 8) {
        digits[t] = 0;
        barrier();
        for (i32 anchor = t; anchor < a.anchors; anchor += 256) {
            const float *column = scores + anchor;
            if (!(best_class(column, a).score > a.conf)) continue;
            for (i32 c = 0; c < a.nc; c++) {
                const float s = column[(i64)c * a.anchors];
                if (!(s > a.conf) || !class_kept(a, c)) continue;
                const u64 key = key_make(s, (u32)anchor * (u32)a.nc + (u32)c);
                if (shift < 0) { /* `prefix` is the last key that has a place */
                    if (key >= prefix) list[atomic_take(&digits[0], 1)] = key;
                } else if (shift == 56 || key >> (shift + 8) == prefix >> (shift + 8)) {
                    atomic_take(&digits[(u32)(key >> shift) & 255u], 1);
                }
            }
        }
        barrier();
        if (shift < 0) break;
        if (t == 0) {
            u32 digit = 255, above = 0;
            while (above + digits[digit] < left) above += digits[digit--];
            chosen[0] = digit;
            chosen[1] = left - above;
        }
        barrier();
        prefix |= (u64)chosen[0] << shift;
        left = chosen[1];
        barrier();
    }
    if (t == 0) *counter(a, image, 0) = (u32)a.capacity;
}

/* The entries (anchor of the first selection, class) of the second one; block y an image. Scores below that of the last
 * selected anchor cannot be among them: as many larger ones are. */
KERNEL(256) select_entries(select_args a) {
    const i32 index = (i32)(block_x() * 256 + thread_x()), image = (i32)block_y();
    const u32 found = pushed(a, image, 0);
    const i32 n = found < (u32)a.limit ? (i32)found : a.limit;
    if (n == 0 || index >= n * a.nc) return;
    const i32 rank = index % n, cls = index / n;
    const u64 *order = order_of(a, image, 0);
    const float s = scores_of(a, image)[(i64)cls * a.anchors + (i64)place_of(order[rank])];
    if (!(s > a.conf)) return;
    const u64 key = key_make(s, (u32)rank * (u32)a.nc + (u32)cls);
    if (n == a.limit && key >> 32 < order[n - 1] >> 32) return;
    list_of(a, image, 1)[atomic_take(counter(a, image, 1), 1)] = key;
}

/* ---- ordering ---- */

/* Each key counts the larger ones: that is its place. Block y an image. */
KERNEL(256) select_order(select_args a) {
    SHARED u64 tile[256];
    const i32 t = (i32)thread_x(), image = (i32)block_y();
    const u32 n = pushed(a, image, a.stage), index = block_x() * 256 + (u32)t;
    if (block_x() * 256 >= n) return;
    const u64 *list = list_of(a, image, a.stage);
    const u64 mine = index < n ? list[index] : 0;
    u32 rank = 0;
    for (u32 from = 0; from < n; from += 256) {
        tile[t] = from + (u32)t < n ? list[from + (u32)t] : 0;
        barrier();
        const i32 here = (i32)min_u(256u, (n - from + 7) / 8 * 8);
#pragma unroll 1
        for (i32 i = 0; i < here; i += 8) {
#pragma unroll
            for (i32 e = 0; e < 8; e++) rank += tile[i + e] > mine;
        }
        barrier();
    }
    if (index < n && rank < (u32)a.limit) order_of(a, image, a.stage)[rank] = mine;
}

/* ---- rows ---- */

struct select_row { /* `detection` of ops/select.h */
    float x1, y1, x2, y2, score;
    i32 cls, anchor;
};
DEVICE select_row *rows_of(const select_args &a, i32 image) {
    return (select_row *)a.rows + (i64)image * a.max_det;
}

/* Sum of v over the threads before this one; *total of all. Two barriers a step. */
DEVICE u32 scan_before(u32 v, u32 *scratch, u32 *total) {
    const i32 t = (i32)thread_x();
    scratch[t] = v;
    barrier();
    for (i32 step = 1; step < 256; step *= 2) {
        const u32 add = t >= step ? scratch[t - step] : 0;
        barrier();
        scratch[t] += add;
        barrier();
    }
    *total = scratch[255];
    const u32 before = scratch[t] - v;
    barrier();
    return before;
}

/* Block x an image: the selected entries of the classes that are kept, in order. */
KERNEL(256) select_rows(select_args a) {
    SHARED u32 scratch[256];
    const i32 t = (i32)thread_x(), image = (i32)block_x(), stage = a.stage;
    const u32 found = pushed(a, image, stage), n = found < (u32)a.limit ? found : (u32)a.limit;
    const u64 *order = order_of(a, image, stage);
    const float *pred = (const float *)a.pred + (i64)image * (4 + a.nc) * a.anchors;
    u32 written = 0;
    for (u32 from = 0; from < n && written < (u32)a.max_det; from += 256) {
        const bool inside = from + (u32)t < n;
        select_row row = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0, 0};
        if (inside) {
            const u64 key = order[from + (u32)t];
            const u32 place = place_of(key);
            row.score = score_of(key);
            if (stage) {
                row.anchor = (i32)place_of(order_of(a, image, 0)[place / (u32)a.nc]);
                row.cls = (i32)(place % (u32)a.nc);
            } else {
                row.anchor = (i32)place;
                row.cls = best_class(scores_of(a, image) + row.anchor, a).cls;
            }
        }
        const bool wanted = inside && class_kept(a, row.cls);
        u32 total;
        const u32 at = written + scan_before(wanted ? 1 : 0, scratch, &total);
        written += total;
        if (!wanted || at >= (u32)a.max_det) continue;
        const float *column = pred + row.anchor;
        row.x1 = column[0];
        row.y1 = column[a.anchors];
        row.x2 = column[2 * (i64)a.anchors];
        row.y2 = column[3 * (i64)a.anchors];
        rows_of(a, image)[at] = row;
    }
    if (t == 0) ((i32 *)a.row_counts)[image] = (i32)(written < (u32)a.max_det ? written : (u32)a.max_det);
}

struct corner_box {
    float x1, y1, x2, y2, area;
};
DEVICE bool suppresses(const corner_box &k, const corner_box &b, float iou) {
    const float w = (k.x2 < b.x2 ? k.x2 : b.x2) - (k.x1 > b.x1 ? k.x1 : b.x1);
    const float h = (k.y2 < b.y2 ? k.y2 : b.y2) - (k.y1 > b.y1 ? k.y1 : b.y1);
    if (!(w > 0.0f && h > 0.0f)) return false;
    const float inter = w * h;
    return inter / (k.area + b.area - inter) > iou;
}
DEVICE u32 block_min(u32 v, u32 *scratch) {
#pragma unroll
    for (i32 m = WAVE / 2; m > 0; m >>= 1) v = min_u(v, shuffle_xor_u32(v, m));
    if (lane_id() == 0) scratch[thread_x() / WAVE] = v;
    barrier();
    v = scratch[0];
#pragma unroll
    for (i32 i = 1; i < 256 / WAVE; i++) v = min_u(v, scratch[i]);
    barrier();
    return v;
}

/* Block x an image: greedy suppression of 256 candidates at a time, first by what is kept already, then one by one
 * among themselves. */
KERNEL(256) select_suppress(select_args a) {
    SHARED corner_box tile[256];
    SHARED u32 scratch[256 / WAVE];
    const i32 t = (i32)thread_x(), image = (i32)block_x();
    const u32 found = pushed(a, image, 0), n = found < (u32)a.limit ? found : (u32)a.limit;
    const u32 most = n < (u32)a.max_det ? n : (u32)a.max_det;
    const u64 *order = order_of(a, image, 0);
    const float *pred = (const float *)a.pred + (i64)image * (4 + a.nc) * a.anchors;
    corner_box *kept = (corner_box *)a.kept + (i64)image * a.max_det;
    u32 n_kept = 0;
    for (u32 from = 0; from < n && n_kept < most; from += 256) {
        bool alive = from + (u32)t < n;
        select_row row = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0, 0};
        corner_box mine = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
        if (alive) {
            const u64 key = order[from + (u32)t];
            const u32 place = place_of(key);
            row.score = score_of(key);
            row.anchor = (i32)(place / (u32)a.nc);
            row.cls = (i32)(place % (u32)a.nc);
            const float *column = pred + row.anchor;
            const float x = column[0], y = column[a.anchors];
            const float half_w = column[2 * (i64)a.anchors] / 2.0f, half_h = column[3 * (i64)a.anchors] / 2.0f;
            row.x1 = x - half_w;
            row.y1 = y - half_h;
            row.x2 = x + half_w;
            row.y2 = y + half_h;
            const float shift = a.agnostic ? 0.0f : (float)row.cls * 7680.0f;
            mine.x1 = row.x1 + shift;
            mine.y1 = row.y1 + shift;
            mine.x2 = row.x2 + shift;
            mine.y2 = row.y2 + shift;
            mine.area = (mine.x2 - mine.x1) * (mine.y2 - mine.y1);
        }
        for (u32 first = 0; first < n_kept; first += 256) {
            const i32 here = (i32)min_u(256u, n_kept - first);
            if (t < here) tile[t] = kept[first + (u32)t];
            barrier();
            for (i32 i = 0; i < here; i++) alive = alive && !suppresses(tile[i], mine, a.iou);
            barrier();
        }
        tile[t] = mine;
        for (u32 next = 0; n_kept < most;) {
            const u32 at = block_min(alive && (u32)t >= next ? (u32)t : 256u, scratch);
            if (at == 256u) break;
            if ((u32)t == at) {
                rows_of(a, image)[n_kept] = row;
                kept[n_kept] = mine;
            }
            if ((u32)t > at) alive = alive && !suppresses(tile[at], mine, a.iou);
            n_kept++;
            next = at + 1;
        }
        barrier_global(); /* the kept boxes are read again */
    }
    if (t == 0) ((i32 *)a.row_counts)[image] = (i32)n_kept;
}
