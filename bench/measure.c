/* measure.c: see measure.h. */
#include "measure.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct option_row {
    const char *name;
    size_t at;
    bool is_text;
};

static uint64_t option_number(const char *name, const char *text)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || text[0] < '0' || text[0] > '9')
        die("%s wants a whole number, not '%s'", name, text);
    return value;
}

/* Reads `--name value` pairs from argv[2] on; argv[1] is the sub-command. */
static struct options parse_options(int argc, char **argv)
{
    static const struct option_row rows[] = {
        {"--uri", offsetof(struct options, uri), true},
        {"--stream", offsetof(struct options, stream), true},
        {"--queue", offsetof(struct options, queue), true},
        {"--type", offsetof(struct options, type), true},
        {"--ca", offsetof(struct options, ca), true},
        {"--size", offsetof(struct options, size), false},
        {"--count", offsetof(struct options, count), false},
        {"--messages", offsetof(struct options, messages), false},
        {"--rate", offsetof(struct options, rate), false},
        {"--seconds", offsetof(struct options, seconds), false},
        {"--window", offsetof(struct options, window), false},
        {"--frame", offsetof(struct options, frame), false},
        {"--credit", offsetof(struct options, credit), false},
        {"--passes", offsetof(struct options, passes), false},
        {"--handles", offsetof(struct options, handles), false},
        {"--skip-crc", offsetof(struct options, skip_crc), false},
        {"--prefetch", offsetof(struct options, prefetch), false},
        {"--ack-each", offsetof(struct options, ack_each), false},
        {"--on-loop", offsetof(struct options, on_loop), false},
        {"--json", offsetof(struct options, json), false},
        {"--reply", offsetof(struct options, reply), false},
    };
    struct options options = {
        .uri = getenv("CONEY_URI"),
        .type = "classic",
        .size = 12,
        .messages = 50,
        .rate = 1,
        .seconds = 10,
        .credit = 10,
        .passes = 1,
        .prefetch = 512,
    };
    for (int i = 2; i < argc; i += 2) {
        const struct option_row *row = rows, *end = rows + sizeof rows / sizeof rows[0];
        while (row < end && strcmp(row->name, argv[i]) != 0)
            row++;
        if (row == end)
            die("unknown option '%s'", argv[i]);
        if (i + 1 == argc)
            die("%s wants a value", argv[i]);
        char *field = (char *)&options + row->at;
        uint64_t number = row->is_text ? 0 : option_number(row->name, argv[i + 1]);
        memcpy(field, row->is_text ? (void *)&argv[i + 1] : (void *)&number, row->is_text ? sizeof(char *) : sizeof number);
    }
    if (options.uri == NULL)
        options.uri = "rabbitmq-stream://guest:guest@localhost:5552";
    return options;
}

static int sample_order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The sample that stands behind `share` of all samples. Wants them sorted, and at least one. */
static double sample_ms(const struct samples *samples, double share)
{
    size_t below = (size_t)(share * (double)samples->count);
    return (double)samples->ns[below < samples->count ? below : samples->count - 1] / 1e6;
}

void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void *must_alloc(size_t size)
{
    void *memory = malloc(size);
    if (memory == NULL)
        die("%zu bytes of memory could not be had", size);
    return memory;
}

int run_command(const struct command *commands, size_t count, int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < count; i++) {
        if (strcmp(commands[i].name, argv[1]) != 0)
            continue;
        struct options options = parse_options(argc, argv);
        commands[i].run(&options);
        return 0;
    }
    fprintf(stderr, "usage: %s", argv[0]);
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "%c%s", i == 0 ? ' ' : '|', commands[i].name);
    fputs(" [--option value]...\n", stderr);
    return 2;
}

const char *own_stream(const char *side)
{
    static char name[64];
    snprintf(name, sizeof name, "bench-%s-%d", side, (int)getpid());
    return name;
}

const char *given_stream(const struct options *options)
{
    if (options->stream == NULL)
        die("--stream is needed");
    return options->stream;
}

const char *given_queue(const struct options *options)
{
    if (options->queue == NULL)
        die("--queue is needed");
    return options->queue;
}

void let_acks_arrive(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
}

struct samples samples_of(size_t cap)
{
    struct samples samples = {.ns = must_alloc(cap * sizeof *samples.ns), .count = 0, .cap = cap};
    memset(samples.ns, 0, cap * sizeof *samples.ns);
    return samples;
}

void samples_free(struct samples *samples)
{
    free(samples->ns);
    *samples = (struct samples){0};
}

void print_latency(const char *side, const char *row, const struct samples *all, size_t warmup)
{
    if (all->count <= warmup)
        die("%zu messages arrived, all of them in the warm-up", all->count);
    struct samples s = {.ns = all->ns + warmup, .count = all->count - warmup, .cap = all->count - warmup};
    double sum = 0;
    for (size_t i = 0; i < s.count; i++)
        sum += (double)s.ns[i] / 1e6;
    qsort(s.ns, s.count, sizeof *s.ns, sample_order);
    printf("{\"side\": \"%s\", \"row\": \"%s\", \"messages\": %zu, \"average_ms\": %.4f, \"p50_ms\": %.4f, "
           "\"p99_ms\": %.4f, \"p999_ms\": %.4f, \"max_ms\": %.4f}\n",
           side, row, s.count, sum / (double)s.count, sample_ms(&s, 0.5), sample_ms(&s, 0.99), sample_ms(&s, 0.999),
           sample_ms(&s, 1));
}

void print_rate(const char *side, const char *row, const char *rate_name, uint64_t size, uint64_t messages, uint64_t ns)
{
    double seconds = (double)ns / 1e9;
    printf("{\"side\": \"%s\", \"row\": \"%s\", \"size\": %" PRIu64 ", \"messages\": %" PRIu64 ", \"seconds\": %.4f, "
           "\"%s\": %.0f}\n",
           side, row, size, messages, seconds, rate_name, (double)messages / seconds);
}
