/* router.c: subscriptions and middleware without a broker: a tree, copied whole when it is included. */
#include "service/subscription.h"

#include <stdlib.h>

struct node;

/* One step of a node, in order: a subscription, or a router that was included. */
struct leg {
    struct leg *next;
    coney_subscription subscription;
    struct node *inner; /* NULL: a subscription */
    bool is_newer;      /* it has members that this library does not know */
};

struct node {
    const coney_codec *codec;
    struct middlewares middlewares;
    struct leg *first;
    struct leg **end;
};

struct coney_router {
    coney_arena *memory;
    bool out_of_memory;
    struct node root;
};

static struct copier copier_of(coney_router *router)
{
    return (struct copier){.arena = router->memory, .out_of_memory = &router->out_of_memory};
}

coney_router *coney_router_new(void)
{
    coney_router *router = calloc(1, sizeof *router);
    if (router == NULL)
        return NULL;
    router->memory = coney_arena_new();
    if (router->memory == NULL) {
        free(router);
        return NULL;
    }
    router->root.end = &router->root.first;
    return router;
}

void coney_router_codec(coney_router *router, const coney_codec *codec)
{
    if (router != NULL)
        router->root.codec = codec;
}

static bool add_middlewares(struct copier to, struct middlewares *list, const struct middlewares *more)
{
    struct middleware *items = copier_bytes(to, NULL, (list->count + more->count) * sizeof *items);
    if (items == NULL)
        return false;
    if (list->count > 0)
        memcpy(items, list->items, list->count * sizeof *items);
    if (more->count > 0)
        memcpy(items + list->count, more->items, more->count * sizeof *items);
    *list = (struct middlewares){.items = items, .count = list->count + more->count};
    return true;
}

void coney_router_use(coney_router *router, coney_around_fn around, void *ctx)
{
    struct middleware item = {.around = around, .ctx = ctx};
    if (router != NULL)
        add_middlewares(copier_of(router), &router->root.middlewares, &(struct middlewares){.items = &item, .count = 1});
}

/* A leg that is in no node yet, so that a router can be included in itself. */
static struct leg *new_leg(struct copier to)
{
    return copier_bytes(to, NULL, sizeof(struct leg));
}

static void add_leg(struct node *node, struct leg *leg)
{
    *node->end = leg;
    node->end = &leg->next;
}

coney_status coney_route_sized(coney_router *router, const coney_subscription *subscription, size_t size)
{
    if (router == NULL || subscription == NULL)
        return CONEY_EINVAL;
    struct copier to = copier_of(router);
    struct leg *leg = new_leg(to);
    if (leg == NULL)
        return CONEY_ENOMEM;
    leg->is_newer = !subscription_copy(to, &leg->subscription, subscription, size);
    add_leg(&router->root, leg);
    return router->out_of_memory ? CONEY_ENOMEM : CONEY_OK;
}

static struct node *copy_node(struct copier to, const struct node *from)
{
    struct node *node = copier_bytes(to, NULL, sizeof *node);
    if (node == NULL)
        return NULL;
    node->codec = from->codec;
    node->end = &node->first;
    add_middlewares(to, &node->middlewares, &from->middlewares);
    for (const struct leg *leg = from->first; leg != NULL; leg = leg->next) {
        struct leg *copy = new_leg(to);
        if (copy == NULL)
            return NULL;
        copy->is_newer = leg->is_newer;
        if (leg->inner != NULL)
            copy->inner = copy_node(to, leg->inner);
        else
            subscription_copy(to, &copy->subscription, &leg->subscription, sizeof leg->subscription);
        add_leg(node, copy);
    }
    return node;
}

coney_status coney_router_include(coney_router *router, const coney_router *inner)
{
    if (router == NULL || inner == NULL)
        return CONEY_EINVAL;
    struct copier to = copier_of(router);
    struct leg *leg = new_leg(to);
    struct node *node = leg != NULL ? copy_node(to, &inner->root) : NULL;
    router->out_of_memory |= inner->out_of_memory;
    if (node == NULL || router->out_of_memory)
        return CONEY_ENOMEM;
    leg->inner = node;
    add_leg(&router->root, leg);
    return CONEY_OK;
}

/* `around`: the middleware of the routers outside; `codec`: the innermost one's so far. */
static coney_status include(coney_broker *broker, const struct node *node, struct middlewares around, const coney_codec *codec)
{
    coney_app *app = broker->app;
    struct copier to = {.arena = app->memory, .out_of_memory = &app->out_of_memory};
    if (node->codec != NULL)
        codec = node->codec;
    if (node->middlewares.count > 0 && !add_middlewares(to, &around, &node->middlewares))
        return CONEY_ENOMEM;
    for (const struct leg *leg = node->first; leg != NULL; leg = leg->next) {
        if (leg->is_newer)
            mistake(&app->built, "router", "a subscription of coney_route " NEWER_TEXT);
        coney_status status = leg->inner != NULL ? include(broker, leg->inner, around, codec)
                                                 : subscription_add(broker, &leg->subscription, &around, codec);
        if (status != CONEY_OK)
            return status;
    }
    return CONEY_OK;
}

coney_status coney_include(coney_broker *broker, const coney_router *router)
{
    if (broker == NULL || router == NULL || !app_may_change(broker->app, "coney_include"))
        return CONEY_EINVAL;
    if (router->out_of_memory)
        broker->app->out_of_memory = true;
    return router->out_of_memory ? CONEY_ENOMEM : include(broker, &router->root, (struct middlewares){0}, NULL);
}

void coney_router_free(coney_router **router)
{
    if (router == NULL || *router == NULL)
        return;
    coney_arena_free(&(*router)->memory);
    free(*router);
    *router = NULL;
}
