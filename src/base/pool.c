#include "base/pool.h"

#include "base/numbers.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#define MESSAGE_BYTES 2048

typedef struct worker {
    pool *owner;
    int number;
    ol_context *ctx;
    pthread_t thread;
    bool started;
} worker;

struct pool {
    ol_context *ctx;
    int n_threads, n_workers;
    worker *workers;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t wake, idle;
    uint64_t generation; /* of the task: a worker runs each one once */
    int n_running;       /* workers that have not finished the current task */
    bool quit, has_task;
    pool_body_fn body;
    void *user;
    size_t count, next;
    bool one_each; /* pool_start: worker i runs index i */
    ol_status status;
    size_t failed_index;
    char message[MESSAGE_BYTES];
};

/* ---- contexts of workers ---- */

static void log_to_parent(void *user, ol_log_level level, const char *line) {
    ctx_log(user, level, "%s", line);
}

static void *realloc_from_parent(void *user, void *block, size_t bytes) {
    if (bytes > 0) return mem_resize(user, block, bytes, 1);
    mem_free(user, block);
    return NULL;
}

ol_status context_create_child(ol_context *parent, ol_context **child) {
    const ol_context_options options = {.struct_bytes = sizeof options,
                                        .log = log_to_parent,
                                        .log_user = parent,
                                        .realloc_block = realloc_from_parent,
                                        .realloc_user = parent,
                                        .n_threads = 1};
    return ol_context_create(&options, child);
}

/* ---- tasks ---- */

/* Called with the lock held. */
static void record_failure(pool *p, ol_context *ctx, ol_status status, size_t index) {
    if (p->status != OL_OK && p->failed_index < index) return;
    p->status = status;
    p->failed_index = index;
    ctx_message(ctx, p->message, sizeof p->message);
}

static void run_indices(pool *p, ol_context *ctx, int number) {
    pthread_mutex_lock(&p->lock);
    bool mine_left = true; /* for one_each */
    for (;;) {
        size_t index = (size_t)number;
        if (p->one_each) {
            if (!mine_left) break;
            mine_left = false;
        } else {
            if (p->next >= p->count || p->status != OL_OK || ctx_interrupted(p->ctx)) break;
            index = p->next++;
        }
        pthread_mutex_unlock(&p->lock);
        ctx_clear(ctx);
        const ol_status status = p->body(p->user, ctx, number, index);
        pthread_mutex_lock(&p->lock);
        if (status != OL_OK) record_failure(p, ctx, status, index);
    }
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *argument) {
    NUMBERS_WITH_POINT();
    worker *w = argument;
    pool *p = w->owner;
    uint64_t seen = 0;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->quit && (!p->has_task || p->generation == seen)) pthread_cond_wait(&p->wake, &p->lock);
        if (p->quit) break;
        seen = p->generation;
        pthread_mutex_unlock(&p->lock);
        run_indices(p, w->ctx, w->number);
        pthread_mutex_lock(&p->lock);
        if (--p->n_running == 0) {
            p->has_task = false;
            pthread_cond_signal(&p->idle);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void begin_task(pool *p, size_t count, bool one_each, pool_body_fn body, void *user) {
    pthread_mutex_lock(&p->lock);
    p->body = body;
    p->user = user;
    p->count = count;
    p->next = 0;
    p->one_each = one_each;
    p->status = OL_OK;
    p->generation++;
    p->has_task = true;
    p->n_running = p->n_threads;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

ol_status pool_wait(pool *p) {
    pthread_mutex_lock(&p->lock);
    while (p->has_task && p->n_threads > 0) pthread_cond_wait(&p->idle, &p->lock);
    p->has_task = false;
    const ol_status status = p->status;
    p->status = OL_OK;
    pthread_mutex_unlock(&p->lock);
    return status == OL_OK ? OL_OK : ctx_fail(p->ctx, status, "%s", p->message);
}

ol_status pool_run(pool *p, size_t count, pool_body_fn body, void *user) {
    begin_task(p, count, false, body, user);
    if (p->n_threads == 0) run_indices(p, p->workers[0].ctx, 0);
    const ol_status status = pool_wait(p);
    if (status == OL_OK && ctx_interrupted(p->ctx)) return ctx_fail(p->ctx, OL_ERROR_INTERRUPTED, "interrupted");
    return status;
}

ol_status pool_start(pool *p, pool_body_fn body, void *user) {
    if (p->n_threads > 0) begin_task(p, (size_t)p->n_threads, true, body, user);
    return OL_OK;
}

ol_context *pool_context(pool *p, int number) {
    return p->workers[number].ctx;
}

int pool_workers(const pool *p) {
    return p->n_workers;
}

/* ---- life ---- */

/* Signals are the main thread's business: Ctrl-C must reach the handler there, not interrupt a read of a worker. */
static int start_thread(worker *w) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int result = pthread_create(&w->thread, NULL, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    w->started = result == 0;
    return result;
}

ol_status pool_create(ol_context *ctx, int n_threads, pool **out) {
    if (n_threads < 0 || n_threads > 1024)
        return ctx_fail(ctx, OL_ERROR_ARGUMENT, "%d worker threads were asked for; 0 to 1024 are possible", n_threads);
    ol_status status = OL_ERROR_MEMORY;
    pool *p = mem_alloc0(ctx, 1, sizeof *p);
    if (p == NULL) return OL_ERROR_MEMORY;
    p->ctx = ctx;
    p->n_threads = n_threads;
    p->n_workers = n_threads > 0 ? n_threads : 1;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->idle, NULL);
    p->workers = mem_alloc0(ctx, (size_t)p->n_workers, sizeof *p->workers);
    if (p->workers == NULL) goto fail;
    for (int i = 0; i < p->n_workers; i++) {
        p->workers[i] = (worker){.owner = p, .number = i};
        if (context_create_child(ctx, &p->workers[i].ctx) != OL_OK) {
            ctx_fail(ctx, OL_ERROR_MEMORY, "out of memory for worker %d", i);
            goto fail;
        }
    }
    for (int i = 0; i < n_threads; i++) {
        const int result = start_thread(&p->workers[i]);
        if (result != 0) {
            status = ctx_fail(ctx, OL_ERROR_IO, "cannot start worker thread %d of %d: %s; ask for fewer (workers=…)",
                              i + 1, n_threads, strerror(result));
            goto fail;
        }
    }
    *out = p;
    return OL_OK;
fail:
    pool_destroy(p);
    return status;
}

void pool_destroy(pool *p) {
    if (p == NULL) return;
    ol_context *ctx = p->ctx;
    pthread_mutex_lock(&p->lock);
    p->quit = true;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; p->workers != NULL && i < p->n_workers; i++) {
        if (p->workers[i].started) pthread_join(p->workers[i].thread, NULL);
        ol_context_destroy(p->workers[i].ctx);
    }
    mem_free(ctx, p->workers);
    pthread_cond_destroy(&p->idle);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    mem_free(ctx, p);
}
