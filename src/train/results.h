/* The rows of results.csv: kept in memory, written as a file and as the `train_results` of checkpoints, so that both
 * are one record. Model document, section 6.4. */
#ifndef TRAIN_RESULTS_H
#define TRAIN_RESULTS_H

#include "train/trainer.h"

#define RESULT_MAX_COLUMNS 20

typedef struct results {
    ol_context *ctx;
    int n_groups;  /* lr/pg0 … */
    double *cells; /* (n_rows, results_columns) */
    size_t n_rows, capacity;
} results;

void results_init(results *r, ol_context *ctx, int n_groups);
void results_deinit(results *r);
int results_columns(const results *r);
/* "metrics/mAP50(B)"; epoch, time, three training losses, four metrics, three validation losses, rates. */
void results_column_name(int column, char *buffer, size_t buffer_bytes);

/* As Python's round(x, 5). */
double results_round(double x);
/* Appends a row with the rounding of the file. */
ol_status results_add(results *r, const train_epoch *epoch);
/* Writes the whole file, atomically. */
ol_status results_write(const results *r, const char *path);
/* {column: [values]}, and back: rows up to and including `epochs` are taken, unknown columns passed over. */
ol_status results_to_value(arena *a, const results *r, const value **out);
ol_status results_from_value(results *r, const value *map, int epochs);

#endif
