/* Plain words to typed scalars and back: shared by the YAML, JSON and literal readers. */
#ifndef BASE_SCALAR_H
#define BASE_SCALAR_H

#include "base/value.h"

typedef enum scalar_style {
    SCALAR_YAML, /* null ~ None (as words), true/false/yes-like words stay text except true/false in YAML's three cases
                  */
    SCALAR_LITERAL /* none/true/false in any case */
} scalar_style;

/* Never NULL but for memory. */
value *scalar_parse(arena *a, const char *text, scalar_style style);
/* Shortest decimal that reads back as the same double and as a float ("0.001", "1.0", "1e-05", ".inf"). */
void scalar_print_float(text *out, double x);
void scalar_print_yaml_string(text *out, const char *s);

/* How a notation spells values; `value_spell` writes one with all that is in it. */
typedef struct value_spelling {
    const char *null, *yes, *no, *comma, *colon;
    void (*real)(text *out, double x);
    void (*string)(text *out, const char *s);
    bool keys_are_strings; /* other keys are put in quotes */
} value_spelling;
void value_spell(text *out, const value *v, const value_spelling *s);

#endif
