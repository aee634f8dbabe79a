/* Scripted brokers: the log of what arrived, rules for it, and what tests wait for. */
#define _GNU_SOURCE
#include "burrow.h"

/* Rules ---------------------------------------------------------------------------------------------------------- */

void burrow_add_rule(struct burrow *burrow, const struct burrow_rule *rule)
{
    burrow_lock(burrow);
    burrow->rules = burrow_grow(burrow->rules, burrow->rule_count, &burrow->rule_cap, sizeof *burrow->rules);
    struct burrow_rule *added = &burrow->rules[burrow->rule_count++];
    *added = *rule;
    added->raw = malloc(rule->raw_len + 1);
    assert_non_null(added->raw);
    if (rule->raw_len > 0)
        memcpy(added->raw, rule->raw, rule->raw_len);
    burrow_unlock(burrow);
}

void burrow_forget_rules(struct burrow *burrow, uint32_t key)
{
    burrow_lock(burrow);
    size_t kept = 0;
    for (size_t i = 0; i < burrow->rule_count; i++) {
        if (burrow->rules[i].key == key)
            free(burrow->rules[i].raw);
        else
            burrow->rules[kept++] = burrow->rules[i];
    }
    burrow->rule_count = kept;
    burrow_unlock(burrow);
}

static const struct burrow_rule *rule_for(struct burrow *burrow, uint32_t key)
{
    const struct burrow_rule *found = NULL;
    for (size_t i = 0; i < burrow->rule_count; i++) {
        struct burrow_rule *rule = &burrow->rules[i];
        if (rule->key != key)
            continue;
        rule->seen++;
        if (rule->nth == PEER_EVERY || rule->nth == rule->seen)
            found = rule;
    }
    return found;
}

static void apply(struct burrow *burrow, const struct burrow_rule *rule, struct burrow_entry *entry)
{
    struct burrow_rule r = *rule; /* a function may add rules */
    int connection = burrow->kind->connection_of(entry);
    switch (r.action) {
    case BURROW_ANSWER:
        burrow->kind->answer(burrow, &r, entry);
        break;
    case BURROW_IGNORE:
        break;
    case BURROW_CUT:
        burrow_hang_up(burrow, connection, r.how);
        break;
    case BURROW_HOLD:
        entry->held = true;
        break;
    case BURROW_RAW:
        burrow_send(burrow, connection, coney_bytes_of(r.raw, r.raw_len));
        break;
    case BURROW_CALL:
        if (!burrow->kind->call(burrow, &r, entry))
            burrow->kind->treat(burrow, entry);
        break;
    }
}

void burrow_release(struct burrow *burrow, uint32_t key)
{
    burrow_lock(burrow);
    burrow_forget_rules(burrow, key);
    for (size_t i = 0; i < burrow->log_count; i++) {
        struct burrow_entry *entry = burrow->log[i];
        if (entry->held && entry->key == key) {
            entry->held = false;
            burrow->kind->treat(burrow, entry);
        }
    }
    burrow_wake(burrow);
    burrow_unlock(burrow);
}

/* The log -------------------------------------------------------------------------------------------------------- */

static struct burrow_tally *tally_of(struct burrow *burrow, uint32_t key)
{
    for (size_t i = 0; i < burrow->tally_count; i++)
        if (burrow->tallies[i].key == key)
            return &burrow->tallies[i];
    burrow->tallies = burrow_grow(burrow->tallies, burrow->tally_count, &burrow->tally_cap, sizeof *burrow->tallies);
    burrow->tallies[burrow->tally_count] = (struct burrow_tally){.key = key};
    return &burrow->tallies[burrow->tally_count++];
}

void burrow_log(struct burrow *burrow, struct burrow_entry *entry)
{
    burrow->log = burrow_grow(burrow->log, burrow->log_count, &burrow->log_cap, sizeof(struct burrow_entry *));
    burrow->log[burrow->log_count++] = entry;
    if (entry->asked)
        tally_of(burrow, entry->key)->count++;
    pthread_cond_broadcast(&burrow->changed);
}

void burrow_treat(struct burrow *burrow, struct burrow_entry *entry)
{
    const struct burrow_rule *rule = entry->asked ? rule_for(burrow, entry->key) : NULL;
    if (rule != NULL)
        apply(burrow, rule, entry);
    else
        burrow->kind->treat(burrow, entry);
    pthread_cond_broadcast(&burrow->changed);
}

static void print_log(struct burrow *burrow)
{
    burrow_lock(burrow);
    size_t from = burrow->log_count > 40 ? burrow->log_count - 40 : 0;
    for (size_t i = from; i < burrow->log_count; i++) {
        const struct burrow_entry *entry = burrow->log[i];
        fprintf(stderr, "  peer %s: connection %d sent %s%s\n", burrow->address, burrow->kind->connection_of(entry),
                burrow->kind->name(entry->key), entry->asked ? "" : " (answer)");
    }
    burrow_unlock(burrow);
}

/* Waiting -------------------------------------------------------------------------------------------------------- */

bool burrow_wait(struct burrow *burrow, int64_t until)
{
    struct timespec at = {.tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000};
    return pthread_cond_timedwait(&burrow->changed, &burrow->mutex, &at) == 0 || now_ms() < until;
}

static const struct burrow_entry *expected_next(struct burrow *burrow, uint32_t key)
{
    struct burrow_tally *tally = tally_of(burrow, key);
    while (tally->expected < burrow->log_count) {
        const struct burrow_entry *entry = burrow->log[tally->expected++];
        if (entry->key == key && entry->asked)
            return entry;
    }
    return NULL;
}

const struct burrow_entry *burrow_wait_for(struct burrow *burrow, uint32_t key, int64_t ms)
{
    int64_t until = now_ms() + scaled_ms(ms);
    burrow_lock(burrow);
    const struct burrow_entry *entry;
    bool more = true;
    while ((entry = expected_next(burrow, key)) == NULL && more)
        more = burrow_wait(burrow, until);
    burrow_unlock(burrow);
    return entry;
}

const struct burrow_entry *burrow_expect(struct burrow *burrow, uint32_t key)
{
    const struct burrow_entry *entry = burrow_wait_for(burrow, key, SUPPORT_PATIENCE);
    if (entry == NULL) {
        print_log(burrow);
        fail_msg("the peer waited in vain for %s", burrow->kind->name(key));
    }
    return entry;
}

size_t burrow_count(struct burrow *burrow, uint32_t key)
{
    burrow_lock(burrow);
    size_t count = tally_of(burrow, key)->count;
    burrow_unlock(burrow);
    return count;
}

const struct burrow_entry *burrow_nth(struct burrow *burrow, uint32_t key, size_t n)
{
    const struct burrow_entry *found = NULL;
    burrow_lock(burrow);
    for (size_t i = 0; i < burrow->log_count && found == NULL; i++) {
        const struct burrow_entry *entry = burrow->log[i];
        if (entry->key == key && entry->asked && n-- == 0)
            found = entry;
    }
    burrow_unlock(burrow);
    return found;
}

bool burrow_reaches_count(struct burrow *burrow, uint32_t key, size_t count, int64_t ms)
{
    int64_t until = now_ms() + scaled_ms(ms);
    burrow_lock(burrow);
    bool more = true;
    while (tally_of(burrow, key)->count < count && more)
        more = burrow_wait(burrow, until);
    bool reached = tally_of(burrow, key)->count >= count;
    burrow_unlock(burrow);
    return reached;
}

void burrow_wait_count(struct burrow *burrow, uint32_t key, size_t count)
{
    if (!burrow_reaches_count(burrow, key, count, SUPPORT_PATIENCE)) {
        print_log(burrow);
        fail_msg("the peer has got %zu %s, and waited for %zu", burrow_count(burrow, key), burrow->kind->name(key), count);
    }
}

size_t burrow_accepted(struct burrow *burrow)
{
    burrow_lock(burrow);
    size_t count = burrow->connection_count;
    burrow_unlock(burrow);
    return count;
}

size_t burrow_open_connections(struct burrow *burrow)
{
    size_t open = 0;
    burrow_lock(burrow);
    for (size_t i = 0; i < burrow->connection_count; i++)
        open += burrow->connections[i]->fd >= 0;
    burrow_unlock(burrow);
    return open;
}

void burrow_wait_open(struct burrow *burrow, size_t count)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    burrow_lock(burrow);
    bool more = true;
    while (burrow_open_connections(burrow) != count && more)
        more = burrow_wait(burrow, until);
    burrow_unlock(burrow);
    if (burrow_open_connections(burrow) != count)
        fail_msg("the peer has %zu open connections, and waited for %zu", burrow_open_connections(burrow), count);
}
