/* Convolution over maps of bf16. */
#include "conv.h"

CONV_TILES(bf16, bf16, 4, 3, 2)
