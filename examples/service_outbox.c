/* An outbox: a program writes what it did and the event that tells of it in one transaction of its database, so there is never one
 * without the other; a relay publishes the events in the order of their rows, and deletes a row when the broker has confirmed
 * it. An event may come twice (the relay was killed in between): its row's number is the message id, by which it is known.
 *
 *     service_outbox FILE                            relays until Ctrl-C or SIGTERM
 *     service_outbox FILE add QUEUE BODY...          what the program does: rows, in one transaction
 *
 * CONEY_AMQP_URI names the broker; without it, it is amqp://localhost.
 */
#include <coney/service.h>

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 100 };

static coney_app *app;
static volatile sig_atomic_t stopping;

static struct relay {
    sqlite3 *db;
    sqlite3_stmt *next;
    sqlite3_stmt *remove;
    coney_publisher *publisher;
    sqlite3_int64 ids[ROWS];            /* of the rows that are under way */
    _Atomic coney_status results[ROWS]; /* what became of them */
} relay;

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    return statement;
}

static sqlite3 *open_outbox(const char *file)
{
    static const char table[] =
        "CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT, body BLOB)";
    sqlite3 *db = NULL;
    if (sqlite3_open(file, &db) == SQLITE_OK && sqlite3_busy_timeout(db, 5000) == SQLITE_OK &&
        sqlite3_exec(db, table, NULL, NULL, NULL) == SQLITE_OK)
        return db;
    fprintf(stderr, "%s: %s\n", file, sqlite3_errmsg(db));
    sqlite3_close(db);
    return NULL;
}

static int add(sqlite3 *db, const char *queue, char **bodies, int count)
{
    sqlite3_stmt *insert = prepare(db, "INSERT INTO outbox (queue, body) VALUES (?, ?)");
    bool added = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
    for (int i = 0; i < count && added; i++) {
        sqlite3_bind_text(insert, 1, queue, -1, SQLITE_STATIC);
        sqlite3_bind_text(insert, 2, bodies[i], -1, SQLITE_STATIC);
        added = sqlite3_step(insert) == SQLITE_DONE && sqlite3_reset(insert) == SQLITE_OK;
    }
    sqlite3_finalize(insert);
    if (added && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    return fprintf(stderr, "%s\n", sqlite3_errmsg(db)), 1;
}

/* Runs on the client's loop: only takes the result along. */
static void on_outcome(void *ctx, const coney_outcome *o)
{
    (void)ctx;
    relay.results[o->tag] = o->status;
}

/* The row at which `next` stands. */
static coney_status publish(size_t nth)
{
    relay.ids[nth] = sqlite3_column_int64(relay.next, 0);
    relay.results[nth] = CONEY_EUNKNOWN;
    coney_publish_options options = {
        .to = (const char *)sqlite3_column_text(relay.next, 1),
        .message_id = coney_bytes_str((const char *)sqlite3_column_text(relay.next, 0)),
        .tag = nth,
    };
    const void *body = sqlite3_column_blob(relay.next, 2);
    size_t len = (size_t)sqlite3_column_bytes(relay.next, 2);
    return coney_publish_raw(coney_out_by_publisher(relay.publisher), coney_bytes_of(body, len), CONEY_STR("application/json"),
                             &options);
}

static bool delete_row(sqlite3_int64 id)
{
    sqlite3_bind_int64(relay.remove, 1, id);
    bool deleted = sqlite3_step(relay.remove) == SQLITE_DONE;
    return sqlite3_reset(relay.remove) == SQLITE_OK && deleted;
}

/* Until the broker has said what became of each, or the relay is to stop. */
static void wait_for_outcomes(void)
{
    coney_call call;
    do
        call = (coney_call){.deadline = 250 * CONEY_MILLISECOND};
    while (coney_publisher_flush(relay.publisher, &call) == CONEY_ETIMEDOUT && !stopping);
}

/* Publishes the oldest rows, waits for what becomes of them, and deletes those that the broker has. True: there may be more. */
static bool relay_rows(void)
{
    size_t count = 0, deleted = 0;
    while (count < ROWS && sqlite3_step(relay.next) == SQLITE_ROW && publish(count) == CONEY_OK)
        count++;
    sqlite3_reset(relay.next);
    wait_for_outcomes();

    bool written = sqlite3_exec(relay.db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
    for (size_t i = 0; i < count; i++)
        if (relay.results[i] == CONEY_OK)
            deleted += delete_row(relay.ids[i]);
        else if (!stopping)
            fprintf(stderr, "event %lld stays: %s\n", relay.ids[i], coney_status_text(relay.results[i]));
    written = written && sqlite3_exec(relay.db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK;
    return written && deleted == ROWS;
}

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
    coney_app_ask_to_stop(app);
}

/* Until a signal comes; looks for new rows four times a second. */
static int run(void)
{
    relay.next = prepare(relay.db, "SELECT id, queue, body FROM outbox ORDER BY id");
    relay.remove = prepare(relay.db, "DELETE FROM outbox WHERE id = ?");
    app = coney_app_new("outbox-relay", "1.0.0");
    coney_app_configure(
        app, &(coney_app_options){.on_log = coney_log_stderr, .log_level = coney_log_level_of_env(CONEY_LOG_WARNING)});
    relay.publisher = coney_publisher_new(coney_app_amqp(app, getenv("CONEY_AMQP_URI"), NULL),
                                          &(coney_publisher_options){.name = "events", .on_outcome = on_outcome});
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);

    coney_call call = {0}, wait = {0};
    coney_status status = coney_app_start(app, &call);
    if (status == CONEY_OK) {
        do
            wait.deadline = relay_rows() ? 1 : 250 * CONEY_MILLISECOND;
        while (coney_app_wait(app, &wait) == CONEY_ETIMEDOUT);
        status = coney_app_stop(app, &call);
    }
    if (status != CONEY_OK)
        fprintf(stderr, "%s\n", call.text);
    coney_app_free(&app);
    sqlite3_finalize(relay.next);
    sqlite3_finalize(relay.remove);
    return status == CONEY_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    bool adds = argc > 4 && strcmp(argv[2], "add") == 0;
    if (argc != 2 && !adds)
        return fprintf(stderr, "usage: %s FILE [add QUEUE BODY...]\n", argv[0]), 2;
    relay.db = open_outbox(argv[1]);
    if (relay.db == NULL)
        return 1;
    int result = adds ? add(relay.db, argv[3], argv + 4, argc - 4) : run();
    sqlite3_close(relay.db);
    return result;
}
