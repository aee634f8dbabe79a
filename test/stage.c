#include "stage.h"

void stage_set(struct stage *stage)
{
    *stage = (struct stage){.peer = peer_start()};
    stage->options.on_event = events_add;
    stage->options.event_ctx = &stage->events;
    stage->options.recovery_delay = 10 * CONEY_MILLISECOND;
    stage->options.recovery_max_delay = 100 * CONEY_MILLISECOND;
}

void stage_open(struct stage *stage)
{
    coney_call call = {0};
    stage->env = coney_stream_env_open(peer_uri(stage->peer), &stage->options, &call);
    if (stage->env == NULL)
        fail_msg("the environment did not open: %s: %s", coney_status_name(call.status), call.text);
}

void stage_up(struct stage *stage)
{
    stage_set(stage);
    stage_open(stage);
}

void stage_down(struct stage *stage)
{
    coney_stream_env_close(&stage->env, NULL);
    peer_stop(&stage->peer);
    events_free(&stage->events);
}

coney_stream_producer *stage_producer(struct stage *stage, const char *stream, struct outcomes *outcomes,
                                      const coney_stream_producer_options *options)
{
    coney_stream_producer_options mine = options != NULL ? *options : (coney_stream_producer_options){0};
    mine.on_outcome = outcomes != NULL ? outcomes_add : NULL;
    mine.ctx = outcomes;
    coney_call call = call_within(SUPPORT_PATIENCE);
    coney_stream_producer *producer = coney_stream_producer_open(stage->env, stream, &mine, &call);
    if (producer == NULL)
        fail_msg("the producer did not open: %s: %s", coney_status_name(call.status), call.text);
    return producer;
}

coney_stream_consumer *stage_consumer(struct stage *stage, const char *stream, struct deliveries *deliveries,
                                      const coney_stream_consumer_options *options)
{
    coney_stream_consumer_options mine = options != NULL ? *options : (coney_stream_consumer_options){0};
    if (mine.on_chunk == NULL)
        mine.on_message = deliveries_add;
    mine.ctx = deliveries;
    coney_call call = call_within(SUPPORT_PATIENCE);
    coney_stream_consumer *consumer = coney_stream_consumer_open(stage->env, stream, &mine, &call);
    if (consumer == NULL)
        fail_msg("the consumer did not open: %s: %s", coney_status_name(call.status), call.text);
    return consumer;
}

void stage_send(coney_stream_producer *producer, uint64_t first, size_t count)
{
    for (uint64_t tag = first; tag < first + count; tag++) {
        coney_status status = coney_stream_send(producer, numbered(tag), tag);
        if (status != CONEY_OK)
            fail_msg("message %llu was not accepted: %s", (unsigned long long)tag, coney_status_name(status));
    }
}

void assert_says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

void producer_close(coney_stream_producer **producer)
{
    coney_call call = {0};
    coney_status status = coney_stream_producer_close(producer, &call);
    if (status != CONEY_OK)
        fail_msg("closing the producer: %s: %s", coney_status_name(status), call.text);
    assert_null(*producer);
}

void consumer_close(coney_stream_consumer **consumer)
{
    coney_call call = {0};
    coney_status status = coney_stream_consumer_close(consumer, &call);
    if (status != CONEY_OK)
        fail_msg("closing the consumer: %s: %s", coney_status_name(status), call.text);
    assert_null(*consumer);
}
