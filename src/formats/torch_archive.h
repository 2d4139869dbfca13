/* A torch.save archive: zip of one pickle and its tensor storages. Gives the pickle as a tree and its tensors as
 * float32 (64-bit integers stay). Offsets, sizes and strides are checked against the storage. Knows nothing of what the
 * tree means. */
#ifndef FORMATS_TORCH_ARCHIVE_H
#define FORMATS_TORCH_ARCHIVE_H

#include "formats/pickle.h"
#include "tensor/tensor_list.h"

typedef struct torch_archive torch_archive;

/* The message says what the file is when it is something else (legacy or TorchScript file, web page, cut short …). */
ol_status torch_archive_open(ol_context *ctx, const char *path, torch_archive **out);
/* The bytes must outlive the archive; `name` is for messages. */
ol_status torch_archive_open_memory(ol_context *ctx, const char *name, const void *bytes, size_t n_bytes,
                                    torch_archive **out);
void torch_archive_close(torch_archive *t);

const pickle_node *torch_archive_root(const torch_archive *t); /* lives as long as the archive */

bool torch_is_tensor(const pickle_node *node); /* also a parameter */
/* Appends the tensor to `list` under `name`: DTYPE_I64 for 64-bit integers, else DTYPE_F32. */
ol_status torch_tensor_read(torch_archive *t, const pickle_node *node, tensor_list *list, const char *name);

#endif
