/* health.c: what liveness and readiness are told. */
#include "base/text.h"
#include "service/subscription.h"

static void count_subscriptions(const coney_broker *broker, coney_app_health *health)
{
    for (const struct subscription *s = broker->subscriptions; s != NULL; s = s->next) {
        health->subscriptions += s->was_opened;
        health->active += s->was_opened && atomic_load(&s->is_active);
    }
}

/* Transports are asked without the lock; one that is being disconnected meanwhile answers for itself. */
static uint64_t count_connected(coney_app *app)
{
    uint64_t count = 0;
    for (coney_broker *broker = app->brokers; broker != NULL; broker = broker->next) {
        lock_acquire(&app->lock);
        bool is_connected = broker->is_connected;
        lock_release(&app->lock);
        count += is_connected && broker->transport->connected(broker->self);
    }
    return count;
}

void coney_app_get_health(const coney_app *app, coney_app_health *health)
{
    if (health == NULL)
        return;
    *health = (coney_app_health){0};
    if (app == NULL)
        return;
    coney_app *own = (coney_app *)(uintptr_t)app; /* its lock is taken, nothing else is changed */
    lock_acquire(&own->lock);
    health->phase = app->status != CONEY_OK ? CONEY_APP_FAILED : app->phase;
    health->status = app->status;
    text_print(health->reason, sizeof health->reason, "%s", app->reason);
    for (const coney_broker *broker = app->brokers; broker != NULL; broker = broker->next) {
        health->brokers++;
        count_subscriptions(broker, health);
    }
    lock_release(&own->lock);
    health->connected = count_connected(own);
}
