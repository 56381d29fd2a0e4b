/* SPDX-License-Identifier: Apache-2.0 */
/* Tables as text and as JSON. No state of its own. */
#include "launcher/table.h"

#include "launcher/xalloc.h"

static size_t count_columns(const struct table *table)
{
    size_t n = 0;

    while (n < TABLE_MAX_COLUMNS && table->columns[n].name != NULL) {
        n++;
    }
    return n;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0' &&
           (text[0] != '0' || text[1] == '\0');
}

void table_add(struct table *table, const char *const *cells)
{
    size_t n = count_columns(table);
    char **row = x_calloc(n, sizeof(*row));

    for (size_t i = 0; i < n; i++) {
        const char *cell = cells[i] != NULL ? cells[i] : "";

        row[i] = x_strdup(table->columns[i].type == TABLE_NUMBER && !is_number(cell) ? "" : cell);
    }
    table->rows = x_array(table->rows, table->n_rows + 1, sizeof(*table->rows));
    table->rows[table->n_rows++] = row;
}

/* The cells of a row in a line, with tabs between them. */
static bool add_cells(struct table *table, char *line)
{
    const char *cells[TABLE_MAX_COLUMNS] = {NULL};
    size_t n = count_columns(table);

    for (size_t i = 0; i < n; i++) {
        cells[i] = strsep(&line, "\t");
        if ((line == NULL) != (i + 1 == n)) {
            return false;
        }
    }
    table_add(table, cells);
    return true;
}

bool table_add_line(struct table *tables, size_t n_tables, char *line)
{
    const char *name = strsep(&line, "\t");

    for (size_t i = 0; line != NULL && i < n_tables; i++) {
        if (strcmp(tables[i].name, name) == 0) {
            return add_cells(&tables[i], line);
        }
    }
    return false;
}

char *table_cell(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        *c = *c == '\t' || *c == '\n' ? ' ' : *c;
    }
    return text;
}

const char *table_number(uint64_t number, char text[TABLE_NUMBER_NBYTES])
{
    text[0] = '\0';
    if (number > 0) {
        snprintf(text, TABLE_NUMBER_NBYTES, "%llu", (unsigned long long)number);
    }
    return text;
}

void table_free(struct table *table)
{
    for (size_t i = 0; i < table->n_rows; i++) {
        for (size_t j = count_columns(table); j-- > 0;) {
            free(table->rows[i][j]);
        }
        free(table->rows[i]);
    }
    free(table->rows);
    table->rows = NULL;
    table->n_rows = 0;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Columns on a terminal: the number of bytes that begin a character. */
static size_t text_width(const char *text)
{
    size_t width = 0;

    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return width;
}

/* Print a text, with ? for control characters, which no terminal should get. */
static void text_put(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, out);
    }
}

/* A line of cells; `row` NULL: the titles of the columns. */
static void text_row(FILE *out, const struct table *table, char *const *row, const size_t *widths)
{
    size_t n = count_columns(table), blanks = 2;

    for (size_t i = 0; i < n; i++) {
        const char *cell = row != NULL ? row[i] : table->columns[i].title;
        size_t width = text_width(cell);
        bool is_right = table->columns[i].type == TABLE_NUMBER;

        /* No blanks at the end of the line. */
        if (width > 0) {
            fprintf(out, "%*s", (int)(blanks + (is_right ? widths[i] - width : 0)), "");
            text_put(out, cell);
            blanks = 2 + (is_right ? 0 : widths[i] - width);
        } else {
            blanks += 2 + widths[i];
        }
    }
    fputc('\n', out);
}

static void text_table(FILE *out, const struct table *table, const char *if_empty)
{
    size_t widths[TABLE_MAX_COLUMNS] = {0};
    size_t n = count_columns(table);

    fprintf(out, "\n%s\n", table->name);
    if (table->n_rows == 0) {
        fprintf(out, "  %s\n", if_empty);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        widths[i] = text_width(table->columns[i].title);
        for (size_t j = 0; j < table->n_rows; j++) {
            size_t width = text_width(table->rows[j][i]);

            widths[i] = width > widths[i] ? width : widths[i];
        }
    }
    text_row(out, table, NULL, widths);
    for (size_t j = 0; j < table->n_rows; j++) {
        text_row(out, table, table->rows[j], widths);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Bytes of the UTF-8 character at `text`; 0: it is not valid. */
static size_t utf8_nbytes(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    size_t nbytes = c[0] < 0x80 ? 1 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code = c[0] & (0xffu >> (nbytes + 1));

    if (nbytes == 1) {
        return 1;
    }
    if (c[0] < 0xc0 || c[0] > 0xf4) {
        return 0;
    }
    for (size_t i = 1; i < nbytes; i++) {
        if ((c[i] & 0xc0) != 0x80) {
            return 0;
        }
        code = code << 6 | (c[i] & 0x3fu);
    }
    return code < lowest[nbytes] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0
                                                                                         : nbytes;
}

static void json_text(FILE *out, const char *text)
{
    fputc('"', out);
    while (*text != '\0') {
        size_t nbytes = utf8_nbytes(text);

        if (nbytes == 0) {
            fputs("\\ufffd", out);
            nbytes = 1;
        } else if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            fprintf(out, "\\u%04x", (unsigned char)*text);
        } else {
            if (*text == '"' || *text == '\\') {
                fputc('\\', out);
            }
            fwrite(text, 1, nbytes, out);
        }
        text += nbytes;
    }
    fputc('"', out);
}

static void json_cell(FILE *out, enum table_type type, const char *cell)
{
    if (type == TABLE_TEXT) {
        json_text(out, cell);
    } else if (cell[0] == '\0') {
        fputs("null", out);
    } else if (type == TABLE_FLAG) {
        fputs(strcmp(cell, "yes") == 0 ? "true" : "false", out);
    } else {
        fputs(cell, out);
    }
}

static void json_table(FILE *out, const struct table *table)
{
    size_t n = count_columns(table);

    fputs(",\n  ", out);
    json_text(out, table->name);
    fputs(": [", out);
    for (size_t j = 0; j < table->n_rows; j++) {
        fputs(j > 0 ? ",\n    {" : "\n    {", out);
        for (size_t i = 0; i < n; i++) {
            fputs(i > 0 ? ", " : "", out);
            json_text(out, table->columns[i].name);
            fputs(": ", out);
            json_cell(out, table->columns[i].type, table->rows[j][i]);
        }
        fputc('}', out);
    }
    fputs(table->n_rows > 0 ? "\n  ]" : "]", out);
}

/* ---- both ------------------------------------------------------------------------------------ */

void table_begin(struct table_writer *writer, const char *name, const char *value)
{
    if (writer->is_json) {
        fputs("{\n  ", writer->out);
        json_text(writer->out, name);
        fputs(": ", writer->out);
        json_text(writer->out, value);
    } else {
        fprintf(writer->out, "%s %s\n", name, value);
    }
}

void table_write(struct table_writer *writer, const struct table *table, const char *if_empty)
{
    if (writer->is_json) {
        json_table(writer->out, table);
    } else {
        text_table(writer->out, table, if_empty);
    }
}

void table_end(struct table_writer *writer)
{
    if (writer->is_json) {
        fputs("\n}\n", writer->out);
    }
}
