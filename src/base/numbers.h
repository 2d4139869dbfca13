/* Numbers as text: inside the library they have a decimal point, whatever locale the host program has set.
 * Per thread; the host's locale comes back at the end of the scope. */
#ifndef BASE_NUMBERS_H
#define BASE_NUMBERS_H

#include <locale.h>

typedef struct numbers_scope {
    locale_t own, before; /* 0: nothing to change */
} numbers_scope;

numbers_scope numbers_begin(void);
void numbers_end(const numbers_scope *scope);

/* First line of every public call that reads or writes numbers, and of every thread of ours. */
#define NUMBERS_WITH_POINT()                                                                                           \
    __attribute__((cleanup(numbers_end), unused)) const numbers_scope numbers_scope_here = numbers_begin()

#endif
