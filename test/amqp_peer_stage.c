#include "amqp_peer_stage.h"

void amqp_stage_set(struct amqp_stage *stage)
{
    *stage = (struct amqp_stage){.peer = amqp_peer_start()};
    stage->options.on_event = events_add;
    stage->options.event_ctx = &stage->events;
    stage->options.recovery_delay = 10 * CONEY_MILLISECOND;
    stage->options.recovery_max_delay = 100 * CONEY_MILLISECOND;
}

void amqp_stage_open(struct amqp_stage *stage)
{
    coney_call call = {0};
    stage->rabbit = coney_amqp_open(amqp_peer_uri(stage->peer), &stage->options, &call);
    if (stage->rabbit == NULL)
        fail_msg("the environment did not open: %s: %s", coney_status_name(call.status), call.text);
}

void amqp_stage_up(struct amqp_stage *stage)
{
    amqp_stage_set(stage);
    amqp_stage_open(stage);
}

void amqp_stage_refused(struct amqp_stage *stage, coney_status status, const char *words)
{
    coney_call call = {0};
    assert_null(coney_amqp_open(amqp_peer_uri(stage->peer), &stage->options, &call));
    if (call.status != status)
        fail_msg("%s instead of %s: %s", coney_status_name(call.status), coney_status_name(status), call.text);
    assert_says(call.text, words);
}

void amqp_stage_down(struct amqp_stage *stage)
{
    coney_amqp_close(&stage->rabbit, NULL);
    amqp_peer_stop(&stage->peer);
    events_free(&stage->events);
}

coney_amqp_publisher *amqp_stage_publisher(struct amqp_stage *stage, struct outcomes *outcomes,
                                           const coney_amqp_publisher_options *options)
{
    coney_amqp_publisher_options mine = options != NULL ? *options : (coney_amqp_publisher_options){0};
    if (outcomes != NULL) {
        mine.on_outcome = outcomes_add;
        mine.ctx = outcomes;
    }
    if (mine.exchange == NULL && mine.routing_key == NULL)
        mine.routing_key = "q";
    coney_call call = call_within(SUPPORT_PATIENCE);
    coney_amqp_publisher *publisher = coney_amqp_publisher_open(stage->rabbit, &mine, &call);
    if (publisher == NULL)
        fail_msg("the publisher did not open: %s: %s", coney_status_name(call.status), call.text);
    return publisher;
}

coney_amqp_consumer *amqp_stage_consumer(struct amqp_stage *stage, const char *queue, struct parcels *parcels,
                                         const coney_amqp_consumer_options *options)
{
    coney_amqp_consumer_options mine = options != NULL ? *options : (coney_amqp_consumer_options){0};
    if (mine.on_delivery == NULL) {
        mine.on_delivery = parcels_add;
        mine.ctx = parcels;
    }
    coney_call call = call_within(SUPPORT_PATIENCE);
    coney_amqp_consumer *consumer = coney_amqp_consumer_open(stage->rabbit, queue, &mine, &call);
    if (consumer == NULL)
        fail_msg("the consumer did not open: %s: %s", coney_status_name(call.status), call.text);
    return consumer;
}

coney_status amqp_stage_declare(struct amqp_stage *stage, const char *queue, coney_call *call)
{
    coney_amqp_queue declared = {.name = queue};
    return coney_amqp_queue_declare(stage->rabbit, &declared, call);
}
