/* ledger.c: see ledger.h. */
#include "amqp/ledger.h"

#include <stdlib.h>
#include <string.h>

#define CAP_LEAST 256

static uint8_t *mark_at(const struct ledger *l, uint64_t number)
{
    return &l->marks[number & (l->cap - 1)];
}

/* What became of one that is outstanding: LEDGER_NONE stands for an open one. */
static enum ledger_mark state_of(const struct ledger *l, uint64_t number)
{
    enum ledger_mark mark = (enum ledger_mark) * mark_at(l, number);
    return mark == LEDGER_NONE && number < l->passed ? LEDGER_ACKED : mark;
}

static void set_mark(struct ledger *l, uint64_t number, enum ledger_mark mark)
{
    uint8_t *at = mark_at(l, number);
    l->marked += mark != LEDGER_NONE;
    l->marked -= *at != LEDGER_NONE;
    *at = (uint8_t)mark;
}

static void add_news(struct ledger *l, uint64_t from, uint64_t to)
{
    bool none = !ledger_has_news(l);
    if (none || from < l->news_from)
        l->news_from = from;
    if (none || to > l->news_to)
        l->news_to = to;
}

static struct ledger_step step_of(const struct ledger *l, uint64_t number, enum ledger_verb verb, bool multiple)
{
    return (struct ledger_step){.tag = number - l->first + 1, .verb = verb, .multiple = multiple};
}

/* The step that tells one settled delivery by itself. */
static struct ledger_step single_of(const struct ledger *l, uint64_t number, enum ledger_mark mark)
{
    enum ledger_verb verb = mark == LEDGER_REJECTED ? LEDGER_REJECT : mark == LEDGER_REQUEUED ? LEDGER_REQUEUE : LEDGER_ACK;
    return step_of(l, number, verb, false);
}

static void leave_up_to(struct ledger *l, uint64_t number)
{
    l->base = number;
    if (l->passed < number)
        l->passed = number;
}

/* Takes the settled ones at the front out of the ring: rejects first, where they stand, then one ack for the rest. */
static size_t take_front(struct ledger *l, struct ledger_step *steps, size_t cap)
{
    size_t count = 0;
    uint64_t run = 0;
    uint64_t last = 0;
    uint64_t at = l->base;
    for (; at < l->end && count + 1 < cap; at++) {
        enum ledger_mark mark = state_of(l, at);
        if (mark == LEDGER_NONE || mark == LEDGER_HELD)
            break;
        if (mark == LEDGER_ACKED && !l->singly) {
            run++;
            last = at;
        } else if (mark != LEDGER_TOLD) {
            steps[count++] = single_of(l, at, mark);
        }
        set_mark(l, at, LEDGER_NONE);
    }
    leave_up_to(l, at);
    if (run > 0)
        steps[count++] = step_of(l, last, LEDGER_ACK, run > 1);
    return count;
}

/* Tells singly what was settled behind an open one. */
static size_t take_behind(struct ledger *l, struct ledger_step *steps, size_t cap)
{
    size_t count = 0;
    uint64_t at = l->news_from > l->base ? l->news_from : l->base;
    for (; at < l->news_to && count < cap; at++) {
        enum ledger_mark mark = state_of(l, at);
        if (mark == LEDGER_NONE || mark == LEDGER_HELD || mark == LEDGER_TOLD)
            continue;
        steps[count++] = single_of(l, at, mark);
        set_mark(l, at, LEDGER_TOLD);
    }
    l->news_from = at;
    return count;
}

void ledger_free(struct ledger *l)
{
    free(l->marks);
}

void ledger_start(struct ledger *l)
{
    if (l->marked > 0)
        memset(l->marks, LEDGER_NONE, l->cap);
    l->marked = 0;
    l->first = l->base = l->passed = l->news_from = l->news_to = l->end;
}

static bool grow(struct ledger *l, uint64_t needed)
{
    size_t cap = l->cap > 0 ? l->cap : CAP_LEAST;
    while (cap < needed)
        cap *= 2;
    uint8_t *marks = calloc(1, cap);
    if (marks == NULL)
        return false;
    for (uint64_t at = l->base; at < l->end; at++)
        marks[at & (cap - 1)] = *mark_at(l, at);
    free(l->marks);
    l->marks = marks;
    l->cap = cap;
    return true;
}

bool ledger_receive(struct ledger *l, uint64_t count)
{
    uint64_t needed = l->end - l->base + count;
    if (needed > l->cap && !grow(l, needed))
        return false;
    l->end += count;
    return true;
}

void ledger_pass(struct ledger *l, uint64_t until)
{
    if (until <= l->passed)
        return;
    add_news(l, l->passed, until);
    l->passed = until;
}

static bool is_open(const struct ledger *l, uint64_t number)
{
    if (number < l->base || number >= l->end)
        return false;
    enum ledger_mark state = state_of(l, number);
    return state == LEDGER_NONE || state == LEDGER_HELD;
}

bool ledger_hold(struct ledger *l, uint64_t number)
{
    if (!is_open(l, number))
        return false;
    set_mark(l, number, LEDGER_HELD);
    return true;
}

bool ledger_settle(struct ledger *l, uint64_t number, enum ledger_mark mark)
{
    if (!is_open(l, number))
        return false;
    set_mark(l, number, mark);
    add_news(l, number, number + 1);
    return true;
}

size_t ledger_take(struct ledger *l, struct ledger_step *steps, size_t cap)
{
    if (!ledger_has_news(l))
        return 0;
    if (l->marked > 0 || l->singly) {
        size_t count = take_front(l, steps, cap);
        return count > 0 ? count : take_behind(l, steps, cap);
    }
    l->news_from = l->news_to;
    if (l->base == l->passed)
        return 0;
    *steps = step_of(l, l->passed - 1, LEDGER_ACK, l->passed - l->base > 1);
    l->base = l->passed;
    return 1;
}

size_t ledger_take_rest(struct ledger *l, struct ledger_step *steps, size_t cap)
{
    size_t count = ledger_take(l, steps, cap);
    if (count > 0)
        return count;
    uint64_t last = l->end;
    while (last > l->base && state_of(l, last - 1) == LEDGER_TOLD)
        last--;
    if (last > l->base)
        steps[count++] = step_of(l, last - 1, LEDGER_RETURN, last - l->base > 1);
    for (uint64_t at = l->base; l->marked > 0 && at < l->end; at++)
        set_mark(l, at, LEDGER_NONE);
    leave_up_to(l, l->end);
    return count;
}
