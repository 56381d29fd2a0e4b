/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints help from the table of options and the texts of the topics. Another topic, "completion",
 * serves the shell's completion: a line for each name of an option, with what may follow it.
 */
#include "launcher/help.h"
#include "launcher/help_topics.h"
#include "launcher/option_table.h"
#include "launcher/values.h"

#include <stdbool.h>
#include <string.h>

enum { COLUMNS = 79, BRIEF_COLUMN = 34, HELP_COLUMN = 6, ALL_NAMES = 9 };

/* Write the first names of an option and its value into `text`: "-n, -np, --ntasks N". */
static void format_names(const struct option *option, int most, char *text, size_t text_nbytes)
{
    const char *name = option->names;
    size_t used = 0;

    for (int i = 0; i < most && *name != '\0'; i++) {
        size_t nbytes = strcspn(name, " ");

        used += (size_t)snprintf(text + used, text_nbytes - used, "%s%s%.*s", used > 0 ? ", " : "",
                                 option_dashes(name, nbytes), (int)nbytes, name);
        name += nbytes;
        name += *name == ' ';
    }
    if (option->arg != NULL) {
        snprintf(text + used, text_nbytes - used, " %s", option->arg);
    }
}

/* Print a text, wrapped, in lines that begin at a column. */
static void print_wrapped(FILE *out, const char *text, int column)
{
    int at = 0;

    while (*text != '\0') {
        int nbytes = (int)strcspn(text, " ");

        if (at > 0 && at + 1 + nbytes > COLUMNS) {
            fputc('\n', out);
            at = 0;
        }
        at += fprintf(out, "%*s%.*s", at == 0 ? column : 1, "", nbytes, text);
        text += nbytes;
        text += *text == ' ';
    }
    fputc('\n', out);
}

static void print_option(FILE *out, const struct option *option)
{
    char names[96];

    format_names(option, ALL_NAMES, names, sizeof(names));
    fprintf(out, "  %s\n", names);
    print_wrapped(out, option->help, HELP_COLUMN);
}

enum { TOPIC_NAMES_NBYTES = 256 };

static const char *topic_names(const char *joint, char text[TOPIC_NAMES_NBYTES])
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < help_topic_count; i++) {
        used += (size_t)snprintf(text + used, TOPIC_NAMES_NBYTES - used, "%s%s", i > 0 ? joint : "",
                                 help_topics[i].name);
    }
    return text;
}

static void print_brief(FILE *out)
{
    char topics[TOPIC_NAMES_NBYTES], more[TOPIC_NAMES_NBYTES + 64];

    fputs("Usage: nixlrun [options] program [args] [: [options] program [args]] ...\n"
          "Start a job: ranks of one or more programs that put, get and notify.\n\n",
          out);
    for (size_t i = 0; i < option_count; i++) {
        const struct option *option = &option_table[i];
        char names[96];

        if (option->brief != NULL) {
            format_names(option, option->names[1] == ' ' ? 2 : 1, names, sizeof(names));
            fprintf(out, "  %-*s%s\n", BRIEF_COLUMN - 2, names, option->brief);
        }
    }
    fputs("\n", out);
    snprintf(more, sizeof(more), "More: nixlrun --help TOPIC, with %s", topic_names(", ", topics));
    print_wrapped(out, more, 0);
}

static void print_topic(FILE *out, const struct help_topic *topic)
{
    bool is_all = strcmp(topic->name, "options") == 0;
    bool is_first = true;

    fputs(topic->before, out);
    for (size_t i = 0; i < option_count; i++) {
        if (is_all || strcmp(option_table[i].topic, topic->name) == 0) {
            fputs(is_first ? "\n" : "", out);
            is_first = false;
            print_option(out, &option_table[i]);
        }
    }
    if (topic->after[0] != '\0') {
        fprintf(out, "\n%s", topic->after);
    }
}

/* A line per name: the name, "job" or "program", the kind of value, and its fixed words. */
static void print_completion(FILE *out)
{
    char topics[TOPIC_NAMES_NBYTES];

    for (size_t i = 0; i < option_count; i++) {
        const struct option *option = &option_table[i];
        const char *words = option->id == OPTION_HELP         ? topic_names(" ", topics)
                            : option->value == VALUE_ATTACHED ? NULL
                                                              : option->words;
        bool has_word = option->value == VALUE_NEEDED || option->value == VALUE_OPTIONAL;
        const char *kind = !has_word                  ? "none"
                           : option->complete != NULL ? option->complete
                           : words != NULL            ? "words"
                                                      : "text";

        for (const char *name = option->names; *name != '\0';) {
            size_t nbytes = strcspn(name, " ");

            fprintf(out, "%s%.*s %s %s%s%s\n", option_dashes(name, nbytes), (int)nbytes, name,
                    option->scope == SCOPE_JOB ? "job" : "program", kind, words != NULL ? " " : "",
                    words != NULL ? words : "");
            name += nbytes;
            name += *name == ' ';
        }
    }
}

int help_print(FILE *out, const char *topic, char *why, size_t why_nbytes)
{
    char shown[VALUE_SHOWN_NBYTES], topics[TOPIC_NAMES_NBYTES];

    if (topic == NULL) {
        print_brief(out);
        return 0;
    }
    if (strcmp(topic, "completion") == 0) {
        print_completion(out);
        return 0;
    }
    for (size_t i = 0; i < help_topic_count; i++) {
        if (strcmp(topic, help_topics[i].name) == 0) {
            print_topic(out, &help_topics[i]);
            return 0;
        }
    }
    snprintf(why, why_nbytes, "--help %s: no such topic; allowed: %s", value_show(topic, shown),
             topic_names(", ", topics));
    return -1;
}
