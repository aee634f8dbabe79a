/* Services as processes of their own (this program, started again with a role), ended by signals while they have work in hand. */
#define _GNU_SOURCE
#include "amqp_scene.h"
#include "shop.h"
#include "stage.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ORDER(F) F(u64, id) F(string, customer) F(u16, count)
CONEY_MESSAGE(order, ORDER);

enum { HUNDRED = 100, THOUSANDS = 3000 };

/* The service ----------------------------------------------------------------------------------------------------------- */

static void pause_ms(int64_t ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL); /* what is ended is work that takes its time */
}

static void say(const char *what, uint64_t id)
{
    char line[64];
    int len = snprintf(line, sizeof line, "%s %llu\n", what, (unsigned long long)id);
    if (write(STDOUT_FILENO, line, (size_t)len) < 0)
        abort();
}

static coney_settle take_slowly(coney_delivery *d, const order *o)
{
    (void)d;
    say("began", o->id);
    pause_ms(200);
    return CONEY_ACK;
}
CONEY_HANDLER(take_slowly, order);

static coney_settle hang(coney_delivery *d, const order *o)
{
    (void)d;
    say("began", o->id);
    pause_ms(600000);
    return CONEY_ACK;
}
CONEY_HANDLER(hang, order);

static coney_kept *kept[HUNDRED];

static coney_settle keep(coney_delivery *d, const order *o)
{
    kept[o->id] = coney_delivery_keep(d);
    say("began", o->id);
    return CONEY_KEPT;
}
CONEY_HANDLER(keep, order);

/* The work that was in hand is finished while the app stops. */
static void *settle_all(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < HUNDRED; i++) {
        pause_ms(1);
        (void)coney_kept_settle(&kept[i], CONEY_ACK);
    }
    return NULL;
}

static coney_status begin_to_settle(coney_app *app, void *ctx, coney_call *call)
{
    pthread_t thread;
    (void)app, (void)ctx, (void)call;
    if (pthread_create(&thread, NULL, settle_all, NULL) != 0)
        return CONEY_ENOMEM;
    pthread_detach(thread);
    return CONEY_OK;
}

static coney_settle count(coney_delivery *d, const order *o)
{
    (void)d;
    say("took", o->id);
    if (o->id % 10 == 0)
        pause_ms(2);
    return CONEY_ACK;
}
CONEY_HANDLER(count, order);

/* "serve ROLE AMQP-URI STREAM-URI SOURCE" */
static int serve(char **argv)
{
    const char *role = argv[2];
    const char *source = argv[5];
    coney_app *app = coney_app_new("till", "1.0.0");
    bool is_short = strcmp(role, "keep-for-ever") == 0;
    coney_app_configure(app, &(coney_app_options){.drain_timeout = is_short ? 300 * CONEY_MILLISECOND : 0});
    bool is_stream = strcmp(role, "stream") == 0;
    const coney_source stream = CONEY_STREAM(source, .start_if_new = CONEY_STREAM_FIRST, .store_every = 100);
    const coney_source queue = CONEY_QUEUE(source, .prefetch = HUNDRED);
    coney_subscription subscription = {.source = is_stream ? stream : queue,
                                       .handler = is_stream ? count_handler : take_slowly_handler};
    coney_broker *broker = is_stream ? coney_app_stream(app, argv[4], NULL) : coney_app_amqp(app, argv[3], NULL);
    if (strcmp(role, "lanes") == 0) {
        subscription.lanes = 10;
    } else if (strcmp(role, "hang") == 0) {
        subscription.handler = hang_handler;
    } else if (strncmp(role, "keep", 4) == 0) {
        subscription.handler = keep_handler;
        if (!is_short)
            coney_app_on(app, CONEY_BEFORE_STOP, begin_to_settle, NULL);
    }
    coney_subscribe(broker, &subscription);
    return coney_app_main(app, 1, argv);
}

/* The process ----------------------------------------------------------------------------------------------------------- */

static struct node node;
static struct desk desk;
static char orders[80];

struct child {
    pid_t pid;
    int out;
    char *text; /* what it has said, on both of its outputs */
    size_t len;
    int status;   /* of waitpid */
    int64_t took; /* ms, from the first signal to its end */
    int64_t signaled;
};

static void begin(struct child *child, const char *role)
{
    int ends[2];
    char *argv[] = {
        (char[]){"till"}, (char[]){"serve"}, strdup(role), strdup(amqp_uri(node.amqp_port)), node.uri, orders, NULL};
    memset(child, 0, sizeof *child);
    child->text = calloc(1, 1);
    assert_int_equal(pipe(ends), 0);
    child->pid = fork();
    assert_true(child->pid >= 0);
    if (child->pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        unsetenv("CONEY_LOG");
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    close(ends[1]);
    child->out = ends[0];
    free(argv[2]);
    free(argv[3]);
}

static size_t said(const struct child *child, const char *words)
{
    size_t times = 0;
    for (const char *at = strstr(child->text, words); at != NULL; at = strstr(at + 1, words))
        times++;
    return times;
}

/* Reads until it has said it so often; with NULL until it has nothing more to say. */
static void hear(struct child *child, const char *words, size_t times)
{
    int64_t until = now_ms() + scaled_ms(SUPPORT_PATIENCE);
    while (words == NULL || said(child, words) < times) {
        struct pollfd readable = {.fd = child->out, .events = POLLIN};
        char more[4096];
        if (poll(&readable, 1, (int)(until - now_ms() > 0 ? until - now_ms() : 0)) <= 0)
            fail_msg("the service has not said '%s' %zu times:\n%s", words != NULL ? words : "all", times, child->text);
        ssize_t count = read(child->out, more, sizeof more);
        if (count <= 0)
            break;
        child->text = realloc(child->text, child->len + (size_t)count + 1);
        memcpy(child->text + child->len, more, (size_t)count);
        child->len += (size_t)count;
        child->text[child->len] = '\0';
    }
    if (words != NULL && said(child, words) < times)
        fail_msg("the service ended before it said '%s' %zu times:\n%s", words, times, child->text);
}

static void send_signal(struct child *child, int number)
{
    if (child->signaled == 0)
        child->signaled = now_ms();
    assert_int_equal(kill(child->pid, number), 0);
}

static void end(struct child *child)
{
    hear(child, NULL, 0);
    assert_int_equal(waitpid(child->pid, &child->status, 0), child->pid);
    child->took = now_ms() - child->signaled;
    close(child->out);
}

static void exits_with(struct child *child, int status)
{
    end(child);
    if (!WIFEXITED(child->status) || WEXITSTATUS(child->status) != status)
        fail_msg("it ended with %x instead of exit status %d:\n%s", (unsigned)child->status, status, child->text);
}

static void is_ended_by(struct child *child, int number)
{
    end(child);
    if (!WIFSIGNALED(child->status) || WTERMSIG(child->status) != number)
        fail_msg("it ended with %x instead of signal %d:\n%s", (unsigned)child->status, number, child->text);
}

static void child_free(struct child *child)
{
    free(child->text);
}

static int set_up(void **state)
{
    (void)state;
    fresh_name(orders, sizeof orders, "orders");
    desk_declare(&desk, orders, CONEY_QUEUE_QUORUM);
    desk_put_orders(&desk, orders, 0, HUNDRED);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    desk_delete(&desk, orders);
    return 0;
}

/* Queues ---------------------------------------------------------------------------------------------------------------- */

static void N06_N07_SIGTERM_lets_ten_handlers_end_gives_ninety_back_and_reconnects_nothing(void **state)
{
    (void)state;
    struct child child;
    begin(&child, "lanes");
    hear(&child, "began ", 10);
    send_signal(&child, SIGTERM);
    exits_with(&child, 0);
    if (child.took >= scaled_ms(1000))
        fail_msg("it took %lld ms", (long long)child.took);
    assert_int_equal(said(&child, "began "), 10);
    assert_int_equal(said(&child, "recover"), 0);
    unsigned times[HUNDRED] = {0};
    desk_wait_for_ready(&desk, orders, 90);
    desk_collect(&desk, orders, 90, times, HUNDRED);
    for (uint64_t id = 0; id < HUNDRED; id++) { /* each was handled or given back, none both */
        char line[32];
        snprintf(line, sizeof line, "began %llu\n", (unsigned long long)id);
        assert_int_equal(times[id] + said(&child, line), 1);
    }
    child_free(&child);
}

static void SIGINT_stops_as_SIGTERM_does(void **state)
{
    (void)state;
    struct child child;
    begin(&child, "one");
    hear(&child, "began ", 1);
    send_signal(&child, SIGINT);
    exits_with(&child, 0);
    assert_int_equal(said(&child, "SIGINT: the app stops"), 1);
    assert_int_equal(said(&child, "began "), 1);
    desk_wait_for_ready(&desk, orders, 99);
    child_free(&child);
}

static void a_hundred_deliveries_in_hand_at_SIGTERM_are_acked_before_the_end(void **state)
{
    (void)state;
    struct child child;
    begin(&child, "keep");
    hear(&child, "began ", HUNDRED);
    send_signal(&child, SIGTERM);
    exits_with(&child, 0);
    desk_wait_for_ready(&desk, orders, 0);
    child_free(&child);
}

static void a_hundred_deliveries_that_nobody_settles_are_with_the_broker_and_the_exit_says_so(void **state)
{
    (void)state;
    struct child child;
    begin(&child, "keep-for-ever");
    hear(&child, "began ", HUNDRED);
    send_signal(&child, SIGTERM);
    exits_with(&child, 1);
    assert_int_not_equal(said(&child, "100 deliveries were not settled within drain_timeout (300 ms)"), 0);
    desk_wait_for_ready(&desk, orders, HUNDRED);
    child_free(&child);
}

static void a_second_SIGTERM_ends_it_at_once_and_the_message_in_hand_is_not_lost(void **state)
{
    (void)state;
    struct child child;
    begin(&child, "hang");
    hear(&child, "began ", 1);
    send_signal(&child, SIGTERM);
    hear(&child, "SIGTERM: the app stops; once more ends it at once", 1);
    send_signal(&child, SIGTERM);
    is_ended_by(&child, SIGTERM);
    if (child.took >= scaled_ms(1000))
        fail_msg("it took %lld ms", (long long)child.took);
    desk_wait_for_ready(&desk, orders, HUNDRED);
    child_free(&child);
}

static void SIGKILL_with_a_hundred_deliveries_in_hand_loses_none(void **state)
{
    (void)state;
    struct child child;
    begin(&child, "keep");
    hear(&child, "began ", HUNDRED);
    send_signal(&child, SIGKILL);
    is_ended_by(&child, SIGKILL);
    desk_wait_for_ready(&desk, orders, HUNDRED);
    child_free(&child);
}

/* Streams --------------------------------------------------------------------------------------------------------------- */

/* Counts the messages that it took. */
static void count_into(const struct child *child, unsigned *times)
{
    for (const char *at = strstr(child->text, "took "); at != NULL; at = strstr(at + 1, "took ")) {
        unsigned long id = strtoul(at + 5, NULL, 10);
        assert_true(id < THOUSANDS);
        times[id]++;
    }
}

/* Two services, one after the other; the first is ended in the middle. */
static void read_in_two(int number, unsigned *times)
{
    struct child first, second;
    desk_delete(&desk, orders);
    assert_int_equal(coney_stream_create(desk.streams, orders, NULL, NULL), CONEY_OK);
    desk_store_orders(&desk, orders, 0, THOUSANDS);
    begin(&first, "stream");
    hear(&first, "took ", 700);
    send_signal(&first, number);
    if (number == SIGTERM)
        exits_with(&first, 0);
    else
        is_ended_by(&first, number);
    assert_in_range(said(&first, "took "), 700, THOUSANDS - 1);
    begin(&second, "stream");
    char last[32];
    snprintf(last, sizeof last, "took %d\n", THOUSANDS - 1);
    hear(&second, last, 1);
    send_signal(&second, SIGTERM);
    exits_with(&second, 0);
    count_into(&first, times);
    count_into(&second, times);
    child_free(&first);
    child_free(&second);
    coney_stream_delete(desk.streams, orders, NULL);
}

static void after_SIGTERM_a_stream_goes_on_where_it_was_and_nothing_comes_twice(void **state)
{
    (void)state;
    unsigned times[THOUSANDS] = {0};
    read_in_two(SIGTERM, times);
    for (size_t id = 0; id < THOUSANDS; id++)
        assert_int_equal(times[id], 1);
}

static void after_SIGKILL_a_stream_goes_on_from_the_stored_offset_and_nothing_is_missed(void **state)
{
    (void)state;
    unsigned times[THOUSANDS] = {0};
    read_in_two(SIGKILL, times);
    for (size_t id = 0; id < THOUSANDS; id++)
        assert_in_range(times[id], 1, 2);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "serve") == 0)
        return serve(argv);
    if (!node_shared(&node))
        return 77;
    desk_open(&desk, &node);
    const struct CMUnitTest tests[] = {
        TEST(N06_N07_SIGTERM_lets_ten_handlers_end_gives_ninety_back_and_reconnects_nothing),
        TEST(SIGINT_stops_as_SIGTERM_does),
        TEST(a_hundred_deliveries_in_hand_at_SIGTERM_are_acked_before_the_end),
        TEST(a_hundred_deliveries_that_nobody_settles_are_with_the_broker_and_the_exit_says_so),
        TEST(a_second_SIGTERM_ends_it_at_once_and_the_message_in_hand_is_not_lost),
        TEST(SIGKILL_with_a_hundred_deliveries_in_hand_loses_none),
        TEST(after_SIGTERM_a_stream_goes_on_where_it_was_and_nothing_comes_twice),
        TEST(after_SIGKILL_a_stream_goes_on_from_the_stored_offset_and_nothing_is_missed),
    };
    int failed = run_tests(tests);
    desk_close(&desk);
    return failed;
}
