/* stop_fixture.h: an app with one subscription, whose handlers wait at a gate, and who delivers to it or stops it from threads of their own. */
#ifndef CONEY_SERVICE_STOP_FIXTURE_H
#define CONEY_SERVICE_STOP_FIXTURE_H

#include "service/dispatch.h"
#include "service/service_fixture.h"

#include <unistd.h>

/* A gate that handlers wait at, and a count of those who do. */
FIXTURE struct {
    struct lock lock;
    struct cond changed;
    int inside;
    bool is_open;
} gate;

FIXTURE void gate_close(void)
{
    gate.inside = 0;
    gate.is_open = false;
}

FIXTURE void gate_open(void)
{
    lock_acquire(&gate.lock);
    gate.is_open = true;
    cond_wake_all(&gate.changed);
    lock_release(&gate.lock);
}

FIXTURE void gate_await_inside(int count)
{
    int64_t deadline = time_after(time_now(), FAKE_PATIENCE);
    lock_acquire(&gate.lock);
    while (gate.inside < count)
        if (!cond_wait(&gate.changed, &gate.lock, deadline))
            fail_msg("%d of %d handlers are inside", gate.inside, count);
    lock_release(&gate.lock);
}

FIXTURE coney_settle wait_at_the_gate(coney_delivery *d, coney_bytes body)
{
    (void)d;
    (void)body;
    int64_t deadline = time_after(time_now(), FAKE_PATIENCE);
    lock_acquire(&gate.lock);
    gate.inside++;
    cond_wake_all(&gate.changed);
    while (!gate.is_open && cond_wait(&gate.changed, &gate.lock, deadline))
        ;
    lock_release(&gate.lock);
    return CONEY_ACK;
}
CONEY_RAW_HANDLER(wait_at_the_gate);

FIXTURE coney_status stop_status;

FIXTURE coney_kept *kept;

FIXTURE coney_settle keep(coney_delivery *d, coney_bytes body)
{
    (void)body;
    kept = coney_delivery_keep(d);
    return CONEY_KEPT;
}
CONEY_RAW_HANDLER(keep);

/* An app with one subscription, "orders". */
struct scene {
    struct fake fake;
    coney_app *app;
};

FIXTURE void begin(struct scene *scene, const coney_app_options *options, const coney_subscription *subscription)
{
    memset(scene, 0, sizeof *scene);
    gate_close();
    stop_status = CONEY_OK;
    scene->app = coney_app_new("orders", "1.0.0");
    if (options != NULL)
        coney_app_configure(scene->app, options);
    coney_subscription orders = *subscription;
    coney_source source = CONEY_QUEUE("orders");
    orders.source = source;
    coney_subscribe(fake_broker(scene->app, &scene->fake), &orders);
    coney_call call = {0};
    if (coney_app_start(scene->app, &call) != CONEY_OK)
        fail_msg("%s", call.text);
}

FIXTURE void end(struct scene *scene)
{
    coney_app_free(&scene->app);
    assert_true(scene->fake.is_freed);
}

struct courier {
    struct scene *scene;
    struct fake_message m;
    coney_settle how;
    pthread_t thread;
};

FIXTURE void *bring(void *arg)
{
    struct courier *courier = arg;
    courier->how = fake_deliver(&courier->scene->fake, "orders", &courier->m);
    return NULL;
}

/* On a thread of its own, as clients deliver. */
FIXTURE void send_courier(struct courier *courier, struct scene *scene)
{
    *courier = (struct courier){.scene = scene, .m = {.body = CONEY_STR("x")}};
    assert_int_equal(pthread_create(&courier->thread, NULL, bring, courier), 0);
}

struct stopper {
    coney_app *app;
    coney_call call;
    coney_status status;
    _Atomic bool is_done;
    pthread_t thread;
};

FIXTURE void *stop_it(void *arg)
{
    struct stopper *stopper = arg;
    stopper->status = coney_app_stop(stopper->app, &stopper->call);
    atomic_store(&stopper->is_done, true);
    return NULL;
}

FIXTURE void send_stopper(struct stopper *stopper, coney_app *app)
{
    *stopper = (struct stopper){.app = app};
    assert_int_equal(pthread_create(&stopper->thread, NULL, stop_it, stopper), 0);
}

FIXTURE void await_phase(coney_app *app, coney_app_phase phase)
{
    coney_app_health health = {0};
    int64_t deadline = time_after(time_now(), FAKE_PATIENCE);
    for (coney_app_get_health(app, &health); health.phase != phase; coney_app_get_health(app, &health)) {
        if (time_now() > deadline)
            fail_msg("the app is in phase %d, expected %d", (int)health.phase, (int)phase);
        usleep(1000);
    }
}

/* Until no handler starts any more. */
FIXTURE void await_halted(struct scene *scene)
{
    const struct subscription *s = app_subscription(scene->app, "orders");
    int64_t deadline = time_after(time_now(), FAKE_PATIENCE);
    while (!dispatch_is_halted(s->dispatch)) {
        if (time_now() > deadline)
            fail_msg("handlers still start");
        usleep(1000);
    }
}

#endif
