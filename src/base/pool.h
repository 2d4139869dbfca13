/* A pool of worker threads, and a ring of numbered tickets that hands their results on in order.
 * Each worker has a context of its own (messages of two workers never mix; log and memory go to the parent context).
 * A pool is driven by one thread at a time. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/context.h"

typedef struct pool pool;

/* `n_threads` 0: no threads, the work is done by the caller. */
ol_status pool_create(ol_context *ctx, int n_threads, pool **out);
void pool_destroy(pool *p);
/* Threads that may run a body at once: n_threads, or 1 for none. */
int pool_workers(const pool *p);

/* `worker` is 0..pool_workers-1 and names per-worker scratch memory; `ctx` is that worker's context. */
typedef ol_status (*pool_body_fn)(void *user, ol_context *ctx, int worker, size_t index);

/* Runs body for index 0..count-1 and waits. The failure with the lowest index is returned with its message on the
 * parent context; indices above a failed one may not have run. An interrupt of the parent ends it early. */
ol_status pool_run(pool *p, size_t count, pool_body_fn body, void *user);

/* Starts body(user, ctx, worker, worker) once on each worker thread and returns; pool_wait waits for all to return and
 * gives the first failure. Without threads start does nothing: the caller drives its ring itself (pool_context(p, 0)).
 */
ol_status pool_start(pool *p, pool_body_fn body, void *user);
ol_status pool_wait(pool *p);
ol_context *pool_context(pool *p, int worker);

/* A context with its own message that logs to and allocates from `parent`; destroyed before it. */
ol_status context_create_child(ol_context *parent, ol_context **child);

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
