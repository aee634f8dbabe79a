/* complaint.c: see complaint.h. */
#include "service/complaint.h"

#include "base/text.h"
#include "base/time.h"
#include "service/subscription.h"

#include <inttypes.h>

static bool is_repeated(const struct complaint *last, const char *what, int64_t now)
{
    return now < last->until && strncmp(last->what, what, sizeof last->what - 1) == 0;
}

static void say_more(const struct subscription *s, const struct complaint *last)
{
    if (last->more > 0)
        app_log(s->app, CONEY_LOG_WARNING, "subscription '%s': … and %" PRIu64 " more like it: … %s", s->name, last->more,
                last->what);
}

void complain(const struct subscription *s, struct complaints *complaints, enum complaint_kind kind, const char *subject,
              const char *what)
{
    struct complaint *last = &complaints->kinds[kind];
    int64_t now = worker_now(s->app->worker);
    lock_acquire(&complaints->lock);
    bool repeated = is_repeated(last, what, now);
    struct complaint before = *last;
    if (repeated) {
        last->more++;
    } else {
        *last = (struct complaint){.until = time_after(now, CONEY_SECOND)};
        text_print(last->what, sizeof last->what, "%s", what);
    }
    lock_release(&complaints->lock);
    if (repeated)
        return;
    say_more(s, &before);
    app_log(s->app, CONEY_LOG_WARNING, "subscription '%s': %s %s", s->name, subject, what);
}

void complaints_sum_up(const struct subscription *s, struct complaints *complaints, bool all)
{
    int64_t now = worker_now(s->app->worker);
    for (size_t kind = 0; kind < COMPLAINT_KINDS; kind++) {
        struct complaint *last = &complaints->kinds[kind];
        lock_acquire(&complaints->lock);
        struct complaint before = *last;
        if (!all && now < before.until)
            before.more = 0;
        else
            last->more = 0;
        lock_release(&complaints->lock);
        say_more(s, &before);
    }
}
