/* stream_admin.c: coney stream create, delete, stats, metadata. */
#include "ends.h"
#include "figures.h"

#include <inttypes.h>
#include <string.h>

int stream_create_run(const struct settings *settings)
{
    if (settings->max_age % CONEY_SECOND != 0)
        return complain(EXIT_USAGE, "--max-age takes whole seconds");
    struct session s;
    int code = session_open(&s, &stream_protocol, settings);
    if (code != EXIT_DONE)
        return code;
    const coney_stream_spec spec = {
        .max_length = settings->max_length,
        .max_age = settings->max_age,
        .max_segment_size = settings->segment,
        .leader_locator = settings->leader_locator,
        .initial_cluster_size = settings->cluster_size,
        .if_missing = settings->if_missing,
    };
    coney_call call = {0};
    coney_stream_create(s.env, settings->stream, &spec, &call);
    return session_close(&s, session_answer(&call));
}

int stream_delete_run(const struct settings *settings)
{
    struct session s;
    int code = session_open(&s, &stream_protocol, settings);
    if (code != EXIT_DONE)
        return code;
    coney_call call = {0};
    coney_status status = coney_stream_delete(s.env, settings->stream, &call);
    bool gone = status == CONEY_ENOTFOUND && settings->if_exists;
    return session_close(&s, gone ? EXIT_DONE : session_answer(&call));
}

int stream_stats_run(const struct settings *settings)
{
    struct session s;
    int code = session_open(&s, &stream_protocol, settings);
    if (code != EXIT_DONE)
        return code;
    coney_call call = {0};
    coney_stream_stats stats;
    if (coney_stream_get_stats(s.env, settings->stream, &stats, &call) == CONEY_OK) {
        struct figures f;
        figures_begin(&f, settings->json);
        figures_signed(&f, "first_offset", stats.first_offset);
        figures_signed(&f, "committed_chunk_offset", stats.committed_chunk_offset);
        figures_signed(&f, "committed_offset", stats.committed_offset);
        figures_signed(&f, "last_chunk_offset", stats.last_chunk_offset);
        figures_end(&f);
    }
    return session_close(&s, session_answer(&call));
}

static const char *address(const coney_stream_node *node, char into[static 300])
{
    bool ipv6 = strchr(node->host, ':') != NULL;
    snprintf(into, 300, ipv6 ? "[%s]:%" PRIu16 : "%s:%" PRIu16, node->host, node->port);
    return into;
}

static void put_metadata(const coney_stream_metadata *metadata, bool as_json)
{
    char text[300];
    struct figures f;
    figures_begin(&f, as_json);
    if (metadata->leader.host[0] != '\0')
        figures_text(&f, "leader", address(&metadata->leader, text));
    else if (as_json)
        json_null(&f.json, "leader");
    else
        figures_text(&f, "leader", "none");
    if (as_json)
        json_array(&f.json, "replicas");
    for (uint64_t i = 0; i < metadata->replica_count && i < CONEY_STREAM_REPLICAS; i++)
        figures_text(&f, as_json ? NULL : "replica", address(&metadata->replicas[i], text));
    if (as_json)
        json_close(&f.json);
    figures_end(&f);
}

int stream_metadata_run(const struct settings *settings)
{
    struct session s;
    int code = session_open(&s, &stream_protocol, settings);
    if (code != EXIT_DONE)
        return code;
    coney_call call = {0};
    coney_stream_metadata metadata;
    if (coney_stream_get_metadata(s.env, settings->stream, &metadata, &call) == CONEY_OK)
        put_metadata(&metadata, settings->json);
    return session_close(&s, session_answer(&call));
}
