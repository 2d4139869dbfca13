/* A pool of worker threads. No queue: work is indices of a loop, or tickets of a ring (base/ring.h).
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

#endif
