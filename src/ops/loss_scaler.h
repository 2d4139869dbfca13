/* What becomes of steps whose gradients are not finite, and dynamic loss scaling for training in f16: losses are
 * multiplied by a power of two so that small gradients do not vanish, and the power follows what the gradients bear
 * (model document, section 5.8). Numbers only: who multiplies, divides and skips is the step. No state but the struct.
 */
#ifndef OPS_LOSS_SCALER_H
#define OPS_LOSS_SCALER_H

#include "tensor/tensor.h"

#include <stdbool.h>
#include <stdint.h>

#define LOSS_SCALE_START     65536.0
#define LOSS_SCALE_GROWTH    2.0
#define LOSS_SCALE_BACKOFF   0.5
#define LOSS_SCALE_LEAST     0x1p-60 /* that a file may ask for: its inverse is a float too */
#define LOSS_SCALE_INTERVAL  2000    /* good steps in a row before it grows */
#define LOSS_SCALE_MAX_SKIPS 20      /* skipped steps in a row that are too many */

typedef struct loss_scaler {
    bool on;        /* the scale follows the gradients */
    bool skips;     /* gradients that are not finite cost their step; else they end the run */
    double scale;   /* 1 when off */
    int64_t n_good; /* steps since the scale last changed */
    int n_skipped;  /* steps in a row that were skipped */
} loss_scaler;

/* Maps in f16 have a scale, those in bf16 need none; both may overflow now and then. */
void loss_scaler_init(loss_scaler *s, dtype maps);
/* After a step whose gradients were finite. */
void loss_scaler_grow(loss_scaler *s);
/* After a step whose gradients were not. False: none is skipped, or too many were in a row for that to help. */
bool loss_scaler_back_off(loss_scaler *s);

#endif
