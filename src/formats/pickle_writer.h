/* Emits a protocol-2 pickle in memory and collects the tensor storages it refers to. Texts and class names are written
 * once and referred to afterwards. A failed call is remembered: callers check once, in pickle_writer_save. */
#ifndef FORMATS_PICKLE_WRITER_H
#define FORMATS_PICKLE_WRITER_H

#include "base/text.h"
#include "base/value.h"
#include "tensor/tensor.h"

typedef struct pickle_storage {
    const tensor *t; /* borrowed until saved */
    dtype type;      /* F16 or F32 for f32 tensors, I64 for i64 ones */
} pickle_storage;

typedef struct pickle_writer {
    ol_context *ctx;
    text out;
    ol_status status;
    pickle_storage *storages;
    size_t n_storages, storage_capacity;
    struct pickle_memo *memo;
} pickle_writer;

void pickle_writer_init(pickle_writer *w, ol_context *ctx);
void pickle_writer_deinit(pickle_writer *w);

void pickle_op(pickle_writer *w, char opcode); /* for MARK '(', DICT-SETITEMS 'u' and the like */
void pickle_none(pickle_writer *w);
void pickle_bool(pickle_writer *w, bool x);
void pickle_int(pickle_writer *w, int64_t x);
void pickle_float(pickle_writer *w, double x);
void pickle_string(pickle_writer *w, const char *text);
void pickle_global(pickle_writer *w, const char *module, const char *name);
/* "torch.nn.modules.conv.Conv2d": split at the last dot. */
void pickle_global_path(pickle_writer *w, const char *path);
void pickle_ordered_dict(pickle_writer *w); /* empty */
void pickle_int_tuple(pickle_writer *w, const int64_t *x, size_t n);
void pickle_value(pickle_writer *w, const value *v); /* NULL: None */
/* `half`: an f32 tensor is stored in half precision, values beyond its range as the largest finite ones. */
void pickle_tensor(pickle_writer *w, const tensor *t, bool half);
void pickle_parameter(pickle_writer *w, const tensor *t, bool half);

/* Objects that several places share: true when `key` was kept before and a reference to it is emitted now. Otherwise
 * the caller emits the object and keeps it. */
bool pickle_reuse(pickle_writer *w, const char *key);
void pickle_keep(pickle_writer *w, const char *key);

/* Key and value of a dict entry in one call. */
void pickle_entry_none(pickle_writer *w, const char *key);
void pickle_entry_bool(pickle_writer *w, const char *key, bool x);
void pickle_entry_int(pickle_writer *w, const char *key, int64_t x);
void pickle_entry_float(pickle_writer *w, const char *key, double x);
void pickle_entry_string(pickle_writer *w, const char *key, const char *text);
void pickle_entry_value(pickle_writer *w, const char *key, const value *v);
void pickle_entry_ordered_dict(pickle_writer *w, const char *key);

/* STOP, then the archive as torch lays it out, replacing `path` atomically. */
ol_status pickle_writer_save(pickle_writer *w, const char *path);

#endif
