/* The public options handle: settings plus the text that ol_options_get hands out. */
#ifndef API_OPTIONS_H
#define API_OPTIONS_H

#include "base/settings.h"

struct ol_options {
    ol_context *ctx;
    settings settings;
    text shown;
};

#endif
