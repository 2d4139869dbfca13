/* Readers of the reference values in tests/golden: flat .npy packs with a .json index, typed .bin blobs with an .idx.
 */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include "base/arena.h"
#include "base/value.h"
#include "tensor/tensor.h"

typedef struct golden_pack {
    arena arena;
    const value *meta;          /* "meta" of a pack, NULL for blobs */
    const value *index;         /* list of {name, shape, offset[, dtype]} */
    const unsigned char *bytes; /* first element */
    bool typed;
} golden_pack;

/* `stem` is relative to tests/golden, e.g. "modules/sppf.io" or "nms/nms". Fails the test when unreadable. */
golden_pack golden_open(const char *stem);
void golden_close(golden_pack *p);
bool golden_has(const golden_pack *p, const char *name);
/* A view into the pack (f32 for packs; the recorded type for blobs). Fails the test when absent. */
tensor golden_tensor(const golden_pack *p, const char *name);
/* A parsed .json file of tests/golden. */
const value *golden_json(arena *a, const char *path);

/* The generator of inputs and weights: lo + u*(hi-lo), u from FNV-1a and splitmix64 of `tag` (oracle hash_tensor). */
void golden_hash(const char *tag, float *out, size_t n, double lo, double hi);

/* Shared folder with weights and pictures (environment ONELOOK_SHARED, else ../shared beside the source); NULL when
 * absent. */
const char *shared_folder(void);
/* Ends the test program with CTest's skip code after one line saying what is missing. */
void skip_without(const char *path, const char *what);

/* The device that graphs of tests run on: environment ONELOOK_TEST_DEVICE ("cuda:0", "hip:0"), else "cpu". */
const char *test_device_name(void);
/* The type of activations that ONELOOK_TEST_COMPUTE (f16, bf16) names for devices that have it; else f32. */
dtype test_compute(void);
/* Before a group runs: ONELOOK_TEST_ONLY names its tests that run, ONELOOK_TEST_SKIP those that do not (* and ? match).
 */
void test_choose(void);

/* A context whose warnings and errors go to stderr; aborts the test when it cannot be made. */
ol_context *test_context(void);

/* |a-b| <= absolute + relative*|b| for all; reports the worst element and fails the test otherwise. */
void assert_close(const char *what, const float *a, const float *b, size_t n, double absolute, double relative);

#endif
