/* A whole detection network of a few thousand parameters, the same on every machine: for tests of readers and writers.
 */
#ifndef TESTS_TINY_MODEL_H
#define TESTS_TINY_MODEL_H

#include "model/model.h"

/* Layers of yolo26.yaml at a width of 1/64, 3 classes "circle", "square", "tri'angle"; weights from golden_hash of
 * their names, rounded to half precision, batch-norm statistics near their start, counters 7. Fails the test when it
 * cannot be made. The description lives in `a`, which must
 * outlive the model. */
model *tiny_model(arena *a);

#endif
