/* SPDX-License-Identifier: Apache-2.0 */
/* Lists for people and for programs: tables, written as aligned text or as one JSON object. */
#ifndef NIXLRUN_LAUNCHER_TABLE_H
#define NIXLRUN_LAUNCHER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { TABLE_MAX_COLUMNS = 12 };

/*
 * The type of a column's cells. Text prints them as they are, JSON as strings, numbers, booleans.
 */
enum table_type { TABLE_TEXT, TABLE_NUMBER, TABLE_FLAG };

struct table_column {
    const char *name;  /* for JSON: in lower case with _ between words */
    const char *title; /* for text */
    enum table_type type;
};

struct table {
    const char *name;                   /* one word, in lower case */
    const struct table_column *columns; /* up to one without a name */
    char ***rows;
    size_t n_rows;
};

/*
 * Add a row: one text for each column. NULL and "" are an empty cell, which is null in JSON except
 * in columns of text; flags are "yes" and "no"; an invalid number is an empty cell.
 */
void table_add(struct table *table, const char *const *cells);

/*
 * Add a row that another process sent as a line: the name of one of the tables, and the cells, with
 * a tab before each. The line is changed. Returns false, and adds nothing, if the line is
 * malformed.
 */
bool table_add_line(struct table *tables, size_t n_tables, char *line);

/* Make a text a valid cell of such a line: tabs and newlines become blanks. Returns it. */
char *table_cell(char *text);

enum { TABLE_NUMBER_NBYTES = 24 };

/* A number as a cell; 0 means not known. Writes to and returns `text`. */
const char *table_number(uint64_t number, char text[TABLE_NUMBER_NBYTES]);

void table_free(struct table *table);

/* Write tables one after the other. In text an empty table has the line `if_empty`. */
struct table_writer {
    FILE *out;
    bool is_json;
};

/* Start with one named value, such as the version. */
void table_begin(struct table_writer *writer, const char *name, const char *value);
void table_write(struct table_writer *writer, const struct table *table, const char *if_empty);
void table_end(struct table_writer *writer);

#endif
