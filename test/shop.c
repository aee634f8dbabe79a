#define _GNU_SOURCE
#include "shop.h"

#include "amqp_scene.h"
#include "stage.h"

/* The app ------------------------------------------------------------------------------------------------------------- */

static void keep_line(void *ctx, coney_log_level level, const char *text)
{
    struct shop *shop = ctx;
    if (getenv("CONEY_TEST_LOG") != NULL)
        fprintf(stderr, "%d %s\n", (int)level, text);
    monitor_lock(&shop->monitor);
    if (shop->count == shop->cap) {
        shop->cap = shop->cap > 0 ? 2 * shop->cap : 64;
        shop->lines = realloc(shop->lines, shop->cap * sizeof *shop->lines);
        if (shop->lines == NULL)
            abort();
    }
    shop->lines[shop->count++] = strdup(text);
    monitor_broadcast(&shop->monitor);
    monitor_unlock(&shop->monitor);
}

void shop_set_at(struct shop *shop, const char *uri, const coney_app_options *options)
{
    *shop = (struct shop){0};
    coney_app_options mine = options != NULL ? *options : (coney_app_options){0};
    mine.on_log = keep_line;
    mine.log_ctx = shop;
    shop->app = coney_app_new("shop", "1.0.0");
    coney_app_configure(shop->app, &mine);
    coney_amqp_options quick = {.recovery_delay = 50 * CONEY_MILLISECOND, .recovery_max_delay = 500 * CONEY_MILLISECOND};
    shop->rabbit = coney_app_amqp(shop->app, uri, &quick);
}

void shop_set(struct shop *shop, const struct node *node, const coney_app_options *options)
{
    shop_set_at(shop, amqp_uri(node->amqp_port), options);
}

void shop_set_streams(struct shop *shop, const struct node *node)
{
    coney_stream_env_options quick = {.recovery_delay = 50 * CONEY_MILLISECOND, .recovery_max_delay = 500 * CONEY_MILLISECOND};
    shop->streams = coney_app_stream(shop->app, node->uri, &quick);
}

void shop_start(struct shop *shop)
{
    coney_call call = call_within(10000);
    if (coney_app_start(shop->app, &call) != CONEY_OK)
        fail_msg("the app did not start: %s", call.text);
}

void shop_is_refused(struct shop *shop, coney_status status, const char *words)
{
    coney_call call = call_within(10000);
    coney_status is = coney_app_start(shop->app, &call);
    if (is != status)
        fail_msg("the start gave %s instead of %s: %s", coney_status_name(is), coney_status_name(status), call.text);
    assert_says(call.text, words);
}

static void print(const struct shop *shop)
{
    for (size_t i = 0; i < shop->count; i++)
        fprintf(stderr, "  | %s\n", shop->lines[i]);
}

static void forget(struct shop *shop)
{
    for (size_t i = 0; i < shop->count; i++)
        free(shop->lines[i]);
    free(shop->lines);
    monitor_free(&shop->monitor);
    *shop = (struct shop){0};
}

void shop_end(struct shop *shop)
{
    coney_app_free(&shop->app);
    forget(shop);
}

uint64_t shop_stop(struct shop *shop)
{
    coney_call call = call_within(10000);
    coney_status status = coney_app_stop(shop->app, &call);
    if (status != CONEY_OK)
        print(shop);
    if (status != CONEY_OK)
        fail_msg("the app did not stop well: %s: %s", coney_status_name(status), call.text);
    shop_end(shop);
    return call.value;
}

/* Under the lock. */
static const char *line_with(const struct shop *shop, const char *words)
{
    for (size_t i = 0; i < shop->count; i++)
        if (strstr(shop->lines[i], words) != NULL)
            return shop->lines[i];
    return NULL;
}

const char *shop_says(struct shop *shop, const char *words)
{
    static char copies[4][1024];
    static unsigned next;
    char *copy = copies[next++ % 4];
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    const char *line;
    monitor_lock(&shop->monitor);
    while ((line = line_with(shop, words)) == NULL && monitor_wait(&shop->monitor, until))
        ;
    if (line == NULL)
        print(shop);
    else
        snprintf(copy, sizeof copies[0], "%s", line);
    monitor_unlock(&shop->monitor);
    if (line == NULL)
        fail_msg("the log does not say '%s'", words);
    return copy;
}

size_t shop_said(struct shop *shop, const char *words)
{
    size_t count = 0;
    monitor_lock(&shop->monitor);
    for (size_t i = 0; i < shop->count; i++)
        count += strstr(shop->lines[i], words) != NULL;
    monitor_unlock(&shop->monitor);
    return count;
}

coney_app_health shop_health(const struct shop *shop)
{
    coney_app_health health;
    coney_app_get_health(shop->app, &health);
    return health;
}

static uint64_t active(const struct shop *shop)
{
    return shop_health(shop).active;
}

static uint64_t connected(const struct shop *shop)
{
    return shop_health(shop).connected;
}

static void wait_until(const struct shop *shop, uint64_t (*what)(const struct shop *shop), uint64_t is)
{
    struct monitor clock = {0};
    int64_t until = now_ms() + scaled_ms(30000);
    monitor_lock(&clock);
    while (what(shop) != is && now_ms() < until)
        (void)monitor_wait(&clock, now_ms() + 2);
    monitor_unlock(&clock);
    monitor_free(&clock);
    if (what(shop) != is)
        print(shop);
    assert_int_equal(what(shop), is);
}

void shop_is_active(const struct shop *shop, uint64_t subscriptions)
{
    wait_until(shop, active, subscriptions);
}

void shop_is_connected(const struct shop *shop, uint64_t brokers)
{
    wait_until(shop, connected, brokers);
}

/* What handlers saw --------------------------------------------------------------------------------------------------- */

size_t see_one(struct sights *sights, uint64_t id, uint64_t attempt)
{
    monitor_lock(&sights->monitor);
    if (sights->count == sights->cap) {
        sights->cap = sights->cap > 0 ? 2 * sights->cap : 256;
        sights->all = realloc(sights->all, sights->cap * sizeof *sights->all);
        if (sights->all == NULL)
            abort();
    }
    size_t before = sights->count++;
    sights->all[before] = (struct sight){.id = id, .attempt = attempt, .at = now_ms()};
    monitor_broadcast(&sights->monitor);
    while (sights->closed_gate)
        (void)monitor_wait(&sights->monitor, INT64_MAX);
    monitor_unlock(&sights->monitor);
    return before;
}

void sights_open_gate(struct sights *sights)
{
    monitor_lock(&sights->monitor);
    sights->closed_gate = false;
    monitor_broadcast(&sights->monitor);
    monitor_unlock(&sights->monitor);
}

bool sights_reach(struct sights *sights, size_t count, int64_t ms)
{
    int64_t until = now_ms() + scaled_ms(ms);
    monitor_lock(&sights->monitor);
    while (sights->count < count && monitor_wait(&sights->monitor, until))
        ;
    bool reached = sights->count >= count;
    monitor_unlock(&sights->monitor);
    return reached;
}

void sights_wait(struct sights *sights, size_t count)
{
    if (!sights_reach(sights, count, SUPPORT_PATIENCE))
        fail_msg("handlers saw %zu messages instead of %zu", sights_count(sights), count);
}

size_t sights_count(struct sights *sights)
{
    monitor_lock(&sights->monitor);
    size_t count = sights->count;
    monitor_unlock(&sights->monitor);
    return count;
}

struct sight sights_of(struct sights *sights, size_t n)
{
    monitor_lock(&sights->monitor);
    assert_true(n < sights->count);
    struct sight sight = sights->all[n];
    monitor_unlock(&sights->monitor);
    return sight;
}

/* Under the lock. */
static size_t times(const struct sights *sights, uint64_t id)
{
    size_t count = 0;
    for (size_t i = 0; i < sights->count; i++)
        count += sights->all[i].id == id;
    return count;
}

size_t sights_times(struct sights *sights, uint64_t id)
{
    monitor_lock(&sights->monitor);
    size_t count = times(sights, id);
    monitor_unlock(&sights->monitor);
    return count;
}

void sights_have_all(struct sights *sights, uint64_t first, uint64_t count)
{
    int64_t until = now_ms() + scaled_ms(2 * SUPPORT_PATIENCE);
    bool in_time = true;
    uint64_t id = first;
    monitor_lock(&sights->monitor);
    while (id < first + count && in_time) {
        if (times(sights, id) > 0)
            id++;
        else
            in_time = monitor_wait(&sights->monitor, until);
    }
    monitor_unlock(&sights->monitor);
    if (id < first + count)
        fail_msg("no handler saw message %llu", (unsigned long long)id);
}

void sights_free(struct sights *sights)
{
    free(sights->all);
    monitor_free(&sights->monitor);
    *sights = (struct sights){0};
}

/* The desk ------------------------------------------------------------------------------------------------------------ */

void desk_open(struct desk *desk, const struct node *node)
{
    *desk = (struct desk){0};
    coney_call call = {0};
    coney_amqp_options options = {.recovery_delay = 50 * CONEY_MILLISECOND, .recovery_max_delay = 500 * CONEY_MILLISECOND};
    desk->rabbit = coney_amqp_open(amqp_uri(node->amqp_port), &options, &call);
    if (desk->rabbit == NULL)
        fail_msg("the desk did not open: %s", call.text);
    coney_amqp_publisher_options mine = {.on_outcome = outcomes_add, .ctx = &desk->outcomes};
    desk->publisher = coney_amqp_publisher_open(desk->rabbit, &mine, &call);
    if (desk->publisher == NULL)
        fail_msg("the desk has no publisher: %s", call.text);
    coney_stream_env_options quick = {.recovery_delay = 50 * CONEY_MILLISECOND, .recovery_max_delay = 500 * CONEY_MILLISECOND};
    desk->streams = coney_stream_env_open(node->uri, &quick, &call);
    if (desk->streams == NULL)
        fail_msg("the desk has no streams: %s", call.text);
}

void desk_close(struct desk *desk)
{
    coney_amqp_publisher_close(&desk->publisher, NULL);
    coney_amqp_close(&desk->rabbit, NULL);
    coney_stream_env_close(&desk->streams, NULL);
    outcomes_free(&desk->outcomes);
}

void desk_declare_as(struct desk *desk, const char *name, const coney_amqp_queue *queue)
{
    coney_amqp_queue mine = *queue;
    coney_call call = call_within(10000);
    mine.name = name;
    if (coney_amqp_queue_declare(desk->rabbit, &mine, &call) != CONEY_OK)
        fail_msg("queue '%s' was not declared: %s", name, call.text);
}

void desk_declare(struct desk *desk, const char *name, coney_queue_type type)
{
    desk_declare_as(desk, name, &(coney_amqp_queue){.type = type});
}

void desk_delete(struct desk *desk, const char *name)
{
    coney_amqp_queue_delete(desk->rabbit, name, 0, NULL);
}

static void put(struct desk *desk, const char *queue, coney_bytes body, const char *content_type)
{
    char id[32];
    snprintf(id, sizeof id, "desk-%zu", desk->sent);
    coney_amqp_message message = {.routing_key = coney_bytes_str(queue), .body = body, .message_id = coney_bytes_str(id)};
    if (content_type != NULL)
        message.content_type = coney_bytes_str(content_type);
    assert_int_equal(coney_amqp_publish(desk->publisher, &message), CONEY_OK);
    desk->sent++;
}

static void wait_for_broker(struct desk *desk)
{
    outcomes_wait(&desk->outcomes, desk->sent);
    assert_int_equal(outcomes_with(&desk->outcomes, CONEY_OK), desk->sent);
}

static coney_bytes order_of(uint64_t id)
{
    static char body[96];
    int len = snprintf(body, sizeof body, "{\"id\":%llu,\"customer\":\"ada\",\"count\":1}", (unsigned long long)id);
    return coney_bytes_of(body, (size_t)len);
}

void desk_put(struct desk *desk, const char *queue, coney_bytes body, const char *content_type)
{
    put(desk, queue, body, content_type);
    wait_for_broker(desk);
}

void desk_put_orders(struct desk *desk, const char *queue, uint64_t first, uint64_t count)
{
    for (uint64_t id = first; id < first + count; id++)
        put(desk, queue, order_of(id), "application/json");
    wait_for_broker(desk);
}

static coney_stream_producer *producer_on(struct desk *desk, const char *stream)
{
    struct scene scene = {.env = desk->streams};
    snprintf(scene.stream, sizeof scene.stream, "%s", stream);
    return scene_producer(&scene, NULL, NULL);
}

static void store(struct desk *desk, coney_stream_producer *producer, coney_bytes body, const char *content_type)
{
    char id[32];
    snprintf(id, sizeof id, "desk-%zu", desk->stored++);
    coney_message message = {.body = body, .properties.message_id = coney_value_string(coney_bytes_str(id))};
    if (content_type != NULL)
        message.properties.content_type = coney_bytes_str(content_type);
    coney_stream_message sent = {.message = &message};
    assert_int_equal(coney_stream_send_message(producer, &sent), CONEY_OK);
}

static void store_all(coney_stream_producer **producer)
{
    coney_call call = call_within(10000);
    if (coney_stream_producer_flush(*producer, &call) != CONEY_OK)
        fail_msg("what the desk stored is not confirmed: %s", call.text);
    producer_close(producer);
}

void desk_store(struct desk *desk, const char *stream, coney_bytes body, const char *content_type)
{
    coney_stream_producer *producer = producer_on(desk, stream);
    store(desk, producer, body, content_type);
    store_all(&producer);
}

void desk_store_orders(struct desk *desk, const char *stream, uint64_t first, uint64_t count)
{
    coney_stream_producer *producer = producer_on(desk, stream);
    for (uint64_t id = first; id < first + count; id++)
        store(desk, producer, order_of(id), "application/json");
    store_all(&producer);
}

uint64_t desk_ready(struct desk *desk, const char *queue)
{
    coney_call call = call_within(10000);
    coney_amqp_queue passive = {.name = queue, .passive = true};
    if (coney_amqp_queue_declare(desk->rabbit, &passive, &call) != CONEY_OK)
        fail_msg("queue '%s' cannot be asked: %s", queue, call.text);
    return call.value;
}

void desk_wait_for_ready(struct desk *desk, const char *queue, uint64_t count)
{
    uint64_t is = UINT64_MAX;
    for (int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE); is != count && now_ms() < until;)
        is = desk_ready(desk, queue);
    if (is != count)
        fail_msg("'%s' has %llu messages instead of %llu", queue, (unsigned long long)is, (unsigned long long)count);
}

static coney_kept *get(struct desk *desk, const char *queue)
{
    coney_kept *kept = NULL;
    coney_call call = call_within(10000);
    if (coney_amqp_get(desk->rabbit, queue, &kept, &call) != CONEY_OK)
        fail_msg("nothing can be taken from '%s': %s", queue, call.text);
    return kept;
}

coney_bytes desk_take(struct desk *desk, const char *queue, const char *header, uint64_t *number)
{
    static char body[64 * 1024];
    coney_value value;
    coney_kept *kept = get(desk, queue);
    if (kept == NULL)
        fail_msg("queue '%s' is empty", queue);
    const coney_amqp_delivery *delivery = coney_amqp_kept_delivery(kept);
    size_t len = delivery->body.len < sizeof body ? delivery->body.len : sizeof body;
    memcpy(body, len > 0 ? delivery->body.data : "", len);
    if (header != NULL &&
        (!coney_amqp_delivery_header(delivery, coney_bytes_str(header), &value) || !coney_value_to_u64(&value, number)))
        fail_msg("a message in '%s' has no number '%s'", queue, header);
    assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_OK);
    return coney_bytes_of(body, len);
}

void desk_collect(struct desk *desk, const char *queue, size_t count, unsigned *times, size_t below)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    for (size_t taken = 0; taken < count;) {
        coney_kept *kept = get(desk, queue);
        if (kept == NULL && now_ms() > until)
            fail_msg("'%s' had %zu messages instead of %zu", queue, taken, count);
        if (kept == NULL)
            continue;
        char text[96] = "";
        unsigned long long id;
        coney_bytes body = coney_amqp_kept_delivery(kept)->body;
        memcpy(text, body.data, body.len < sizeof text ? body.len : sizeof text - 1);
        assert_int_equal(sscanf(text, "{\"id\":%llu", &id), 1);
        assert_true(id < below);
        times[id]++;
        taken++;
        assert_int_equal(coney_kept_settle(&kept, CONEY_ACK), CONEY_OK);
    }
}
