/* A batch writer with the effect of exactly once: sales of a stream go into SQLite, hundreds in a transaction, and the offset
 * of each is written with it. So the database itself knows how far it has read: however the program ends, the next run goes on
 * behind the last row, and nothing is missing or there twice.
 *
 *     service_sqlite [FILE]               writes to FILE (default sales.db) until Ctrl-C or SIGTERM
 *     seq 1000 | sed 's|.*|{"id": &, "total": 9.5}|' | coney stream publish sales
 *     sqlite3 sales.db 'select count(*), max(offset) from sales'
 *
 * CONEY_STREAM_URI names the broker; without it, it is rabbitmq-stream://localhost.
 */
#include <coney/service.h>

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#define SALE(F) F(u64, id) F(f64, total)
CONEY_MESSAGE(sale, SALE);

struct store {
    sqlite3 *db;
    sqlite3_stmt *insert;
    sqlite3_int64 next; /* the first offset that is not in the table */
    bool failed;
};

static bool execute(const struct store *store, const char *sql)
{
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static bool open_store(struct store *store, const char *file)
{
    sqlite3_stmt *last = NULL;
    if (sqlite3_open(file, &store->db) != SQLITE_OK || sqlite3_busy_timeout(store->db, 2000) != SQLITE_OK ||
        !execute(store, "PRAGMA journal_mode = WAL") ||
        !execute(store, "CREATE TABLE IF NOT EXISTS sales (offset INTEGER PRIMARY KEY, id INTEGER, total REAL)") ||
        sqlite3_prepare_v2(store->db, "INSERT OR IGNORE INTO sales VALUES (?, ?, ?)", -1, &store->insert, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(store->db, "SELECT coalesce(max(offset) + 1, 0) FROM sales", -1, &last, NULL) != SQLITE_OK)
        return false;
    bool found = sqlite3_step(last) == SQLITE_ROW;
    store->next = found ? sqlite3_column_int64(last, 0) : 0;
    sqlite3_finalize(last);
    return found;
}

static void close_store(struct store *store)
{
    sqlite3_finalize(store->insert);
    sqlite3_close(store->db);
}

static bool insert(const struct store *store, uint64_t offset, const sale *s)
{
    sqlite3_bind_int64(store->insert, 1, (sqlite3_int64)offset);
    sqlite3_bind_int64(store->insert, 2, (sqlite3_int64)s->id);
    sqlite3_bind_double(store->insert, 3, s->total);
    bool done = sqlite3_step(store->insert) == SQLITE_DONE;
    return sqlite3_reset(store->insert) == SQLITE_OK && done;
}

static bool write_all(const struct store *store, coney_batch *batch, const sale *sales, size_t count)
{
    bool written = execute(store, "BEGIN IMMEDIATE");
    for (size_t i = 0; i < count && written; i++)
        written = insert(store, coney_delivery_info_of(coney_batch_delivery(batch, i))->offset, &sales[i]);
    if (written && execute(store, "COMMIT"))
        return true;
    fprintf(stderr, "not written: %s\n", sqlite3_errmsg(store->db));
    execute(store, "ROLLBACK");
    return false;
}

/* All or nothing. What comes after a failure must not be written before it: the next run would begin behind the gap. */
static coney_settle write_sales(coney_batch *batch, const sale *sales, size_t count)
{
    struct store *store = coney_batch_ctx(batch);
    store->failed = store->failed || !write_all(store, batch, sales, count);
    if (store->failed)
        return CONEY_FAILED;
    printf("%zu sales\n", count);
    return CONEY_ACK;
}
CONEY_BATCH_HANDLER(write_sales, sale);

int main(int argc, char **argv)
{
    struct store store = {0};
    if (!open_store(&store, argc > 1 ? argv[1] : "sales.db"))
        return fprintf(stderr, "%s\n", sqlite3_errmsg(store.db)), 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("from offset %lld\n", (long long)store.next);

    coney_app *app = coney_app_new("sales-writer", "1.0.0");
    coney_broker *streams = coney_app_stream(app, getenv("CONEY_STREAM_URI"), NULL);
    coney_subscribe(streams, &(coney_subscription){
                                 .source = CONEY_STREAM("sales", .declare = true,
                                                        .consumer = "", /* the broker stores no offset: the database has it */
                                                        .start_always = true, .start_if_new = CONEY_STREAM_OFFSET,
                                                        .start_offset = (uint64_t)store.next),
                                 .handler = write_sales_handler,
                                 .ctx = &store,
                                 .on_failure = CONEY_POLICY_STOP, /* exit status 1; the next run goes on from there */
                                 .batch = 500,
                                 .batch_wait = 50 * CONEY_MILLISECOND,
                             });
    int result = coney_app_main(app, 1, argv);
    close_store(&store);
    return result;
}
