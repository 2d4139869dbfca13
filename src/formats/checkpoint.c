#include "formats/checkpoint.h"

#include <math.h>

void checkpoint_init(checkpoint *c, ol_context *ctx) {
    *c = (checkpoint){.ctx = ctx, .nc = -1, .epoch = -1, .best_fitness = NAN, .updates = -1};
    arena_init(&c->arena, ctx, 0);
    tensor_list_init(&c->weights, ctx);
    tensor_list_init(&c->live, ctx);
    tensor_list_init(&c->optimizer.state, ctx);
}

void checkpoint_deinit(checkpoint *c) {
    tensor_list_deinit(&c->weights);
    tensor_list_deinit(&c->live);
    tensor_list_deinit(&c->optimizer.state);
    arena_deinit(&c->arena);
}
