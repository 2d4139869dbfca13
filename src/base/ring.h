/* A ring of numbered tickets: the bounded queue between workers and the thread that collects their results in order.
 * Holds no results; slot memory belongs to the user, by ticket modulo capacity. Any thread may call. */
#ifndef BASE_RING_H
#define BASE_RING_H

#include "base/context.h"

/* Tickets 0, 1, 2 … are claimed by workers in order, finished in any order, and collected in order. At most
 * `capacity` tickets are between claimed and released, which bounds the memory behind them. */
typedef struct ring ring;
ol_status ring_create(ol_context *ctx, size_t capacity, ring **out);
void ring_destroy(ring *r);
/* Forgets all tickets: from now on there are `n_tickets`. No worker may be inside a claim. */
void ring_reset(ring *r, uint64_t n_tickets);
/* Waits until the next ticket may start. False when all are claimed or the ring was stopped. */
bool ring_claim(ring *r, uint64_t *ticket);
/* The same without waiting: false also when the ring is full. */
bool ring_try_claim(ring *r, uint64_t *ticket);
void ring_finish(ring *r, uint64_t ticket);
/* Waits until tickets below `end` are finished; false when the ring was stopped. */
bool ring_wait(ring *r, uint64_t end);
/* The slots of all tickets below `end` may be used again. */
void ring_release(ring *r, uint64_t end);
/* Wakes everyone; claims and waits return false until the next reset. */
void ring_stop(ring *r);

#endif
