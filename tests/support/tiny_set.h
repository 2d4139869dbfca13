/* Small data sets for tests: a few pictures of blocks with boxes, written into a scratch folder. */
#ifndef TESTS_TINY_SET_H
#define TESTS_TINY_SET_H

#include "scratch.h"

/* A picture by suffix of `name` (.png, .jpg); its content depends on `seed` alone. Gives its path. */
const char *tiny_picture(scratch *s, const char *name, int height, int width, unsigned seed);
/* data.yaml with three classes over images/train and images/val; gives its path. */
const char *tiny_yaml(scratch *s);
/* tiny_yaml, and that many pictures of varied sizes with 1 to 4 boxes each (images/train/000.png …). Class and place of
 * the boxes depend on the picture's number. */
const char *tiny_set(scratch *s, int n_train, int n_val);

#endif
