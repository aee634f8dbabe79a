/* main.c: the whole of a service's main: what the command line says, signals, and the exit status. With coney_log_stderr all that ever prints. */
#define _GNU_SOURCE
#include "base/thread.h"
#include "service/app.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { EXIT_WELL = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Signals ----------------------------------------------------------------------------------------------------------------- */

/* A thread that takes the two signals, which everybody else has blocked: the first asks for a stop, the second ends the process as if it had never been
 * caught. So no handler runs anywhere, and a signal during a long start is not lost. */
struct watcher {
    coney_app *app;
    sigset_t signals;
    pthread_t thread;
    _Atomic bool is_over;
};

static void end_process(int number)
{
    sigset_t one;
    signal(number, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, number);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}

static void *watch_signals(void *arg)
{
    struct watcher *watcher = arg;
    for (int seen = 0;;) {
        int number = 0;
        if (sigwait(&watcher->signals, &number) != 0)
            continue;
        if (atomic_load(&watcher->is_over))
            return NULL;
        if (seen++ > 0)
            end_process(number);
        app_log(watcher->app, CONEY_LOG_INFO, "%s: the app stops; once more ends it at once",
                number == SIGINT ? "SIGINT" : "SIGTERM");
        coney_app_ask_to_stop(watcher->app);
    }
}

static bool watcher_start(struct watcher *watcher, coney_app *app)
{
    *watcher = (struct watcher){.app = app};
    sigemptyset(&watcher->signals);
    sigaddset(&watcher->signals, SIGINT);
    sigaddset(&watcher->signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &watcher->signals, NULL);
    return thread_start(&watcher->thread, "coney-signals", watch_signals, watcher) == CONEY_OK;
}

static void watcher_end(struct watcher *watcher)
{
    atomic_store(&watcher->is_over, true);
    pthread_kill(watcher->thread, SIGTERM);
    pthread_join(watcher->thread, NULL);
}

/* Commands ---------------------------------------------------------------------------------------------------------------- */

static const char *title_of(const coney_app *app)
{
    return app->title != NULL ? app->title : "service";
}

static const char *version_of(const coney_app *app)
{
    return app->version != NULL ? app->version : "";
}

static int failed(const coney_app *app, const char *what, const char *text)
{
    fprintf(stderr, "%s: %s: %s\n", title_of(app), what, text);
    return EXIT_FAILED;
}

/* From the start to the end of the drain. `is_stuck`: a handler or a publish does not return. */
static int serve(coney_app *app, bool *is_stuck)
{
    coney_call call = {0};
    if (coney_app_start(app, &call) != CONEY_OK)
        return failed(app, "cannot start", call.text);
    call = (coney_call){0};
    coney_status status = coney_app_wait(app, &call);
    coney_call stop = {0};
    coney_status stopped = coney_app_stop(app, &stop);
    *is_stuck = !app_unstick(app);
    if (status != CONEY_OK)
        return failed(app, "stopped", call.text);
    return stopped == CONEY_OK ? EXIT_WELL : failed(app, "while stopping", stop.text);
}

static int run(coney_app **app)
{
    struct watcher watcher;
    bool is_stuck = false;
    int result = EXIT_FAILED;
    if (!watcher_start(&watcher, *app)) {
        failed(*app, "cannot start", "memory or threads are out");
    } else {
        result = serve(*app, &is_stuck);
        watcher_end(&watcher);
    }
    if (!is_stuck) /* else its memory is in use until the process ends */
        coney_app_free(app);
    return result;
}

static int check(coney_app **app)
{
    struct mistakes mistakes = {0};
    app_check(*app, &mistakes);
    if (mistakes.count == 0)
        printf("%s %s: all is well\n", title_of(*app), version_of(*app));
    else
        printf("%s\n%zu mistake%s\n", mistakes.text != NULL ? mistakes.text : "memory is out", mistakes.count,
               mistakes.count > 1 ? "s" : "");
    int result = mistakes.count == 0 ? EXIT_WELL : EXIT_FAILED;
    mistakes_free(&mistakes);
    return result;
}

static int version(coney_app **app)
{
    printf("%s %s (coney %s)\n", title_of(*app), version_of(*app), coney_version());
    return EXIT_WELL;
}

static int help(coney_app **app);

static const struct {
    const char *name;
    const char *short_name;
    int (*run)(coney_app **app);
    const char *what;
} commands[] = {
    {"run", NULL, run, "serve until SIGINT or SIGTERM, which drain; a second one ends it at once (the default)"},
    {"check", NULL, check, "look for mistakes in the description, connecting to nothing"},
    {"--help", "-h", help, "this"},
    {"--version", NULL, version, "what this is"},
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static void print_usage(FILE *to, const coney_app *app)
{
    fprintf(to, "usage: %s [run | check | --help | --version] [-- ARGUMENT...]\n\n", title_of(app));
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].what);
    fprintf(to, "  %-10s %s\n", "--", "what follows is left to the program");
    fprintf(to, "\nCONEY_LOG in the environment: error, warning, info (default), debug or off.\n");
}

static int help(coney_app **app)
{
    if ((*app)->options.description != NULL)
        printf("%s\n\n", (*app)->options.description);
    print_usage(stdout, *app);
    return EXIT_WELL;
}

static int command_of(const char *word)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(word, commands[i].name) == 0 ||
            (commands[i].short_name != NULL && strcmp(word, commands[i].short_name) == 0))
            return i;
    return -1;
}

/* What stands behind "--" is the program's. */
static int own_arguments(int argc, char **argv)
{
    int count = 1;
    while (count < argc && strcmp(argv[count], "--") != 0)
        count++;
    return count;
}

static void log_to_stderr(coney_app *app)
{
    if (app->options.on_log == NULL)
        app->log = (struct log){.fn = coney_log_stderr, .level = coney_log_level_of_env(app->options.log_level)};
}

int coney_app_main(coney_app *app, int argc, char **argv)
{
    if (app == NULL) {
        fprintf(stderr, "memory is out\n");
        return EXIT_FAILED;
    }
    log_to_stderr(app);
    int count = own_arguments(argc, argv);
    int command = count > 1 ? command_of(argv[1]) : 0;
    if (command < 0 || count > 2) {
        fprintf(stderr, "%s: unknown argument '%s'\n", title_of(app), command < 0 ? argv[1] : argv[2]);
        print_usage(stderr, app);
        coney_app_free(&app);
        return EXIT_USAGE;
    }
    int result = commands[command].run(&app);
    if (commands[command].run != run)
        coney_app_free(&app);
    if (fflush(stdout) != 0 && result == EXIT_WELL)
        result = EXIT_FAILED;
    return result;
}
