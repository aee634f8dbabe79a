/* mistakes.h: what is wrong with an app's description, collected, so that all of it is told at once. */
#ifndef CONEY_SERVICE_MISTAKES_H
#define CONEY_SERVICE_MISTAKES_H

#include <coney/coney.h>

struct mistakes {
    const char
        *subject; /* "subscription 'orders'", "publisher 'receipts'", "broker 'amqp'": set by whoever goes through them */
    size_t count;
    char *text; /* all of them, one a line, grows; NULL when there are none or memory is out */
    size_t len;
    size_t cap;
};

/* Adds "SUBJECT: FIELD: sentence". The sentence says what was given, what is wrong with it and what would be right. */
void mistake(struct mistakes *mistakes, const char *field, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Adds all of `from`, as it stands. */
void mistakes_join(struct mistakes *mistakes, const struct mistakes *from);

void mistakes_free(struct mistakes *mistakes);

#endif
