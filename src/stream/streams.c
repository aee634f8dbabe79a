/* streams.c: streams as things to create, delete and ask about: one request on the control connection each. */
#include "base/text.h"
#include "base/time.h"
#include "stream/metadata.h"

#include <stdlib.h>

#define NAME_CAP (STREAM_REFERENCE_MAX + 1)
#define ARGUMENTS_CAP 4096
#define LARGEST_SEGMENT INT64_C(3000000000)

/* One such call: its request, and what is done with the answer. */
struct admin_op {
    struct op op;
    struct coney_stream_env *env;
    const char *doing; /* "create": for texts */
    char stream[NAME_CAP];
    char reference[NAME_CAP];
    struct stream_frame request;
    uint8_t arguments[ARGUMENTS_CAP];
    /* CONEY_OK arrived: takes what it wants and ends the call. NULL: there is nothing in the answer. */
    void (*take)(struct admin_op *admin, const struct stream_frame *answer);
    bool exists_is_fine;
    uint64_t offset;                 /* store_offset */
    coney_stream_stats *stats;       /* get_stats: the user's place */
    coney_stream_metadata *metadata; /* get_metadata: the same */
    const void *result;              /* what goes there */
    void (*each)(void *ctx, const char *partition);
    void *each_ctx;
};

static struct admin_op *of_op(struct op *op)
{
    return container_of(op, struct admin_op, op);
}

static void admin_free(struct op *op)
{
    env_unref(&of_op(op)->env->env);
    free(of_op(op));
}

/* The sentence for what the broker answered: what was being done, to what, what to do next. */
static void explain(const struct admin_op *admin, coney_status status, uint16_t code, char *text, size_t cap)
{
    const struct settings *settings = &admin->env->env.settings;
    const char *advice;
    switch (status) {
    case CONEY_ENOTFOUND:
        advice = "it does not exist: create it first, or check the name";
        break;
    case CONEY_EEXIST:
        advice = "it exists already, with the same arguments";
        break;
    case CONEY_EPRECONDITION:
        advice = "it exists with other arguments or as another kind of queue, or the broker does not take these arguments";
        break;
    case CONEY_EACCESS:
        advice = "the user lacks the permission";
        break;
    case CONEY_EUNAVAILABLE:
        advice = "it has no leader now: try again when its nodes are up";
        break;
    case CONEY_ENOOFFSET:
        advice = "nothing is stored under this name";
        break;
    default:
        advice = stream_code_name(code);
        break;
    }
    text_print(text, cap, "cannot %s '%s' (virtual host '%s', user '%s'): %s (code %u)", admin->doing, admin->stream,
               settings->vhost, settings->user, advice, (unsigned)code);
}

static void end_with_code(struct admin_op *admin, uint16_t code)
{
    char text[TEXT_CAP];
    coney_status status = status_of_code(code);
    explain(admin, status, code, text, sizeof text);
    op_end(&admin->op, status, code, 0, text);
}

static void answered(void *ctx, coney_status status, const struct stream_frame *answer, const char *text)
{
    struct admin_op *admin = ctx;
    if (op_ended(&admin->op)) {
        /* the answer came after the deadline */
    } else if (status == CONEY_OK && admin->take != NULL) {
        admin->take(admin, answer);
    } else if (status == CONEY_OK || (status == CONEY_EEXIST && admin->exists_is_fine)) {
        op_end(&admin->op, CONEY_OK, answer->code, 0, NULL);
    } else if (answer != NULL) {
        end_with_code(admin, answer->code);
    } else {
        op_end(&admin->op, status, 0, 0, text);
    }
    op_unref(&admin->op);
}

static void ask(struct admin_op *admin)
{
    op_ref(&admin->op);
    if (control_request(admin->env, &admin->request, admin->op.deadline, answered, admin))
        return;
    op_end(&admin->op, CONEY_ENOMEM, 0, 0, NULL);
    op_unref(&admin->op);
}

static void admin_begin(struct op *op)
{
    ask(of_op(op));
}

static coney_bytes stream_of(const struct admin_op *admin)
{
    return coney_bytes_str(admin->stream);
}

static coney_bytes reference_of(const struct admin_op *admin)
{
    return coney_bytes_str(admin->reference);
}

/* A call about `stream`, checked. */
static coney_status admin_new(coney_stream_env *env, const char *doing, const char *stream, coney_call *call,
                              struct admin_op **out)
{
    coney_status status = stream_env_check(env, call);
    if (status == CONEY_OK)
        status = name_check("stream", stream, STREAM_REFERENCE_MAX, call);
    if (status != CONEY_OK)
        return status;
    struct admin_op *admin = calloc(1, sizeof *admin);
    if (admin == NULL)
        return op_refuse(call, CONEY_ENOMEM, "%s", coney_status_text(CONEY_ENOMEM));
    op_init(&admin->op, env->env.loop, admin_begin, NULL, admin_free);
    admin->env = stream_env_of(env_ref(&env->env));
    admin->doing = doing;
    text_print(admin->stream, sizeof admin->stream, "%s", stream);
    *out = admin;
    return CONEY_OK;
}

static coney_status run(struct admin_op *admin, coney_call *call)
{
    return op_run(&admin->op, call, admin->env->env.settings.call_deadline);
}

/* Create, delete -------------------------------------------------------------------------------------------------- */

static void add_number(struct list_writer *list, const char *key, int64_t value, const char *unit)
{
    char text[32];
    if (value == 0)
        return;
    text_print(text, sizeof text, "%lld%s", (long long)value, unit);
    list_add_pair(list, coney_bytes_str(key), coney_bytes_str(text));
}

static coney_status check_spec(const coney_stream_spec *spec, coney_call *call)
{
    if (reserved_check(spec->reserved, sizeof spec->reserved) != CONEY_OK)
        return op_refuse(call, CONEY_EINVAL, RESERVED_TEXT);
    if (spec->max_length < 0 || spec->max_age < 0 || spec->max_segment_size < 0 || spec->initial_cluster_size < 0)
        return op_refuse(call, CONEY_EINVAL, "a size, age or number in the specification of the stream is negative");
    if (spec->max_age % CONEY_SECOND != 0)
        return op_refuse(call, CONEY_EINVAL, "max_age is %lld ns: the broker counts whole seconds (multiples of CONEY_SECOND)",
                         (long long)spec->max_age);
    if (spec->max_segment_size > LARGEST_SEGMENT)
        return op_refuse(call, CONEY_EINVAL, "max_segment_size is %lld bytes: the broker takes at most 3 GB",
                         (long long)spec->max_segment_size);
    return CONEY_OK;
}

static coney_status write_arguments(struct admin_op *admin, const coney_stream_spec *spec, coney_call *call)
{
    struct list_writer list = list_begin(admin->arguments, sizeof admin->arguments);
    add_number(&list, "max-length-bytes", spec->max_length, "");
    add_number(&list, "max-age", spec->max_age / CONEY_SECOND, "s");
    add_number(&list, "stream-max-segment-size-bytes", spec->max_segment_size, "");
    add_number(&list, "initial-cluster-size", spec->initial_cluster_size, "");
    if (spec->leader_locator != NULL)
        list_add_pair(&list, CONEY_STR("queue-leader-locator"), coney_bytes_str(spec->leader_locator));
    for (size_t i = 0; i < spec->argument_count; i++) {
        coney_bytes value;
        if (!coney_value_to_bytes(&spec->arguments[i].value, &value))
            return op_refuse(call, CONEY_EINVAL, "the argument '%.*s' is not a string: the stream protocol has only texts here",
                             (int)spec->arguments[i].key.len, (const char *)spec->arguments[i].key.data);
        list_add_pair(&list, spec->arguments[i].key, value);
    }
    if (!list_end(&list, &admin->request.create.arguments))
        return op_refuse(call, CONEY_EINVAL, "the arguments of the stream take more than %d bytes", ARGUMENTS_CAP);
    return CONEY_OK;
}

coney_status coney_stream_create_sized(coney_stream_env *env, const char *stream, const coney_stream_spec *user_spec,
                                       size_t spec_size, coney_call *call)
{
    coney_stream_spec spec = {0};
    coney_status status = options_copy(&spec, sizeof spec, user_spec, spec_size, call);
    if (status == CONEY_OK)
        status = check_spec(&spec, call);
    if (status != CONEY_OK)
        return status;
    struct admin_op *admin;
    status = admin_new(env, "create stream", stream, call, &admin);
    if (status != CONEY_OK)
        return status;
    admin->request = (struct stream_frame){.key = STREAM_CREATE, .create.stream = stream_of(admin)};
    admin->exists_is_fine = spec.if_missing;
    status = write_arguments(admin, &spec, call);
    if (status == CONEY_OK)
        return run(admin, call);
    op_unref(&admin->op);
    return status;
}

coney_status coney_stream_delete(coney_stream_env *env, const char *stream, coney_call *call)
{
    struct admin_op *admin;
    coney_status status = admin_new(env, "delete stream", stream, call, &admin);
    if (status != CONEY_OK)
        return status;
    admin->request = (struct stream_frame){.key = STREAM_DELETE, .delete.stream = stream_of(admin)};
    return run(admin, call);
}

/* Metadata -------------------------------------------------------------------------------------------------------- */

static bool read_node(const struct stream_frame *answer, uint16_t index, coney_stream_node *to)
{
    struct node node;
    if (!metadata_node(&answer->metadata_answer, index, &node))
        return false;
    text_print(to->host, sizeof to->host, "%s", node.host);
    to->port = node.port;
    return true;
}

static void give_metadata(struct op *op)
{
    *of_op(op)->metadata = *(const coney_stream_metadata *)of_op(op)->result;
}

static void take_metadata(struct admin_op *admin, const struct stream_frame *answer)
{
    struct stream_placement placement;
    if (!metadata_find(&answer->metadata_answer, admin->stream, &placement)) {
        end_with_code(admin, STREAM_CODE_STREAM_NOT_AVAILABLE);
        return;
    }
    if (placement.code != STREAM_CODE_OK) {
        end_with_code(admin, placement.code);
        return;
    }
    coney_stream_metadata metadata = {0};
    read_node(answer, placement.leader, &metadata.leader);
    struct list_iter it = list_iter_of(placement.replicas);
    uint16_t index;
    while (metadata.replica_count < CONEY_STREAM_REPLICAS && list_next_index(&it, &index))
        if (read_node(answer, index, &metadata.replicas[metadata.replica_count]))
            metadata.replica_count++;
    admin->result = &metadata;
    op_end_giving(&admin->op, metadata.replica_count, give_metadata);
}

static void take_existence(struct admin_op *admin, const struct stream_frame *answer)
{
    struct stream_placement placement;
    bool found = metadata_find(&answer->metadata_answer, admin->stream, &placement);
    uint16_t code = found ? placement.code : STREAM_CODE_STREAM_DOES_NOT_EXIST;
    bool known = code == STREAM_CODE_OK || code == STREAM_CODE_STREAM_NOT_AVAILABLE;
    if (known || code == STREAM_CODE_STREAM_DOES_NOT_EXIST)
        op_end(&admin->op, CONEY_OK, 0, known, NULL);
    else
        end_with_code(admin, code);
}

static void ask_metadata(struct admin_op *admin)
{
    metadata_ask(&admin->request, admin->arguments, admin->stream);
}

coney_status coney_stream_exists(coney_stream_env *env, const char *stream, coney_call *call)
{
    if (call == NULL)
        return CONEY_EINVAL;
    struct admin_op *admin;
    coney_status status = admin_new(env, "look for stream", stream, call, &admin);
    if (status != CONEY_OK)
        return status;
    ask_metadata(admin);
    admin->take = take_existence;
    return run(admin, call);
}

coney_status coney_stream_get_metadata(coney_stream_env *env, const char *stream, coney_stream_metadata *metadata,
                                       coney_call *call)
{
    if (metadata == NULL)
        return op_refuse(call, CONEY_EINVAL, "there is no place for the metadata: it is NULL");
    struct admin_op *admin;
    coney_status status = admin_new(env, "locate stream", stream, call, &admin);
    if (status != CONEY_OK)
        return status;
    ask_metadata(admin);
    admin->metadata = metadata;
    admin->take = take_metadata;
    return run(admin, call);
}

/* Statistics, partitions -------------------------------------------------------------------------------------------- */

static void give_stats(struct op *op)
{
    *of_op(op)->stats = *(const coney_stream_stats *)of_op(op)->result;
}

static void take_stats(struct admin_op *admin, const struct stream_frame *answer)
{
    coney_stream_stats stats = {
        .first_offset = -1, .committed_chunk_offset = -1, .committed_offset = -1, .last_chunk_offset = -1};
    const struct {
        const char *name;
        int64_t *to;
    } known[] = {
        {"first_chunk_id", &stats.first_offset},
        {"committed_chunk_id", &stats.committed_chunk_offset},
        {"committed_offset", &stats.committed_offset},
        {"last_chunk_id", &stats.last_chunk_offset},
    };
    struct list_iter it = list_iter_of(answer->stream_stats_answer.stats);
    coney_bytes name;
    int64_t value;
    while (list_next_stat(&it, &name, &value))
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            if (bytes_equal(name, coney_bytes_str(known[i].name)))
                *known[i].to = value;
    admin->result = &stats;
    op_end_giving(&admin->op, 0, give_stats);
}

static void ask_stats(struct admin_op *admin)
{
    if (stream_conn_of(admin->env->control.conn)->versions[STREAM_STREAM_STATS] == 0) {
        op_end(&admin->op, CONEY_EUNSUPPORTED, 0, 0, "this broker has no stream statistics: they came with RabbitMQ 3.11");
        return;
    }
    admin->request = (struct stream_frame){.key = STREAM_STREAM_STATS, .stream_stats.stream = stream_of(admin)};
    admin->take = take_stats;
    ask(admin);
}

static void stats_after_metadata(struct admin_op *admin, const struct stream_frame *answer)
{
    (void)answer;
    ask_stats(admin);
}

/* A broker that does not know the command drops the connection: it is asked only where it was listed, which a connection that is still to be
 * made says after some other question. */
static void stats_begin(struct op *op)
{
    struct admin_op *admin = of_op(op);
    struct conn *control = admin->env->control.conn;
    if (control != NULL && control->state == CONN_READY) {
        ask_stats(admin);
        return;
    }
    ask_metadata(admin);
    admin->take = stats_after_metadata;
    ask(admin);
}

coney_status coney_stream_get_stats(coney_stream_env *env, const char *stream, coney_stream_stats *stats, coney_call *call)
{
    if (stats == NULL)
        return op_refuse(call, CONEY_EINVAL, "there is no place for the statistics: it is NULL");
    struct admin_op *admin;
    coney_status status = admin_new(env, "read the statistics of stream", stream, call, &admin);
    if (status != CONEY_OK)
        return status;
    admin->op.begin = stats_begin;
    admin->stats = stats;
    return run(admin, call);
}

static void take_partitions(struct admin_op *admin, const struct stream_frame *answer)
{
    struct list_iter it = list_iter_of(answer->partitions_answer.streams);
    coney_bytes name;
    uint64_t count = 0;
    while (list_next_string(&it, &name)) {
        char partition[NAME_CAP];
        text_from_wire(partition, sizeof partition, name);
        if (admin->each != NULL)
            admin->each(admin->each_ctx, partition);
        count++;
    }
    op_end(&admin->op, CONEY_OK, 0, count, NULL);
}

coney_status coney_stream_partitions(coney_stream_env *env, const char *super_stream,
                                     void (*each)(void *ctx, const char *partition), void *ctx, coney_call *call)
{
    struct admin_op *admin;
    coney_status status = admin_new(env, "list the partitions of super stream", super_stream, call, &admin);
    if (status != CONEY_OK)
        return status;
    admin->request = (struct stream_frame){.key = STREAM_PARTITIONS, .partitions.super_stream = stream_of(admin)};
    admin->each = each;
    admin->each_ctx = ctx;
    admin->take = take_partitions;
    return run(admin, call);
}

/* What is stored under a name ---------------------------------------------------------------------------------------- */

static coney_status admin_named(coney_stream_env *env, const char *doing, const char *stream, const char *name,
                                coney_call *call, struct admin_op **out)
{
    coney_status status = name_check("consumer or producer", name, STREAM_REFERENCE_MAX, call);
    if (status != CONEY_OK)
        return status;
    status = admin_new(env, doing, stream, call, out);
    if (status != CONEY_OK)
        return status;
    text_print((*out)->reference, sizeof(*out)->reference, "%s", name);
    return CONEY_OK;
}

static void take_offset(struct admin_op *admin, const struct stream_frame *answer)
{
    op_end(&admin->op, CONEY_OK, 0, answer->query_offset_answer.offset, NULL);
}

static void set_offset_query(struct admin_op *admin)
{
    admin->request = (struct stream_frame){.key = STREAM_QUERY_OFFSET,
                                           .query_offset = {.reference = reference_of(admin), .stream = stream_of(admin)}};
}

coney_status coney_stream_query_offset(coney_stream_env *env, const char *stream, const char *name, coney_call *call)
{
    struct admin_op *admin;
    if (call == NULL)
        return CONEY_EINVAL;
    coney_status status = admin_named(env, "read the offset stored for stream", stream, name, call, &admin);
    if (status != CONEY_OK)
        return status;
    set_offset_query(admin);
    admin->take = take_offset;
    return run(admin, call);
}

static void take_stored_offset(struct admin_op *admin, const struct stream_frame *answer)
{
    if (answer->query_offset_answer.offset == admin->offset)
        op_end(&admin->op, CONEY_OK, 0, admin->offset, NULL);
    else
        op_end(&admin->op, CONEY_EBROKER, 0, answer->query_offset_answer.offset,
               "the offset did not read back as it was stored: another consumer uses the name, or the user may not store it");
}

/* A store has no answer; the query behind it on the same connection sees it, or why it was not taken. */
static void query_after_store(void *ctx, coney_status status, const struct stream_frame *answer, const char *text)
{
    (void)answer;
    struct admin_op *admin = ctx;
    struct conn *control = admin->env->control.conn;
    if (status == CONEY_OK && control != NULL && control->state == CONN_READY && !op_ended(&admin->op)) {
        struct stream_frame store = {
            .key = STREAM_STORE_OFFSET,
            .version = 1,
            .store_offset = {.reference = reference_of(admin), .stream = stream_of(admin), .offset = admin->offset}};
        stream_conn_send(control, &store);
        set_offset_query(admin);
        admin->take = take_stored_offset;
        ask(admin);
        op_unref(&admin->op);
        return;
    }
    answered(ctx, status == CONEY_OK ? CONEY_ELOST : status, NULL, text);
}

static void store_begin(struct op *op)
{
    struct admin_op *admin = of_op(op);
    ask_metadata(admin);
    op_ref(op);
    if (control_request(admin->env, &admin->request, op->deadline, query_after_store, admin))
        return;
    op_end(op, CONEY_ENOMEM, 0, 0, NULL);
    op_unref(op);
}

coney_status coney_stream_store_offset(coney_stream_env *env, const char *stream, const char *name, uint64_t offset,
                                       coney_call *call)
{
    struct admin_op *admin;
    if (offset == UINT64_MAX)
        return op_refuse(call, CONEY_EINVAL, "the offset to be stored is UINT64_MAX, which is no offset of a message");
    coney_status status = admin_named(env, "store an offset of stream", stream, name, call, &admin);
    if (status != CONEY_OK)
        return status;
    admin->op.begin = store_begin;
    admin->offset = offset;
    return run(admin, call);
}

static void take_sequence(struct admin_op *admin, const struct stream_frame *answer)
{
    op_end(&admin->op, CONEY_OK, 0, answer->query_publisher_sequence_answer.sequence, NULL);
}

coney_status coney_stream_query_publishing_id(coney_stream_env *env, const char *stream, const char *name, coney_call *call)
{
    struct admin_op *admin;
    if (call == NULL)
        return CONEY_EINVAL;
    coney_status status = admin_named(env, "read the last publishing id of stream", stream, name, call, &admin);
    if (status != CONEY_OK)
        return status;
    admin->request =
        (struct stream_frame){.key = STREAM_QUERY_PUBLISHER_SEQUENCE,
                              .query_publisher_sequence = {.reference = reference_of(admin), .stream = stream_of(admin)}};
    admin->take = take_sequence;
    return run(admin, call);
}
