/* options.c: the command line against the table. */
#include "options.h"

#include <stdio.h>
#include <string.h>

struct reader {
    const struct command *command;
    struct settings *settings;
    char *error;
    size_t error_cap;
};

#define REFUSE(reader, ...) (snprintf((reader)->error, (reader)->error_cap, __VA_ARGS__), false)

static const struct option *find_in(const struct option *list, const char *name, size_t len)
{
    for (; list->name != NULL; list++)
        if (strlen(list->name) == len && memcmp(list->name, name, len) == 0)
            return list;
    return NULL;
}

const struct option *option_find(const struct command *command, const char *name, size_t name_len)
{
    const struct option *found = find_in(command->options, name, name_len);
    return found != NULL ? found : find_in(common_options, name, name_len);
}

static const struct option *find_letter(const struct option *list, char letter)
{
    for (; list->name != NULL; list++)
        if (list->letter == letter)
            return list;
    return NULL;
}

static bool put_number(struct reader *r, const struct option *option, const char *text, const char *wrong, int64_t number)
{
    if (wrong != NULL)
        return REFUSE(r, "--%s '%s': %s", option->name, text, wrong);
    if (number < option->min)
        return REFUSE(r, "--%s '%s' is too small", option->name, text);
    if (option->max > 0 && number > option->max)
        return REFUSE(r, "--%s '%s' is too large", option->name, text);
    *(int64_t *)(void *)((char *)r->settings + option->field) = number;
    return true;
}

static bool put_word(struct reader *r, const struct option *option, const char *text)
{
    char all[128] = "";
    for (int64_t i = 0; option->words[i] != NULL; i++) {
        if (strcmp(option->words[i], text) == 0)
            return put_number(r, option, text, NULL, i);
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i == 0 ? "" : ", ", option->words[i]);
    }
    return REFUSE(r, "--%s '%s': one of %s is expected", option->name, text, all);
}

static bool put_field(struct reader *r, const struct option *option, const char *text, struct fields *fields)
{
    if (fields->count == sizeof fields->items / sizeof fields->items[0])
        return REFUSE(r, "--%s '%s' is one too many", option->name, text);
    const char *wrong = units_field(text, &fields->items[fields->count]);
    if (wrong != NULL)
        return REFUSE(r, "--%s '%s': %s", option->name, text, wrong);
    fields->count++;
    return true;
}

/* `text` is NULL for what takes no value. */
static bool put(struct reader *r, const struct option *option, const char *text)
{
    char *field = (char *)r->settings + option->field;
    const char *wrong;
    int64_t number = 0;
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)field = true;
        return true;
    case OPTION_UNFLAG:
        *(bool *)field = false;
        return true;
    case OPTION_CHOICE:
        *(int64_t *)(void *)field = option->min;
        return true;
    case OPTION_TEXT:
    case OPTION_FILE:
        if (*text == '\0')
            return REFUSE(r, "--%s is empty", option->name);
        *(const char **)(void *)field = text;
        return true;
    case OPTION_BYTES:
        *(coney_bytes *)(void *)field = coney_bytes_str(text);
        return true;
    case OPTION_COUNT:
        wrong = units_count(text, &number);
        return put_number(r, option, text, wrong, number);
    case OPTION_SIZE:
        wrong = units_size(text, &number);
        return put_number(r, option, text, wrong, number);
    case OPTION_DURATION:
        wrong = units_duration(text, &number);
        return put_number(r, option, text, wrong, number);
    case OPTION_WORD:
        return put_word(r, option, text);
    case OPTION_PLACE:
        wrong = units_place(text, (struct place *)(void *)field);
        return wrong == NULL || REFUSE(r, "--%s '%s': %s", option->name, text, wrong);
    case OPTION_FIELD:
        return put_field(r, option, text, (struct fields *)(void *)field);
    }
    return false;
}

static bool put_defaults(struct reader *r, const struct option *list)
{
    for (; list->name != NULL; list++)
        if (list->fallback != NULL && !put(r, list, list->fallback))
            return false;
    return true;
}

static bool read_letters(struct reader *r, const char *word)
{
    for (const char *letter = word + 1; *letter != '\0'; letter++) {
        const struct option *option = find_letter(r->command->options, *letter);
        if (option == NULL)
            option = find_letter(common_options, *letter);
        if (option == NULL || option->value != NULL)
            return REFUSE(r, "there is no option '-%c'", *letter);
        put(r, option, NULL);
    }
    return true;
}

/* Reads the option at words[*at]; leaves *at on the last word that belongs to it. */
static bool read_option(struct reader *r, char *const *words, int count, int *at)
{
    const char *name = words[*at] + 2;
    const char *equals = strchr(name, '=');
    size_t len = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const struct option *option = option_find(r->command, name, len);
    if (option == NULL)
        return REFUSE(r, "there is no option '--%.*s'", (int)len, name);
    if (option->value == NULL)
        return equals == NULL ? put(r, option, NULL) : REFUSE(r, "--%s takes no value", option->name);
    if (equals != NULL)
        return put(r, option, equals + 1);
    if (*at + 1 >= count)
        return REFUSE(r, "--%s needs a value (%s)", option->name, option->value);
    ++*at;
    return put(r, option, words[*at]);
}

bool options_parse(const struct command *command, char *const *words, int count, struct settings *settings, char *error,
                   size_t error_cap)
{
    struct reader r = {command, settings, error, error_cap};
    *settings = (struct settings){0};
    if (!put_defaults(&r, command->options) || !put_defaults(&r, common_options))
        return false;
    const char *operand = NULL;
    bool only_operands = false;
    for (int i = 0; i < count; i++) {
        if (only_operands || words[i][0] != '-' || words[i][1] == '\0') {
            if (command->operand == NULL || operand != NULL)
                return REFUSE(&r, "'%s' is one word too many", words[i]);
            operand = words[i];
        } else if (strcmp(words[i], "--") == 0) {
            only_operands = true;
        } else if (words[i][1] == '-' ? !read_option(&r, words, count, &i) : !read_letters(&r, words[i])) {
            return false;
        }
    }
    if (command->operand == NULL || settings->help)
        return true;
    if (operand != NULL && *operand != '\0')
        *(const char **)(void *)((char *)settings + command->operand_field) = operand;
    else if (command->operand[0] != '[')
        return REFUSE(&r, "%s is missing", command->operand);
    return true;
}
