#include "tiny_model.h"

#include "golden.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char description[] = "nc: 3\nend2end: True\nreg_max: 1\nscale: t\nscales:\n  t: [0.5, 0.015625, 1024]\n"
                                  "backbone:\n"
                                  "  - [-1, 1, Conv, [64, 3, 2]]\n"
                                  "  - [-1, 1, Conv, [128, 3, 2]]\n"
                                  "  - [-1, 2, C3k2, [256, False, 0.25]]\n"
                                  "  - [-1, 1, Conv, [256, 3, 2]]\n"
                                  "  - [-1, 2, C3k2, [512, True]]\n"
                                  "  - [-1, 1, Conv, [512, 3, 2]]\n"
                                  "  - [-1, 1, Conv, [1024, 3, 2]]\n"
                                  "  - [-1, 1, SPPF, [1024, 5, 3, True]]\n"
                                  "  - [-1, 2, C2PSA, [1024]]\n"
                                  "head:\n"
                                  "  - [-1, 1, nn.Upsample, [None, 2, nearest]]\n"
                                  "  - [[-1, 5], 1, Concat, [1]]\n"
                                  "  - [-1, 2, C3k2, [512, True]]\n"
                                  "  - [-1, 1, C3k2, [512, True, 0.5, True]]\n"
                                  "  - [[4, 12, 8], 1, Detect, [nc]]\n";

static void fill(named_tensor *item) {
    const size_t n = (size_t)shape_elements(&item->t.shape);
    if (item->t.type == DTYPE_I64) {
        for (size_t i = 0; i < n; i++) ((int64_t *)item->t.data)[i] = 7;
        return;
    }
    const bool near_one = strstr(item->name, "running_var") != NULL || strstr(item->name, "bn.weight") != NULL;
    const double reach = item->t.shape.rank == 4
                             ? sqrt(3.0 / (double)(item->t.shape.dim[1] * item->t.shape.dim[2] * item->t.shape.dim[3]))
                             : 0.2;
    golden_hash(item->name, tensor_f32(&item->t), n, near_one ? 0.8 : -reach, near_one ? 1.2 : reach);
    for (size_t i = 0; i < n; i++) tensor_f32(&item->t)[i] = half_to_float(float_to_half(tensor_f32(&item->t)[i]));
}

model *tiny_model(arena *a) {
    static const char *const names[3] = {"circle", "square", "tri'angle"};
    ol_context *ctx = a->ctx;
    model *m = NULL;
    model_spec spec = {.name = "tiny.yaml", .scale = 't'};
    if (yaml_parse(a, "tiny.yaml", description, strlen(description), &spec.yaml) != OL_OK ||
        model_create(ctx, &spec, &m) != OL_OK || model_set_names(m, names, 3) != OL_OK)
        fail_msg("%s", ol_context_message(ctx));
    for (size_t i = 0; i < m->state.count; i++) fill(&m->state.items[i]);
    return m;
}
