/* main_test.c: what a service's main prints and returns: each in a child, as a process is. */
#define _GNU_SOURCE
#include "service/app.h"
#include "service/service_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static coney_settle ack(coney_delivery *d, coney_bytes body)
{
    (void)d;
    (void)body;
    return CONEY_ACK;
}
CONEY_RAW_HANDLER(ack);

/* A child that runs coney_app_main, and what it says on both of its outputs. */
struct child {
    pid_t pid;
    int out;
    char text[16384];
    int status; /* of waitpid */
};

/* How the child's app differs from one in which all is well. */
struct variant {
    const char *fail_at;
    bool has_mistake;
    bool fails; /* a policy stops it */
    bool hangs; /* at the stop, until it is killed */
    const char *description;
};

static coney_status fail_soon(coney_app *app, void *ctx, coney_call *call)
{
    (void)ctx;
    (void)call;
    app_fail(app, CONEY_EREFUSED, "the policy of subscription 'orders' says so");
    return CONEY_OK;
}

static coney_status hang(coney_app *app, void *ctx, coney_call *call)
{
    (void)app;
    (void)ctx;
    (void)call;
    app_log(app, CONEY_LOG_INFO, "hanging");
    for (;;)
        pause();
    return CONEY_OK;
}

static int serve(const struct variant *variant, int argc, char **argv)
{
    static struct fake fake;
    fake.fail_at = variant->fail_at;
    coney_app *app = coney_app_new("orders", "1.2.3");
    coney_app_configure(app, &(coney_app_options){.description = variant->description});
    if (variant->fails)
        coney_app_on(app, CONEY_AFTER_START, fail_soon, NULL);
    if (variant->hangs)
        coney_app_on(app, CONEY_BEFORE_STOP, hang, NULL);
    coney_broker *broker = fake_broker(app, &fake);
    coney_subscribe(broker, &(coney_subscription){.source = CONEY_QUEUE("orders"),
                                                  .handler = ack_handler,
                                                  .lanes = variant->has_mistake ? -1 : 1,
                                                  .max_attempts = variant->has_mistake ? -1 : 0});
    return coney_app_main(app, argc, argv);
}

static void begin(struct child *child, const struct variant *variant, const char *argument)
{
    memset(child, 0, sizeof *child);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    child->pid = fork();
    assert_true(child->pid >= 0);
    if (child->pid == 0) {
        char *argv[8] = {(char[]){"./orders"}};
        int argc = 1;
        for (char *rest = (char *)(uintptr_t)argument, *word; rest != NULL && (word = strsep(&rest, " ")) != NULL;)
            argv[argc++] = word;
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        setvbuf(stdout, NULL, _IONBF, 0);
        unsetenv("CONEY_LOG");
        int result = serve(variant, argc, argv);
        _exit(result);
    }
    close(ends[1]);
    child->out = ends[0];
}

/* Reads until `text` was said, or with NULL to the end. */
static void hear(struct child *child, const char *text)
{
    size_t len = strlen(child->text);
    while (text == NULL || strstr(child->text, text) == NULL) {
        ssize_t more = read(child->out, child->text + len, sizeof child->text - 1 - len);
        if (more <= 0)
            break;
        len += (size_t)more;
        child->text[len] = '\0';
    }
    if (text != NULL && strstr(child->text, text) == NULL)
        fail_msg("expected '%s', the child said:\n%s", text, child->text);
}

static void end(struct child *child)
{
    hear(child, NULL);
    close(child->out);
    assert_int_equal(waitpid(child->pid, &child->status, 0), child->pid);
}

static void expect_exit(const struct child *child, int status)
{
    if (!WIFEXITED(child->status) || WEXITSTATUS(child->status) != status)
        fail_msg("expected exit status %d, found wait status %#x after:\n%s", status, (unsigned)child->status, child->text);
}

static void expect_said(const struct child *child, const char *text)
{
    if (strstr(child->text, text) == NULL)
        fail_msg("expected '%s', the child said:\n%s", text, child->text);
}

static void a_service_runs_until_a_signal_and_exits_with_0(void **state)
{
    (void)state;
    static const int signals[] = {SIGTERM, SIGINT};
    static const char *const arguments[] = {NULL, "run"};
    for (int i = 0; i < 2; i++) {
        struct child child;
        begin(&child, &(struct variant){0}, arguments[i]);
        hear(&child, "level=info msg=\"orders 1.2.3 has started\"");
        kill(child.pid, signals[i]);
        end(&child);
        expect_exit(&child, 0);
        expect_said(&child, i == 0 ? "msg=\"SIGTERM: " : "msg=\"SIGINT: ");
        expect_said(&child, "msg=\"orders has stopped\"");
    }
}

static void a_second_signal_ends_the_process_at_once(void **state)
{
    (void)state;
    struct child child;
    begin(&child, &(struct variant){.hangs = true}, NULL);
    hear(&child, "has started");
    kill(child.pid, SIGTERM);
    hear(&child, "hanging");
    kill(child.pid, SIGINT);
    end(&child);
    assert_true(WIFSIGNALED(child.status));
    assert_int_equal(WTERMSIG(child.status), SIGINT);
}

static void a_start_that_fails_is_status_1_with_its_reason(void **state)
{
    (void)state;
    struct child child;
    begin(&child, &(struct variant){.fail_at = "connect"}, "run");
    end(&child);
    expect_exit(&child, 1);
    expect_said(&child, "orders: cannot start: broker 'fake': the fake was told to fail at connect\n");
}

static void a_policy_that_stops_is_status_1_with_its_reason(void **state)
{
    (void)state;
    struct child child;
    begin(&child, &(struct variant){.fails = true}, NULL);
    end(&child);
    expect_exit(&child, 1);
    expect_said(&child, "orders: stopped: the policy of subscription 'orders' says so\n");
    expect_said(&child, "orders has stopped");
}

static void a_stop_that_fails_is_status_1(void **state)
{
    (void)state;
    struct child child;
    begin(&child, &(struct variant){.fail_at = "disconnect"}, NULL);
    hear(&child, "has started");
    kill(child.pid, SIGTERM);
    end(&child);
    expect_exit(&child, 1);
    expect_said(&child, "orders: while stopping: broker 'fake': ");
}

static void check_prints_every_mistake_and_connects_to_nothing(void **state)
{
    (void)state;
    struct child child;
    begin(&child, &(struct variant){.has_mistake = true}, "check");
    end(&child);
    expect_exit(&child, 1);
    expect_said(&child, "subscription 'orders': lanes: -1");
    expect_said(&child, "\nsubscription 'orders': max_attempts: -1");
    expect_said(&child, "\n2 mistakes\n");
    begin(&child, &(struct variant){.fail_at = "connect"}, "check");
    end(&child);
    expect_exit(&child, 0);
    assert_string_equal(child.text, "orders 1.2.3: all is well\n");
}

static void a_service_with_mistakes_does_not_run(void **state)
{
    (void)state;
    struct child child;
    begin(&child, &(struct variant){.has_mistake = true}, NULL);
    end(&child);
    expect_exit(&child, 1);
    expect_said(&child, "level=error msg=\"subscription 'orders': lanes: -1");
    expect_said(&child, "orders: cannot start: ");
}

static void help_and_version_are_status_0_and_anything_else_is_2(void **state)
{
    (void)state;
    struct child child;
    begin(&child, &(struct variant){.description = "Settles orders."}, "--help");
    end(&child);
    expect_exit(&child, 0);
    expect_said(&child, "Settles orders.\n\nusage: orders [run | check | --help | --version] [-- ARGUMENT...]\n");
    begin(&child, &(struct variant){0}, "-h");
    end(&child);
    expect_exit(&child, 0);
    begin(&child, &(struct variant){0}, "--version");
    end(&child);
    expect_exit(&child, 0);
    expect_said(&child, "orders 1.2.3 (coney ");
    begin(&child, &(struct variant){0}, "rum");
    end(&child);
    expect_exit(&child, 2);
    expect_said(&child, "orders: unknown argument 'rum'\nusage: ");
}

static void what_stands_behind_two_dashes_is_left_to_the_program(void **state)
{
    (void)state;
    struct child child;
    begin(&child, &(struct variant){0}, (char[]){"check -- --verbose file"});
    end(&child);
    expect_exit(&child, 0);
    expect_said(&child, "all is well");
    begin(&child, &(struct variant){.fail_at = "connect"}, (char[]){"-- check"});
    end(&child);
    expect_exit(&child, 1);
    expect_said(&child, "orders: cannot start: ");
    begin(&child, &(struct variant){0}, (char[]){"check more -- file"});
    end(&child);
    expect_exit(&child, 2);
    expect_said(&child, "orders: unknown argument 'more'\nusage: ");
}

static void no_app_is_status_1(void **state)
{
    (void)state;
    assert_int_equal(coney_app_main(NULL, 0, NULL), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_service_runs_until_a_signal_and_exits_with_0),
        cmocka_unit_test(a_second_signal_ends_the_process_at_once),
        cmocka_unit_test(a_start_that_fails_is_status_1_with_its_reason),
        cmocka_unit_test(a_policy_that_stops_is_status_1_with_its_reason),
        cmocka_unit_test(a_stop_that_fails_is_status_1),
        cmocka_unit_test(check_prints_every_mistake_and_connects_to_nothing),
        cmocka_unit_test(a_service_with_mistakes_does_not_run),
        cmocka_unit_test(help_and_version_are_status_0_and_anything_else_is_2),
        cmocka_unit_test(what_stands_behind_two_dashes_is_left_to_the_program),
        cmocka_unit_test(no_app_is_status_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
