/* app.c: the description of an app: what it is made of, copied into its own memory. */
#include "service/app.h"

#include "base/fork.h"
#include "base/text.h"
#include "service/publisher.h"

#include <stdlib.h>

/* The app ----------------------------------------------------------------------------------------------------------------- */

static void fill_in_options(coney_app *app)
{
    coney_app_options *options = &app->options;
    options->id = app_copy_text(app, options->id);
    options->description = app_copy_text(app, options->description);
    if (options->codec == NULL)
        options->codec = coney_json();
    if (options->drain_timeout == 0)
        options->drain_timeout = 30 * CONEY_SECOND;
    if (options->handler_limit == 0)
        options->handler_limit = 10 * CONEY_SECOND;
    if (options->log_level == 0)
        options->log_level = CONEY_LOG_INFO;
    app->log = (struct log){.fn = options->on_log, .ctx = options->log_ctx, .level = options->log_level};
}

coney_app *coney_app_new(const char *title, const char *version)
{
    coney_app *app = calloc(1, sizeof *app);
    if (app == NULL)
        return NULL;
    app->memory = coney_arena_new();
    if (app->memory == NULL) {
        free(app);
        return NULL;
    }
    app->built.subject = "app";
    app->born = fork_generation();
    sem_init(&app->stopping, 0, 0);
    app->title = app_copy_text(app, title);
    app->version = app_copy_text(app, version);
    fill_in_options(app);
    return app;
}

bool app_may_change(coney_app *app, const char *what)
{
    lock_acquire(&app->lock);
    bool may = app->phase == CONEY_APP_NEW || app->phase == CONEY_APP_STOPPED;
    lock_release(&app->lock);
    if (!may)
        app_log(app, CONEY_LOG_ERROR, "%s: the app runs: what it is made of is described before its start; nothing was changed",
                what);
    return may;
}

/* Whether something was described already. */
static bool has_content(const coney_app *app)
{
    for (size_t stage = 0; stage < sizeof app->hooks / sizeof app->hooks[0]; stage++)
        if (app->hooks[stage] != NULL)
            return true;
    return app->brokers != NULL || app->middlewares.count > 0 || app->publish_middleware_count > 0;
}

void coney_app_configure_sized(coney_app *app, const coney_app_options *options, size_t options_size)
{
    if (app == NULL || !app_may_change(app, "coney_app_configure"))
        return;
    if (app->was_configured || has_content(app))
        mistake(&app->built, "options", "coney_app_configure was called %s: call it once, before everything else",
                app->was_configured ? "twice" : "after something had been described");
    app->was_configured = true;
    if (!app_take_options(&app->options, sizeof app->options, options, options_size))
        mistake(&app->built, "options", NEWER_TEXT);
    if (app->options.state != NULL)
        atomic_store(&app->state, app->options.state);
    fill_in_options(app);
}

void *coney_app_state(const coney_app *app)
{
    return app != NULL ? atomic_load_explicit(&app->state, memory_order_acquire) : NULL;
}

void coney_app_set_state(coney_app *app, void *state)
{
    if (app != NULL)
        atomic_store_explicit(&app->state, state, memory_order_release);
}

void coney_app_on(coney_app *app, coney_stage stage, coney_status (*hook)(coney_app *app, void *ctx, coney_call *call),
                  void *ctx)
{
    if (app == NULL || !app_may_change(app, "coney_app_on"))
        return;
    if ((unsigned)stage > CONEY_AFTER_STOP) {
        mistake(&app->built, "hook",
                "%d is no stage: CONEY_BEFORE_START, CONEY_AFTER_START, CONEY_BEFORE_STOP or CONEY_AFTER_STOP", (int)stage);
        return;
    }
    if (hook == NULL) {
        mistake(&app->built, "hook", "a hook of coney_app_on is NULL");
        return;
    }
    struct hook *added = app_copy_bytes(app, NULL, sizeof *added);
    if (added == NULL)
        return;
    *added = (struct hook){.run = hook, .ctx = ctx};
    struct hook **end = &app->hooks[stage];
    while (*end != NULL)
        end = &(*end)->next;
    *end = added;
}

bool middlewares_add(coney_app *app, struct middlewares *list, coney_around_fn around, void *ctx)
{
    struct middleware *items = app_copy_bytes(app, NULL, (list->count + 1) * sizeof *items);
    if (items == NULL)
        return false;
    if (list->count > 0)
        memcpy(items, list->items, list->count * sizeof *items);
    items[list->count] = (struct middleware){.around = around, .ctx = ctx};
    *list = (struct middlewares){.items = items, .count = list->count + 1};
    return true;
}

void coney_app_use(coney_app *app, coney_around_fn around, void *ctx)
{
    if (app == NULL || !app_may_change(app, "coney_app_use"))
        return;
    if (around == NULL)
        mistake(&app->built, "middleware", "a function of coney_app_use is NULL");
    else
        middlewares_add(app, &app->middlewares, around, ctx);
}

struct subscription *app_subscription(const coney_app *app, const char *name)
{
    for (const coney_broker *broker = app->brokers; name != NULL && broker != NULL; broker = broker->next)
        for (struct subscription *s = broker->subscriptions; s != NULL; s = s->next)
            if (strcmp(s->name, name) == 0)
                return s;
    return NULL;
}

static void broker_free(coney_broker *broker)
{
    while (broker->publishers != NULL) {
        coney_publisher *publisher = broker->publishers;
        broker->publishers = publisher->next;
        publisher_free(publisher);
    }
    broker->transport->free(broker->self);
}

void coney_app_free(coney_app **app)
{
    if (app == NULL || *app == NULL)
        return;
    coney_app *gone = *app;
    bool has_threads = gone->worker != NULL && !gone->is_virtual;
    if (has_threads && gone->born != fork_generation()) {
        *app = NULL; /* the parent's: its threads are not here to be ended, and its locks may be held */
        return;
    }
    coney_call call = {0};
    if (coney_app_stop(gone, &call) == CONEY_EDEADLK) {
        app_log(gone, CONEY_LOG_ERROR, "coney_app_free: nothing was freed: %s", call.text);
        return;
    }
    *app = NULL;
    app_unstick_all(gone);
    worker_free(gone->worker);
    for (coney_broker *broker = gone->brokers; broker != NULL; broker = broker->next)
        broker_free(broker);
    mistakes_free(&gone->built);
    sem_destroy(&gone->stopping);
    coney_arena_free(&gone->memory);
    free(gone);
}

/* The log ------------------------------------------------------------------------------------------------------------------ */

void app_log(const coney_app *app, coney_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_vline(&app->log, level, format, args);
    va_end(args);
}

coney_status app_refuse(coney_call *call, coney_status status, const char *format, ...)
{
    if (call == NULL)
        return status;
    call->status = status;
    call->code = 0;
    call->value = 0;
    va_list args;
    va_start(args, format);
    text_vprint(call->text, sizeof call->text, format, args);
    va_end(args);
    return status;
}
