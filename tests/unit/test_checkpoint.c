/* The .pt reader against the real file and its documented state dict. */
#include "golden.h"

#include "base/file.h"
#include "formats/checkpoint.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Compares names, shapes and order with spec/<scale>-state-dict.tsv: index, key, shape, dtype, kind. */
static void assert_state_dict_as_listed(const tensor_list *list, const char *path) {
    ol_context *ctx = list->ctx;
    char *bytes, *save = NULL;
    size_t n_bytes, row = 0;
    assert_int_equal(file_read(ctx, path, 0, &bytes, &n_bytes), OL_OK);
    char *line = strtok_r(bytes, "\n", &save); /* header */
    while ((line = strtok_r(NULL, "\n", &save)) != NULL) {
        char key[200], shape_text[64], type[16];
        assert_int_equal(sscanf(line, "%*d\t%199[^\t]\t%63[^\t]\t%15[^\t]", key, shape_text, type), 3);
        assert_true(row < list->count);
        const named_tensor *item = &list->items[row++];
        assert_string_equal(item->name, key);
        assert_int_equal(item->t.type, strcmp(type, "int64") == 0 ? DTYPE_I64 : DTYPE_F32);
        char printed[64] = "scalar";
        size_t used = 0;
        for (int i = 0; i < item->t.shape.rank; i++)
            used += (size_t)snprintf(printed + used, sizeof printed - used, i == 0 ? "%lld" : "x%lld",
                                     (long long)item->t.shape.dim[i]);
        assert_string_equal(printed, shape_text);
    }
    assert_int_equal(row, list->count);
    mem_free(ctx, bytes);
}

static void real_file_gives_its_state_dict_and_description(void **state) {
    (void)state;
    ol_context *ctx = test_context();
    char path[1024], tsv[1024];
    snprintf(path, sizeof path, "%s/weights/yolo26n-coco128.pt", shared_folder());
    snprintf(tsv, sizeof tsv, "%s/spec/yolo26n-state-dict.tsv", shared_folder());
    checkpoint c;
    if (checkpoint_read(ctx, path, &c) != OL_OK) fail_msg("%s", ol_context_message(ctx));
    assert_state_dict_as_listed(&c.weights, tsv);
    assert_int_equal(c.nc, 80);
    assert_string_equal(c.scale, "n");
    assert_string_equal(c.task, "detect");
    assert_string_equal(c.head, "Detect");
    assert_false(c.fused);
    assert_true(c.has_one2many && c.has_one2one);
    assert_int_equal(c.n_strides, 3);
    assert_true(c.strides[0] == 8 && c.strides[1] == 16 && c.strides[2] == 32);
    assert_int_equal(c.epoch, -1);
    assert_false(c.has_optimizer);
    assert_int_equal(c.names->as.map.count, 80);
    assert_int_equal(c.names->as.map.keys[79]->as.integer, 79);
    assert_string_equal(c.names->as.map.items[0]->as.string, "0"); /* trained without names */
    assert_int_equal(value_get(c.yaml, "backbone")->as.list.count, 11);
    assert_int_equal(value_get(c.yaml, "head")->as.list.count, 13);
    assert_non_null(value_get(c.train_args, "imgsz"));
    checkpoint_deinit(&c);
    ol_context_destroy(ctx);
}

int main(void) {
    skip_without(shared_folder(), "the shared folder with real weights");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_file_gives_its_state_dict_and_description),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
