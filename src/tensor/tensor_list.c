#include "tensor/tensor_list.h"

#include <string.h>

/* Open addressing over positions + 1 (0: free); the table is rebuilt when it is half full. */
typedef struct name_index {
    size_t room; /* power of two */
    uint32_t slots[];
} name_index;

static uint64_t hash_name(const char *name) { /* FNV-1a */
    uint64_t h = 0xCBF29CE484222325u;
    for (; *name != '\0'; name++) h = (h ^ (unsigned char)*name) * 0x100000001B3u;
    return h ^ h >> 29;
}

static void index_insert(name_index *index, const named_tensor *items, size_t position) {
    size_t at = hash_name(items[position].name) & (index->room - 1);
    while (index->slots[at] != 0) at = (at + 1) & (index->room - 1);
    index->slots[at] = (uint32_t)position + 1;
}

static ol_status index_make_room(tensor_list *list) {
    name_index *old = list->index;
    if (old != NULL && (list->count + 1) * 2 <= old->room) return OL_OK;
    const size_t room = old != NULL ? old->room * 2 : 64;
    name_index *index = mem_alloc0(list->ctx, 1, sizeof *index + room * sizeof index->slots[0]);
    if (index == NULL) return OL_ERROR_MEMORY;
    index->room = room;
    for (size_t i = 0; i < list->count; i++) index_insert(index, list->items, i);
    mem_free(list->ctx, old);
    list->index = index;
    return OL_OK;
}

void tensor_list_init(tensor_list *list, ol_context *ctx) {
    *list = (tensor_list){.ctx = ctx};
    arena_init(&list->names, ctx, 0);
}

void tensor_list_deinit(tensor_list *list) {
    for (size_t i = 0; i < list->count; i++) tensor_deinit(list->ctx, &list->items[i].t);
    mem_free(list->ctx, list->items);
    mem_free(list->ctx, list->index);
    arena_deinit(&list->names);
    *list = (tensor_list){.ctx = list->ctx};
}

int64_t tensor_list_position(const tensor_list *list, const char *name) {
    const name_index *index = list->index;
    if (index == NULL) return -1;
    for (size_t at = hash_name(name) & (index->room - 1); index->slots[at] != 0; at = (at + 1) & (index->room - 1)) {
        const size_t position = index->slots[at] - 1;
        if (strcmp(list->items[position].name, name) == 0) return (int64_t)position;
    }
    return -1;
}

tensor *tensor_list_find(const tensor_list *list, const char *name) {
    const int64_t position = tensor_list_position(list, name);
    return position >= 0 ? &list->items[position].t : NULL;
}

ol_status tensor_list_add(tensor_list *list, const char *name, dtype type, shape s, tensor **out) {
    if (tensor_list_find(list, name) != NULL)
        return ctx_fail(list->ctx, OL_ERROR_FORMAT, "the tensor '%s' occurs twice", name);
    void *block = list->items;
    ol_status status = mem_grow(list->ctx, &block, &list->capacity, list->count + 1, sizeof *list->items);
    list->items = block;
    if (status == OL_OK) status = index_make_room(list);
    if (status != OL_OK) return status;
    named_tensor item = {.name = arena_strdup(&list->names, name)};
    if (item.name == NULL) return OL_ERROR_MEMORY;
    status = tensor_init(list->ctx, &item.t, type, s);
    if (status != OL_OK) return status;
    list->items[list->count] = item;
    index_insert(list->index, list->items, list->count);
    list->count++;
    if (out != NULL) *out = &list->items[list->count - 1].t;
    return OL_OK;
}

ol_status tensor_list_copy(tensor_list *to, const tensor_list *from) {
    for (size_t i = 0; i < from->count; i++) {
        const named_tensor *item = &from->items[i];
        tensor *t = NULL;
        const ol_status status = tensor_list_add(to, item->name, item->t.type, item->t.shape, &t);
        if (status != OL_OK || t == NULL) return status;
        memcpy(t->data, item->t.data, (size_t)shape_elements(&item->t.shape) * dtype_bytes(item->t.type));
    }
    return OL_OK;
}
