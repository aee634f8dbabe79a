/* consumer_options.c: what the user asks of a consumer: checked, completed, copied. */
#include "amqp/consumer.h"

#include "core/options.h"
#include "proto/amqp091/table.h"

#include <stdlib.h>

#define DEFAULT_PREFETCH 256
#define DEFAULT_BYTES (64 * CONEY_MIB)
#define RUN_WITHOUT_PREFETCH 256 /* acks gathered when nothing bounds what the broker sends */

coney_status amqp_consumer_options_check(const coney_amqp_consumer_options *options, coney_call *call)
{
    if (options->on_delivery == NULL)
        return op_refuse(call, CONEY_EINVAL, "a consumer needs on_delivery");
    if (options->on_loop && options->own_thread)
        return op_refuse(call, CONEY_EINVAL, "a consumer's handler runs either on_loop or on its own_thread");
    if (options->prefetch < CONEY_OFF || options->prefetch > UINT16_MAX)
        return op_refuse(call, CONEY_EINVAL, "prefetch is %lld: 1 to %d, 0 for the default, or CONEY_OFF",
                         (long long)options->prefetch, UINT16_MAX);
    if (options->ack_run < 0 || options->max_kept < 0 || options->max_queued < 0)
        return op_refuse(call, CONEY_EINVAL, "ack_run, max_kept or max_queued is negative");
    if (options->arguments == NULL && options->argument_count > 0)
        return op_refuse(call, CONEY_EINVAL, "argument_count is %zu, but arguments is NULL", options->argument_count);
    return options->tag != NULL ? amqp_name_check("consumer tag", options->tag, call) : CONEY_OK;
}

static int64_t default_run(const coney_amqp_consumer_options *options)
{
    if (options->prefetch == 0)
        return RUN_WITHOUT_PREFETCH;
    return options->prefetch >= 8 ? options->prefetch / 4 : 1;
}

static void set_defaults(coney_amqp_consumer_options *options)
{
    if (options->prefetch == 0)
        options->prefetch = DEFAULT_PREFETCH;
    if (options->prefetch == CONEY_OFF)
        options->prefetch = 0;
    if (options->ack_run == 0)
        options->ack_run = default_run(options);
    if (options->no_ack)
        options->ack_run = INT64_MAX; /* nothing is written */
    if (options->max_kept == 0)
        options->max_kept = DEFAULT_BYTES;
    if (options->max_queued == 0)
        options->max_queued = DEFAULT_BYTES;
}

static bool is_given_twice(const coney_field *fields, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (bytes_equal(fields[i].key, fields[0].key))
            return true;
    return false;
}

/* The priority is an argument, too. */
static coney_status encode_arguments(struct coney_amqp_consumer *consumer, const coney_amqp_consumer_options *options,
                                     coney_call *call)
{
    size_t count = 0;
    coney_field *fields = calloc(options->argument_count + 1, sizeof *fields);
    if (fields == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    if (options->has_priority)
        fields[count++] = (coney_field){CONEY_STR("x-priority"), coney_value_i64(options->priority)};
    for (size_t i = 0; i < options->argument_count; i++)
        fields[count++] = options->arguments[i];

    const char *field;
    size_t size;
    coney_status status = amqp_table_size(fields, count, &size, &field);
    if (status != CONEY_OK)
        op_refuse(call, status, "an argument has no form in AMQP 0-9-1: %s", field);
    else if (options->has_priority && is_given_twice(fields, count))
        status = op_refuse(call, CONEY_EINVAL, "the priority is given twice: by has_priority and by the argument x-priority");
    else if ((consumer->arguments = malloc(size + 1)) == NULL)
        status = op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    if (status == CONEY_OK) {
        amqp_table_write(consumer->arguments, fields, count);
        consumer->arguments_size = size;
        consumer->argument_count = count;
    }
    free(fields);
    return status;
}

coney_status amqp_consumer_options_take(struct coney_amqp_consumer *consumer, const coney_amqp_consumer_options *options,
                                        coney_call *call)
{
    consumer->options = *options;
    consumer->options.arguments = NULL;
    consumer->options.tag = NULL;
    consumer->ledger.singly = options->ack_run == 1;
    set_defaults(&consumer->options);
    if (options->tag != NULL)
        consumer->options.tag = strdup(options->tag);
    if (options->tag != NULL && consumer->options.tag == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    return encode_arguments(consumer, options, call);
}
