/* node.h: real RabbitMQ nodes for tests: the shared one, and one of a test's own that it may kill, stop and alarm.
 *
 *     if (!node_shared(&node))          // CONEY_TEST_URI names it
 *         return 77;                    // ctest: skipped
 *
 *     node_start(&node, "recovery");    // through the script that CONEY_BROKER_SCRIPT names
 *     node_kill(&node);                 // as a power cut
 *     node_restart(&node);              // on its data and its ports
 *     node_stop(&node);                 // and nothing is left
 *
 * For one thread. What fails fails the test with the command's words.
 */
#ifndef CONEY_TEST_NODE_H
#define CONEY_TEST_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct node {
    char name[40]; /* "" of the shared node */
    char uri[300];
    char ctl[512]; /* the command that runs rabbitmqctl on it; "" when there is none */
    uint16_t stream_port;
    uint16_t amqp_port;
    uint16_t stream_tls_port; /* 0: it has no TLS */
    uint16_t amqps_port;
    char tls[300]; /* the folder with ca.pem, server.pem, client.pem and their .key */
    pid_t pid;
};

/* The node that tests share. False when the environment names none. */
bool node_shared(struct node *node);

/* Starts one of this name, empty. `options` goes to the script as it stands ("" for none). False when there is no script. */
bool node_start(struct node *node, const char *name, const char *options);

/* kill -9, returns when it is gone; a start on the same data; SIGTERM; SIGTERM and its directory removed. */
void node_kill(struct node *node);
void node_restart(struct node *node);
void node_shut(struct node *node);
void node_remove(struct node *node);

/* Returns when what was declared on it is on its disk: until then, for two seconds or so, a kill may lose it. */
void node_write_down(const struct node *node);

/* A signal to the node's process. */
void node_signal(const struct node *node, int signal);

/* Runs rabbitmqctl, or another of its tools when the first word names one, with the arguments that the format makes (a shell
 * reads them). What it printed: the caller frees it. Tried again when it fails, five times at most: the broker's lists break off
 * when what they list goes away meanwhile. */
char *node_ctl(const struct node *node, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same, once, when only its success counts. */
void node_do(const struct node *node, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
