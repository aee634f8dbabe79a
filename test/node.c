#define _GNU_SOURCE
#include "node.h"

#include "support.h"

#include <signal.h>
#include <sys/wait.h>

#define OUTPUT_CAP (1 << 20)

/* Runs a shell command; gives what it printed, which the caller frees, and its exit code, or -1 after a signal. */
static char *run(const char *command, int *code)
{
    char *all = malloc(OUTPUT_CAP);
    FILE *pipe = popen(command, "re");
    if (all == NULL || pipe == NULL)
        fail_msg("cannot run: %s", command);
    size_t len = 0;
    size_t more;
    while (len < OUTPUT_CAP - 1 && (more = fread(all + len, 1, OUTPUT_CAP - 1 - len, pipe)) > 0)
        len += more;
    all[len] = '\0';
    int status = pclose(pipe);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return all;
}

/* What a command printed that succeeded within this many attempts. */
static char *printed_by(const char *command, int attempts)
{
    for (;;) {
        int code;
        char *all = run(command, &code);
        if (code == 0)
            return all;
        if (--attempts == 0)
            fail_msg("%s failed (%d): %s", command, code, all);
        free(all);
    }
}

static const char *script(void)
{
    return getenv("CONEY_BROKER_SCRIPT");
}

/* script/broker with a command for the node. */
static char *broker(const struct node *node, const char *command, const char *options)
{
    char line[1024];
    snprintf(line, sizeof line, "'%s' %s --name %s %s 2>&1", script(), command, node->name, options);
    return printed_by(line, 1);
}

/* The value of NAME in lines like "export NAME=value", as the shell printed it. */
static void value_of(const char *lines, const char *name, char *out, size_t cap)
{
    char key[64];
    snprintf(key, sizeof key, "export %s=", name);
    const char *at = strstr(lines, key);
    if (at == NULL)
        fail_msg("the broker script names no %s: %s", name, lines);
    at += strlen(key);
    size_t len = strcspn(at, "\n");
    snprintf(out, cap, "%.*s", (int)len, at);
}

static void read_tls_environment(struct node *node, const char *lines)
{
    char number[24];
    if (strstr(lines, "export CONEY_TLS=") == NULL)
        return;
    value_of(lines, "CONEY_TLS", node->tls, sizeof node->tls);
    value_of(lines, "CONEY_STREAM_TLS_PORT", number, sizeof number);
    node->stream_tls_port = (uint16_t)strtoul(number, NULL, 10);
    value_of(lines, "CONEY_AMQPS_PORT", number, sizeof number);
    node->amqps_port = (uint16_t)strtoul(number, NULL, 10);
}

static void read_environment(struct node *node)
{
    char *lines = broker(node, "env", "");
    char number[24];
    value_of(lines, "CONEY_URI", node->uri, sizeof node->uri);
    value_of(lines, "RABBITMQCTL", node->ctl, sizeof node->ctl);
    value_of(lines, "CONEY_STREAM_PORT", number, sizeof number);
    node->stream_port = (uint16_t)strtoul(number, NULL, 10);
    value_of(lines, "CONEY_AMQP_PORT", number, sizeof number);
    node->amqp_port = (uint16_t)strtoul(number, NULL, 10);
    value_of(lines, "CONEY_NODE_PID", number, sizeof number);
    node->pid = (pid_t)strtol(number, NULL, 10);
    read_tls_environment(node, lines);
    free(lines);
}

static const char *from_environment(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? value : "";
}

bool node_shared(struct node *node)
{
    *node = (struct node){0};
    snprintf(node->uri, sizeof node->uri, "%s", from_environment("CONEY_TEST_URI"));
    snprintf(node->ctl, sizeof node->ctl, "%s", from_environment("RABBITMQCTL"));
    node->stream_port = (uint16_t)strtoul(from_environment("CONEY_STREAM_PORT"), NULL, 10);
    node->amqp_port = (uint16_t)strtoul(from_environment("CONEY_AMQP_PORT"), NULL, 10);
    node->stream_tls_port = (uint16_t)strtoul(from_environment("CONEY_STREAM_TLS_PORT"), NULL, 10);
    node->amqps_port = (uint16_t)strtoul(from_environment("CONEY_AMQPS_PORT"), NULL, 10);
    snprintf(node->tls, sizeof node->tls, "%s", from_environment("CONEY_TLS"));
    node->pid = (pid_t)strtol(from_environment("CONEY_NODE_PID"), NULL, 10);
    return node->uri[0] != '\0';
}

bool node_start(struct node *node, const char *name, const char *options)
{
    *node = (struct node){0};
    if (script() == NULL)
        return false;
    snprintf(node->name, sizeof node->name, "%s", name);
    free(broker(node, "stop", "--purge"));
    free(broker(node, "start", options));
    read_environment(node);
    return true;
}

void node_kill(struct node *node)
{
    free(broker(node, "kill", ""));
    node->pid = 0;
}

void node_restart(struct node *node)
{
    free(broker(node, "start", ""));
    read_environment(node);
}

void node_shut(struct node *node)
{
    free(broker(node, "stop", ""));
    node->pid = 0;
}

void node_remove(struct node *node)
{
    free(broker(node, "stop", "--purge"));
    node->pid = 0;
}

void node_signal(const struct node *node, int signal)
{
    if (node->pid <= 1 || kill(node->pid, signal) != 0)
        fail_msg("cannot send signal %d to node '%s', pid %ld", signal, node->name, (long)node->pid);
}

static char *run_ctl(const struct node *node, int attempts, const char *format, va_list arguments)
{
    char words[1024];
    char line[2048];
    if (node->ctl[0] == '\0')
        skip();
    vsnprintf(words, sizeof words, format, arguments);
    snprintf(line, sizeof line, "%s %s 2>&1", node->ctl, words);
    return printed_by(line, attempts);
}

char *node_ctl(const struct node *node, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *output = run_ctl(node, 5, format, arguments);
    va_end(arguments);
    return output;
}

void node_do(const struct node *node, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    free(run_ctl(node, 1, format, arguments));
    va_end(arguments);
}

void node_write_down(const struct node *node)
{
    /* one without Mnesia writes at once, and says so; the others are the names of quorum queues */
    node_do(node, "-q eval 'mnesia:sync_log(), [dets:sync(Table) || Table <- dets:all()].'");
}
