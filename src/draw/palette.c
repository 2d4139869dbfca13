#include "draw/palette.h"

#define N_COLOURS 20

typedef struct palette_entry {
    colour k;
    bool dark_text;
} palette_entry;

static const colour dark = {0x11, 0x1F, 0x68};
static const palette_entry palette[N_COLOURS] = {
    {{0x04, 0x2A, 0xFF}, false}, {{0x0B, 0xDB, 0xEB}, true},  {{0xF3, 0xF3, 0xF3}, true},  {{0x00, 0xDF, 0xB7}, true},
    {{0x11, 0x1F, 0x68}, false}, {{0xFF, 0x6F, 0xDD}, true},  {{0xFF, 0x44, 0x4F}, false}, {{0xCC, 0xED, 0x00}, true},
    {{0x00, 0xF3, 0x44}, true},  {{0xBD, 0x00, 0xFF}, false}, {{0x00, 0xB4, 0xFF}, false}, {{0xDD, 0x00, 0xBA}, false},
    {{0x00, 0xFF, 0xFF}, true},  {{0x26, 0xC0, 0x00}, false}, {{0x01, 0xFF, 0xB3}, true},  {{0x7D, 0x24, 0xFF}, false},
    {{0x7B, 0x00, 0x68}, false}, {{0xFF, 0x1B, 0x6C}, false}, {{0xFC, 0x6D, 0x2F}, false}, {{0xA2, 0xFF, 0x0B}, true}};

static const palette_entry *entry_of(int class_id) {
    int at = class_id % N_COLOURS;
    return &palette[at < 0 ? at + N_COLOURS : at];
}

colour class_colour(int class_id) {
    return entry_of(class_id)->k;
}

colour class_line_colour(int class_id) {
    colour k = class_colour(class_id);
    double light = (0.3 * k.r + 0.59 * k.g + 0.11 * k.b) / 255, keep = light > 0.6 ? 0.6 / light : 1;
    return (colour){(uint8_t)(k.r * keep), (uint8_t)(k.g * keep), (uint8_t)(k.b * keep)};
}

colour class_text_colour(int class_id) {
    return entry_of(class_id)->dark_text ? dark : COLOUR_WHITE;
}

colour blues(double t) {
    static const colour stops[] = {{247, 251, 255}, {222, 235, 247}, {198, 219, 239}, {158, 202, 225}, {107, 174, 214},
                                   {66, 146, 198},  {33, 113, 181},  {8, 81, 156},    {8, 48, 107}};
    const int last = (int)(sizeof stops / sizeof *stops) - 1;
    if (!(t > 0)) return stops[0];
    if (t >= 1) return stops[last];
    int at = (int)(t * last);
    double f = t * last - at;
    colour a = stops[at], b = stops[at + 1];
    return (colour){(uint8_t)(a.r + f * (b.r - a.r) + 0.5), (uint8_t)(a.g + f * (b.g - a.g) + 0.5),
                    (uint8_t)(a.b + f * (b.b - a.b) + 0.5)};
}
