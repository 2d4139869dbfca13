#include "base/ring.h"

#include <pthread.h>
#include <string.h>

struct ring {
    ol_context *ctx;
    size_t capacity;
    bool *finished; /* by ticket modulo capacity: finished, but a lower ticket is not */
    pthread_mutex_t lock;
    pthread_cond_t room, ready;
    uint64_t n_tickets, next, n_ready, n_released; /* n_released <= n_ready <= next <= n_released + capacity */
    uint64_t wanted;                               /* the collector waits for n_ready to reach this */
    bool stopped;
};

ol_status ring_create(ol_context *ctx, size_t capacity, ring **out) {
    ring *r = mem_alloc0(ctx, 1, sizeof *r);
    if (r == NULL) return OL_ERROR_MEMORY;
    r->ctx = ctx;
    r->capacity = capacity > 0 ? capacity : 1;
    r->finished = mem_alloc0(ctx, r->capacity, sizeof *r->finished);
    if (r->finished == NULL) {
        mem_free(ctx, r);
        return OL_ERROR_MEMORY;
    }
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->room, NULL);
    pthread_cond_init(&r->ready, NULL);
    *out = r;
    return OL_OK;
}

void ring_destroy(ring *r) {
    if (r == NULL) return;
    pthread_cond_destroy(&r->ready);
    pthread_cond_destroy(&r->room);
    pthread_mutex_destroy(&r->lock);
    mem_free(r->ctx, r->finished);
    mem_free(r->ctx, r);
}

void ring_reset(ring *r, uint64_t n_tickets) {
    pthread_mutex_lock(&r->lock);
    memset(r->finished, 0, r->capacity * sizeof *r->finished);
    r->n_tickets = n_tickets;
    r->next = r->n_ready = r->n_released = r->wanted = 0;
    r->stopped = false;
    pthread_mutex_unlock(&r->lock);
}

static bool claim(ring *r, uint64_t *ticket, bool wait) {
    pthread_mutex_lock(&r->lock);
    while (wait && !r->stopped && r->next < r->n_tickets && r->next - r->n_released >= r->capacity)
        pthread_cond_wait(&r->room, &r->lock);
    const bool claimed = !r->stopped && r->next < r->n_tickets && r->next - r->n_released < r->capacity;
    if (claimed) *ticket = r->next++;
    pthread_mutex_unlock(&r->lock);
    return claimed;
}

bool ring_claim(ring *r, uint64_t *ticket) {
    return claim(r, ticket, true);
}

bool ring_try_claim(ring *r, uint64_t *ticket) {
    return claim(r, ticket, false);
}

void ring_finish(ring *r, uint64_t ticket) {
    pthread_mutex_lock(&r->lock);
    r->finished[ticket % r->capacity] = true;
    while (r->n_ready < r->next && r->finished[r->n_ready % r->capacity])
        r->finished[r->n_ready++ % r->capacity] = false;
    if (r->n_ready >= r->wanted) pthread_cond_signal(&r->ready);
    pthread_mutex_unlock(&r->lock);
}

bool ring_wait(ring *r, uint64_t end) {
    pthread_mutex_lock(&r->lock);
    r->wanted = end;
    while (!r->stopped && r->n_ready < end) pthread_cond_wait(&r->ready, &r->lock);
    const bool there = !r->stopped;
    pthread_mutex_unlock(&r->lock);
    return there;
}

void ring_release(ring *r, uint64_t end) {
    pthread_mutex_lock(&r->lock);
    if (end > r->n_released) {
        r->n_released = end;
        pthread_cond_broadcast(&r->room);
    }
    pthread_mutex_unlock(&r->lock);
}

void ring_stop(ring *r) {
    pthread_mutex_lock(&r->lock);
    r->stopped = true;
    pthread_cond_broadcast(&r->room);
    pthread_cond_broadcast(&r->ready);
    pthread_mutex_unlock(&r->lock);
}
