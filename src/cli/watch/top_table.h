/* top_table.h - rows of a view: sorted by a column, filtered by a text, drawn with one selected. */
#ifndef WEIR_CLI_WATCH_TOP_TABLE_H
#define WEIR_CLI_WATCH_TOP_TABLE_H

#include "cli/watch/top_line.h"

struct json_t;

enum { TOP_COLUMNS = 8, TOP_CELL = 192, TOP_ROW_ID = 256 };

struct top_column {
    const char *title; /* NULL: there are no more */
    int width;         /* 0: what the others leave */
    bool is_number;    /* sorted by the number of the cell, greatest first */
    int rank;          /* on a narrow screen the column with the greatest goes first; 0: never */
    int least;         /* … after all that have one were made so narrow; 0: it stays as wide.
                          Of a column that takes what is left: at least so much */
};

struct top_cell {
    char text[TOP_CELL];
    double number;
    enum colour colour;
};

struct top_table_row {
    struct top_cell cells[TOP_COLUMNS];
    char id[TOP_ROW_ID];            /* the same at the next look */
    const struct json_t *item, *of; /* what it is about; the view says what it is */
    bool is_part;                   /* of the row above, and stays below it */
    size_t order;                   /* as the server has it */
};

struct top_table {
    const struct top_column *columns;
    struct top_table_row *rows;
    size_t count, room;
    bool failed;      /* out of memory: rows are missing */
    const char *none; /* instead of rows, if there are none */
};

void top_table_init(struct top_table *t, const struct top_column *columns, const char *none);
void top_table_done(struct top_table *t);

/* Empty, or NULL: there is no memory for it. Lives until the next one is added. */
struct top_table_row *top_table_add(struct top_table *t);
void top_cell_text(struct top_table_row *r, size_t column, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void top_cell_count(struct top_table_row *r, size_t column, int64_t n);
void top_cell_rate(struct top_table_row *r, size_t column, double per_second, enum colour as);

/* Column -1: as the server has it. */
void top_table_sort(struct top_table *t, int column, bool is_turned);

/* Only rows with this text in a cell, whatever the case, and what belongs to them. */
void top_table_filter(struct top_table *t, const char *text);

size_t top_table_columns(const struct top_table *t);

struct top_table_place {
    int width;
    size_t first, shown, selected;
    int sort;
    bool is_turned;
    const char *line_end;
};

/* The line of titles, and the rows from the first on. */
void top_table_draw(const struct top_table *t, const struct top_table_place *p, struct buf *out);

#endif
