#define _POSIX_C_SOURCE 200809L /* newlocale, uselocale */

#include "base/numbers.h"

#include <langinfo.h>
#include <string.h>

numbers_scope numbers_begin(void) {
    numbers_scope scope = {0};
    if (strcmp(nl_langinfo(RADIXCHAR), ".") == 0) return scope;
    locale_t copy = duplocale(uselocale((locale_t)0));
    if (copy == (locale_t)0) return scope;
    scope.own = newlocale(LC_NUMERIC_MASK, "C", copy); /* everything but numbers stays the host's */
    if (scope.own == (locale_t)0)
        freelocale(copy);
    else
        scope.before = uselocale(scope.own);
    return scope;
}

void numbers_end(const numbers_scope *scope) {
    if (scope->own == (locale_t)0) return;
    uselocale(scope->before);
    freelocale(scope->own);
}
