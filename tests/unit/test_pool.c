/* Worker pool and ring: every index once, the lowest failure wins, tickets come back in order. */
#include "golden.h"

#include "base/pool.h"
#include "base/ring.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define N_INDICES 1000

typedef struct tally {
    int runs[N_INDICES];
    size_t fail_from;
} tally;

static ol_status count_one(void *user, ol_context *ctx, int worker, size_t index) {
    tally *t = user;
    (void)worker;
    t->runs[index]++;
    if (index >= t->fail_from) return ctx_fail(ctx, OL_ERROR_FORMAT, "index %zu is bad", index);
    return OL_OK;
}

static void every_index_runs_once(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    for (int threads = 0; threads <= 5; threads++) {
        pool *p = NULL;
        assert_int_equal(pool_create(ctx, threads, &p), OL_OK);
        for (int round = 0; round < 3; round++) {
            tally t = {.fail_from = N_INDICES};
            assert_int_equal(pool_run(p, N_INDICES, count_one, &t), OL_OK);
            for (int i = 0; i < N_INDICES; i++) assert_int_equal(t.runs[i], 1);
        }
        pool_destroy(p);
    }
    ol_context_destroy(ctx);
}

static void the_lowest_failure_is_reported(void **state) {
    (void)state;
    for (int threads = 0; threads <= 4; threads += 2) {
        ol_context *ctx = test_context();
        pool *p = NULL;
        assert_int_equal(pool_create(ctx, threads, &p), OL_OK);
        tally t = {.fail_from = 17};
        assert_int_equal(pool_run(p, N_INDICES, count_one, &t), OL_ERROR_FORMAT);
        assert_string_equal(ol_context_message(ctx), "index 17 is bad");
        assert_int_equal(t.runs[N_INDICES - 1], 0);
        ctx_clear(ctx);
        t = (tally){.fail_from = N_INDICES}; /* the pool can be used again */
        assert_int_equal(pool_run(p, N_INDICES, count_one, &t), OL_OK);
        pool_destroy(p);
        ol_context_destroy(ctx);
    }
}

static void too_many_threads_are_refused(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    pool *p = NULL;
    assert_int_equal(pool_create(ctx, -1, &p), OL_ERROR_ARGUMENT);
    assert_null(p);
    assert_non_null(strstr(ol_context_message(ctx), "-1 worker threads"));
    ol_context_destroy(ctx);
}

typedef struct squares {
    ring *r;
    uint64_t slots[8];
    int n_held, most_held;
    pthread_mutex_t lock;
} squares;

static ol_status square_tickets(void *user, ol_context *ctx, int worker, size_t index) {
    squares *s = user;
    uint64_t ticket;
    (void)ctx;
    (void)index;
    while (ring_claim(s->r, &ticket)) {
        pthread_mutex_lock(&s->lock);
        if (++s->n_held > s->most_held) s->most_held = s->n_held;
        pthread_mutex_unlock(&s->lock);
        if (ticket % 7 == (uint64_t)worker) usleep(200); /* finish out of order */
        s->slots[ticket % 8] = ticket * ticket;
        ring_finish(s->r, ticket);
    }
    return OL_OK;
}

static void tickets_come_back_in_order(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    pool *p = NULL;
    squares s = {0};
    pthread_mutex_init(&s.lock, NULL);
    assert_int_equal(pool_create(ctx, 3, &p), OL_OK);
    assert_int_equal(ring_create(ctx, 8, &s.r), OL_OK);
    for (int round = 0; round < 3; round++) {
        ring_reset(s.r, 500);
        assert_int_equal(pool_start(p, square_tickets, &s), OL_OK);
        for (uint64_t t = 0; t < 500; t++) {
            assert_true(ring_wait(s.r, t + 1));
            assert_true(s.slots[t % 8] == t * t);
            pthread_mutex_lock(&s.lock);
            s.n_held--;
            pthread_mutex_unlock(&s.lock);
            ring_release(s.r, t + 1);
        }
        assert_int_equal(pool_wait(p), OL_OK);
    }
    assert_true(s.most_held <= 8);
    ring_reset(s.r, 500); /* stopping in the middle wakes the workers that wait for room */
    assert_int_equal(pool_start(p, square_tickets, &s), OL_OK);
    assert_true(ring_wait(s.r, 5));
    ring_stop(s.r);
    assert_int_equal(pool_wait(p), OL_OK);
    assert_false(ring_wait(s.r, 1));
    ring_destroy(s.r);
    pool_destroy(p);
    pthread_mutex_destroy(&s.lock);
    ol_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_index_runs_once),
        cmocka_unit_test(the_lowest_failure_is_reported),
        cmocka_unit_test(too_many_threads_are_refused),
        cmocka_unit_test(tickets_come_back_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
