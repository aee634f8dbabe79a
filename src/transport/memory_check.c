/* memory_check.c: what is wrong with a description of the broker in memory; a stand-in asks the transport that it stands in for: see memory_bus.h. */
#include "transport/memory_bus.h"
#include "transport/memory_match.h"

static bool keeps(const struct bus *bus)
{
    return bus->options.retain_messages > 0 || bus->options.retain_bytes > 0;
}

void memory_check_broker(void *self, struct mistakes *mistakes)
{
    const struct bus *bus = self;
    if (bus->real != NULL && bus->real->check_broker != NULL)
        bus->real->check_broker(bus->real_self, mistakes);
    if (bus->face != FACE_MEMORY)
        return;
    if (bus->options_status != CONEY_OK)
        mistake(mistakes, "options",
                "hold bytes that are not zero and that this version does not know: it is older than its header");
    if (bus->options.retain_messages < 0)
        mistake(mistakes, "retain_messages", "is %lld; it is a number of messages, or 0 for none",
                (long long)bus->options.retain_messages);
    if (bus->options.retain_bytes < 0)
        mistake(mistakes, "retain_bytes", "is %lld; it is a number of bytes, or 0 for no bound",
                (long long)bus->options.retain_bytes);
    if (bus->broker != NULL && bus->broker->declarations != NULL)
        mistake(mistakes, "declarations",
                "exchanges, queues and streams are a server's; a broker in memory has topics, and they need none");
}

static void check_start(const struct bus *bus, const coney_topic_source *topic, struct mistakes *mistakes)
{
    if (topic->start == CONEY_STREAM_NEXT)
        return;
    if ((unsigned)topic->start > CONEY_STREAM_TIMESTAMP)
        mistake(mistakes, "source.start", "is %d, which is no position", (int)topic->start);
    else if (memory_topic_is_pattern(coney_bytes_str(topic->name)))
        mistake(mistakes, "source.start",
                "a pattern begins at the next message; only a single topic can be read from an earlier one");
    else if (!keeps(bus))
        mistake(mistakes, "source.start", "the broker keeps no messages: set retain_messages or retain_bytes of its options");
}

void memory_check_source(void *self, const coney_subscription *subscription, struct mistakes *mistakes)
{
    const struct bus *bus = self;
    if (bus->real != NULL) {
        bus->real->check_source(bus->real_self, subscription, mistakes);
        return;
    }
    if (subscription->source.kind != CONEY_SOURCE_TOPIC) {
        mistake(mistakes, "source", "a broker in memory has topics: CONEY_TOPIC(\"name\")");
        return;
    }
    const coney_topic_source *topic = subscription->source.of;
    if (topic->name == NULL || *topic->name == '\0')
        mistake(mistakes, "source.name", "is missing: a topic, or a pattern");
    else if (!memory_topic_is_valid(coney_bytes_str(topic->name)))
        mistake(mistakes, "source.name",
                "'%s' is no topic and no pattern: words between dots, none of them empty; `*` stands for one word, `>` at the "
                "end for one or "
                "more",
                topic->name);
    else
        check_start(bus, topic, mistakes);
    if (topic->max_waiting < 0)
        mistake(mistakes, "source.max_waiting", "is %lld; at least 1 message, or 0 for 10,000", (long long)topic->max_waiting);
}

void memory_check_publisher(void *self, const coney_publisher_options *options, struct mistakes *mistakes)
{
    const struct bus *bus = self;
    if (bus->real != NULL) {
        bus->real->check_publisher(bus->real_self, options, mistakes);
        return;
    }
    if (options->exchange != NULL && *options->exchange != '\0')
        mistake(mistakes, "exchange", "is '%s'; a broker in memory has topics and no exchanges", options->exchange);
    if (options->to != NULL && memory_topic_is_pattern(coney_bytes_str(options->to)))
        mistake(mistakes, "to", "is '%s', a pattern; messages go to single topics", options->to);
    if (options->expiration != 0)
        mistake(mistakes, "expiration", "messages of a broker in memory do not expire");
    if (options->has_priority)
        mistake(mistakes, "priority", "a broker in memory keeps the order of messages and knows no priorities");
}
