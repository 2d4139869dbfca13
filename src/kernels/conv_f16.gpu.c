/* Convolution over maps of f16. */
#include "conv.h"

CONV_TILES(f16, f16, 4, 3, 2)
