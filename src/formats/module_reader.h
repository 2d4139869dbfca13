/* Pickled modules: the state dict of a tree of them and the attributes of single ones. Used by checkpoint_read.c only.
 */
#ifndef FORMATS_MODULE_READER_H
#define FORMATS_MODULE_READER_H

#include "formats/torch_archive.h"

bool module_is(const pickle_node *node);
/* "Detect"; NULL when it is not a module. */
const char *module_class_name(const pickle_node *node);
/* An attribute; NULL when absent. */
const pickle_node *module_attribute(const pickle_node *node, const char *name);
const pickle_node *module_child_node(const pickle_node *node, const char *name);
/* The last child that is a module; NULL when there is none. */
const pickle_node *module_last_child(const pickle_node *node);
/* Appends parameters and buffers of the module and all below it in state-dict order. */
ol_status module_state_read(torch_archive *t, const pickle_node *node, tensor_list *list);

#endif
