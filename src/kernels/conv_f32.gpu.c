/* Convolution over maps of f32. */
#include "conv.h"

CONV_TILES(float, f32, 3, 2, 2)
