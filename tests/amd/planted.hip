/* Kernels with one planted error each, and their right forms: what the interpreter of tools/amd must stop and must let
 * pass. */
#define KERNEL        extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(128, 128))) void
#define SHARED        __attribute__((shared))
#define THREAD        ((int)__builtin_amdgcn_workitem_id_x())
#define BLOCK         ((int)__builtin_amdgcn_workgroup_id_x())
#define BARRIER       (__builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"), __builtin_amdgcn_s_barrier())
#define KEEP(pointer) asm volatile("" ::"v"(pointer) : "memory") /* the compiler may not see through it */
typedef _Float16 f16;
typedef unsigned char u8;

KERNEL copy_right(const float *x, float *y) {
    y[BLOCK * 128 + THREAD] = x[BLOCK * 128 + THREAD];
}
KERNEL read_outside(const float *x, float *y) {
    y[BLOCK * 128 + THREAD] = x[BLOCK * 128 + THREAD + 1];
}
KERNEL read_before(const float *x, float *y) {
    y[BLOCK * 128 + THREAD] = x[BLOCK * 128 + THREAD - 1];
}
KERNEL write_outside(const float *x, float *y) {
    y[BLOCK * 128 + THREAD + 1] = x[BLOCK * 128 + THREAD];
}
KERNEL write_half_outside(const float *x, f16 *y) { /* y has room for floats: the last of these is half outside */
    for (int i = 0; i < 2; i++) y[2 * (BLOCK * 128 + THREAD) + i + 1] = (f16)x[BLOCK * 128 + THREAD];
}

/* The neighbour's value, through LDS: 128 threads are two or four waves. */
KERNEL neighbour_right(const float *x, float *y) {
    SHARED float row[128];
    row[THREAD] = x[THREAD];
    BARRIER;
    y[BLOCK * 128 + THREAD] = row[127 - THREAD];
}
KERNEL barrier_missing(const float *x, float *y) {
    SHARED float row[128];
    row[THREAD] = x[THREAD];
    KEEP(row);
    y[BLOCK * 128 + THREAD] = row[127 - THREAD];
}
KERNEL overwritten_too_soon(const float *x, float *y) {
    SHARED float row[128];
    row[THREAD] = x[THREAD];
    BARRIER;
    const float other = row[127 - THREAD];
    KEEP(row);
    row[THREAD] = other; /* another wave may not have read it yet */
    BARRIER;
    y[BLOCK * 128 + THREAD] = row[THREAD];
}
KERNEL shared_outside(const float *x, float *y) {
    SHARED float row[128];
    float *at = row + THREAD + 1;
    KEEP(row);
    *at = x[THREAD];
    BARRIER;
    y[BLOCK * 128 + THREAD] = row[THREAD];
}
KERNEL shared_lanes_differ(const float *x, float *y) { /* within one wave */
    SHARED float row[128];
    row[THREAD & ~1] = (float)THREAD;
    BARRIER;
    y[BLOCK * 128 + THREAD] = row[THREAD & ~1] + x[THREAD];
}
KERNEL shared_lanes_agree(const float *x, float *y) {
    SHARED float row[128];
    row[THREAD & ~1] = (float)(THREAD / 2);
    BARRIER;
    y[BLOCK * 128 + THREAD] = row[THREAD & ~1] + x[THREAD];
}

KERNEL shared_halves_right(const float *x, float *y) { /* the halves of a word belong to two waves */
    SHARED f16 row[128];
    row[2 * (THREAD & 63) + (THREAD >> 6)] = (f16)x[THREAD];
    BARRIER;
    y[BLOCK * 128 + THREAD] = (float)row[127 - THREAD];
}
KERNEL shared_halves_read_too_soon(const float *x, float *y) {
    SHARED f16 row[128];
    row[2 * (THREAD & 63) + (THREAD >> 6)] = (f16)x[THREAD];
    KEEP(row);
    y[BLOCK * 128 + THREAD] = (float)row[2 * (THREAD & 63) + 1 - (THREAD >> 6)];
}

KERNEL blocks_write_one(const float *x, float *y) {
    y[THREAD] = x[THREAD]; /* every block the same */
}
KERNEL block_reads_what_another_writes(const float *x, float *y) {
    const float before = y[((BLOCK + 1) & 3) * 128 + THREAD];
    KEEP(y);
    y[BLOCK * 128 + THREAD] = before + x[THREAD];
}
KERNEL blocks_share_words_right(const float *x, f16 *y) { /* the halves of a word belong to two blocks */
    y[2 * THREAD + (BLOCK & 1) + 256 * (BLOCK >> 1)] = (f16)x[THREAD];
}
KERNEL blocks_share_bytes_right(const float *x, u8 *y) {
    y[4 * THREAD + BLOCK] = (u8)(x[THREAD] + y[4 * THREAD + BLOCK]);
}
KERNEL blocks_share_a_half(const float *x, f16 *y) {
    y[THREAD + (BLOCK >> 1) * 128] = (f16)x[THREAD];
}
KERNEL half_read_while_word_is_written(const float *x, float *y) {
    if (BLOCK == 0)
        y[THREAD] = x[THREAD];
    else
        y[BLOCK * 128 + THREAD] = (float)((const f16 *)y)[THREAD];
}
KERNEL word_read_while_half_is_written(const float *x, float *y) {
    if (BLOCK == 3)
        ((f16 *)y)[THREAD] = (f16)x[THREAD];
    else
        y[BLOCK * 128 + THREAD + 128] = y[THREAD / 2];
}
KERNEL lanes_differ(const float *x, float *y) {
    y[BLOCK * 128 + (THREAD & ~1)] = (float)THREAD + x[THREAD];
}
KERNEL counted_right(const float *x, int *y) {
    __scoped_atomic_fetch_add(y + (THREAD & 7), (int)x[THREAD], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
/* The halves of a packed move are chosen one by one; a wrong one would go outside. */
KERNEL pairs_moved_right(const float *x, float *y) {
    typedef float pair __attribute__((ext_vector_type(2)));
    pair a = {1.0f, 2.0f}, b = {3.0f, 4.0f}, crossed = {a.y, b.x}, highs = {a.y, b.y}, lows = {a.x, b.x};
#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
    asm volatile("v_pk_mov_b32 %0, %1, %2 op_sel:[1,0]" : "=v"(crossed) : "v"(a), "v"(b));
    asm volatile("v_pk_mov_b32 %0, %1, %2 op_sel:[1,1]" : "=v"(highs) : "v"(a), "v"(b));
    asm volatile("v_pk_mov_b32 %0, %1, %2 op_sel:[0,0]" : "=v"(lows) : "v"(a), "v"(b));
#endif
    const bool right = crossed.x == 2.0f && crossed.y == 3.0f && highs.x == 2.0f && highs.y == 4.0f && lows.x == 1.0f &&
                       lows.y == 3.0f;
    y[BLOCK * 128 + THREAD + (right ? 0 : 1 << 24)] = x[THREAD];
}
