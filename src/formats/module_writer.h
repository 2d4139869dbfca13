/* Pickles a model as the module objects of the reference package: classes, attributes, parameters and buffers (model
 * document, sections 9.4 and 9.5). Used by checkpoint_write.c only. */
#ifndef FORMATS_MODULE_WRITER_H
#define FORMATS_MODULE_WRITER_H

#include "formats/pickle_writer.h"
#include "model/model.h"

/* `weights`: the state dict of `m` (any missing tensor is an error); `names`: map from int to str; `stride`: f32, one a
 * level. Tensors are borrowed until pickle_writer_save. */
ol_status module_write_model(pickle_writer *w, const model *m, const tensor_list *weights, const value *names,
                             const tensor *stride, bool half);

#endif
