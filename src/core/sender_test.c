/* sender_test.c: what a kind may make of a sender: when it settles, how much it takes, what no longer fits, which outcomes there are. */
#include "core/core_fixture.h"

#define MESSAGES 8

struct post {
    struct sender sender;
    size_t take_most; /* bytes that `fill` asks for */
    size_t limit;
    bool settles_when_written;
    unsigned fills;
    uint64_t firsts[16]; /* of each run that was taken */
    unsigned entries[16];

    unsigned outcomes;
    coney_outcome last;
    char body[64]; /* of the last outcome */
};

static struct post *post_of(const struct sender *sender)
{
    return (struct post *)(uintptr_t)container_of(sender, const struct post, sender);
}

static size_t fill(struct sender *sender, struct iovec *slices, size_t cap, size_t *bytes)
{
    struct post *post = post_of(sender);
    struct outbox_run run;
    size_t taken = outbox_take(&sender->outbox, post->take_most, slices, cap, &run);
    if (taken > 0) {
        assert_true(post->fills < 16);
        post->firsts[post->fills] = run.first;
        post->entries[post->fills++] = run.entries;
    }
    *bytes += run.bytes;
    return taken;
}

static void written(struct sender *sender)
{
    struct post *post = post_of(sender);
    struct sender_report report;
    if (!post->settles_when_written)
        return;
    sender_report_init(sender, &report, CONEY_OK);
    for (uint64_t number = atomic_load(&sender->outbox.head); outbox_was_taken(&sender->outbox, number); number++)
        sender_settle(sender, number, &report);
    sender_settled(sender);
}

static size_t limit(const struct sender *sender)
{
    return post_of(sender)->limit;
}

static void limits_changed(struct sender *sender)
{
    (void)sender;
}

static bool fits(const struct sender *sender, const struct slot *slot)
{
    return slot->size <= sender->limit;
}

static void describe(const struct sender *sender, uint64_t number, const struct slot *slot, coney_outcome *outcome)
{
    outcome->publishing_id = number + 100;
    if (!fits(sender, slot))
        outcome->code = 7;
}

static coney_bytes body(const struct sender *sender, const struct slot *slot)
{
    (void)sender;
    return coney_bytes_of(slot->entry, slot->size);
}

static coney_status append(struct sender_visit *visit, coney_bytes held, uint64_t tag, uint8_t flags)
{
    struct outbox *outbox = &visit->sender->outbox;
    coney_status status = CONEY_OK;
    while (status == CONEY_OK && !outbox_has_room(outbox, held.len))
        status = sender_wait_for_room(visit, held.len);
    if (status != CONEY_OK)
        return status;
    const struct slot *slot = outbox_append(outbox, held.len, tag, flags);
    assert_non_null(slot);
    memcpy(slot->entry, held.data, held.len);
    visit->tell |= outbox_commit(outbox, held.len);
    return CONEY_OK;
}

static void explain(const struct sender *sender, const coney_outcome *outcome, char *text, size_t cap)
{
    (void)sender;
    snprintf(text, cap, "outcome %d", (int)outcome->status);
}

static void explain_size(const struct sender *sender, coney_bytes held, char *text, size_t cap)
{
    (void)sender;
    snprintf(text, cap, "%zu", held.len);
}

static const struct sender_kind kind = {
    .noun = "post",
    .fill = fill,
    .written = written,
    .limit = limit,
    .limits_changed = limits_changed,
    .fits = fits,
    .describe = describe,
    .body = body,
    .append = append,
    .explain = explain,
    .explain_size = explain_size,
};

static void free_post(struct member *member)
{
    struct post *post = container_of(member, struct post, sender.member);
    sender_free(&post->sender);
    free(post);
}

static const struct member_kind post_kind = {
    .purpose = PURPOSE_PUBLISH,
    .noun = "post of",
    .unreachable = "",
    .locate = locate,
    .declare = member_active,
    .active = sender_active,
    .lost = sender_lost,
    .leave = leave,
    .failed = sender_failed,
    .is_final = is_final,
    .dead = sender_dead,
    .close = sender_close,
    .free = free_post,
};

static void on_outcome(void *ctx, const coney_outcome *outcome)
{
    struct post *post = ctx;
    coney_bytes bytes = coney_outcome_body(outcome);
    post->outcomes++;
    post->last = *outcome;
    assert_true(bytes.len < sizeof post->body);
    memcpy(post->body, bytes.data, bytes.len);
    post->body[bytes.len] = '\0';
}

static struct post *post_open(struct scene *scene)
{
    struct post *post = calloc(1, sizeof *post);
    assert_non_null(post);
    post->limit = post->take_most = 1000;
    struct sender_options options = {
        .max_messages = MESSAGES, .enqueue_timeout = CONEY_OFF, .on_outcome = on_outcome, .ctx = post};
    assert_int_equal(sender_check(&options, NULL), CONEY_OK);
    assert_true(sender_init(&post->sender, &kind, &post_kind, &scene->fake->env, "p", &options, false));
    assert_int_equal(member_run_open(&post->sender.member, NULL), CONEY_OK);
    return post;
}

static coney_status send_text(struct post *post, const char *text, uint64_t tag)
{
    struct sender_visit visit = sender_enter(&post->sender);
    coney_status status = append(&visit, coney_bytes_str(text), tag, 0);
    sender_leave(&visit);
    return status;
}

static void wait_taken(struct scene *scene, const struct post *post, uint64_t cursor)
{
    int64_t deadline = time_after(time_now(), PATIENCE);
    while (post->sender.outbox.cursor < cursor)
        step(scene, deadline);
}

/* As the wire would say it. */
static void settle(struct post *post, uint64_t number, coney_status status)
{
    struct sender_report report;
    sender_report_init(&post->sender, &report, status);
    assert_true(sender_settle(&post->sender, number, &report));
    assert_false(sender_settle(&post->sender, number, &report));
    sender_settled(&post->sender);
}

static void close_post(struct post *post)
{
    void *handle = post;
    assert_int_equal(member_close_handle(&handle, NULL), CONEY_OK);
    assert_null(handle);
}

static void what_is_with_the_kernel_may_be_settled_at_once(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, "l", CONEY_OK);
    struct post *post = post_open(&scene);
    post->settles_when_written = true;
    for (uint64_t tag = 0; tag < 3; tag++)
        assert_int_equal(send_text(post, "message", tag), CONEY_OK);
    int64_t deadline = time_after(time_now(), PATIENCE);
    while (post->outcomes < 3)
        step(&scene, deadline);
    assert_int_equal(post->last.status, CONEY_OK);
    assert_int_equal(post->last.tag, 2);
    assert_int_equal(post->last.publishing_id, 102);
    assert_int_equal(counter_get(&post->sender.confirmed), 3);
    assert_int_equal(sender_pending(&post->sender), 0);
    close_post(post);
    scene_close(&scene);
}

static void each_outcome_is_counted_and_shows_its_body(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, "l", CONEY_OK);
    struct post *post = post_open(&scene);
    static const char *const texts[] = {"first", "second", "third"};
    for (uint64_t tag = 0; tag < 3; tag++)
        assert_int_equal(send_text(post, texts[tag], tag), CONEY_OK);
    wait_taken(&scene, post, 3);
    settle(post, 1, CONEY_ERETURNED);
    assert_int_equal(post->last.status, CONEY_ERETURNED);
    assert_string_equal(post->body, "second");
    settle(post, 0, CONEY_EREFUSED);
    assert_string_equal(post->body, "first");
    settle(post, 2, CONEY_OK);
    assert_int_equal(counter_get(&post->sender.returned), 1);
    assert_int_equal(counter_get(&post->sender.refused), 1);
    assert_int_equal(counter_get(&post->sender.confirmed), 1);
    close_post(post);
    scene_close(&scene);
}

static void after_a_loss_the_open_ones_go_out_again_one_at_a_time_if_so_asked(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, "l", CONEY_OK);
    struct post *post = post_open(&scene);
    for (uint64_t tag = 0; tag < 5; tag++)
        assert_int_equal(send_text(post, "message", tag), CONEY_OK);
    wait_taken(&scene, post, 5);
    settle(post, 2, CONEY_OK);
    post->take_most = 1;
    post->fills = 0;
    conn_fail(post->sender.member.conn, CONEY_ELOST, 0, "cut");
    wait_taken(&scene, post, 5);
    static const uint64_t again[] = {0, 1, 3, 4};
    assert_int_equal(post->fills, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(post->firsts[i], again[i]);
        assert_int_equal(post->entries[i], 1);
    }
    assert_int_equal(counter_get(&post->sender.resent), 4);
    for (size_t i = 0; i < 4; i++)
        settle(post, again[i], CONEY_OK);
    close_post(post);
    scene_close(&scene);
}

static void what_no_longer_fits_is_refused_at_the_new_place(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, "l", CONEY_OK);
    struct post *post = post_open(&scene);
    assert_int_equal(send_text(post, "small", 1), CONEY_OK);
    assert_int_equal(send_text(post, "much larger", 2), CONEY_OK);
    wait_taken(&scene, post, 2);
    post->limit = 5;
    conn_fail(post->sender.member.conn, CONEY_ELOST, 0, "cut");
    int64_t deadline = time_after(time_now(), PATIENCE);
    while (post->outcomes == 0)
        step(&scene, deadline);
    assert_int_equal(post->last.status, CONEY_EREFUSED);
    assert_int_equal(post->last.tag, 2);
    assert_int_equal(post->last.code, 7);
    wait_taken(&scene, post, 1);
    settle(post, 0, CONEY_OK);
    close_post(post);
    scene_close(&scene);
}

static void a_call_done(void *ctx, const coney_call *call)
{
    *(coney_call *)ctx = *call;
}

static void a_call_waits_for_room_and_then_for_its_outcome(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, "l", CONEY_OK);
    struct post *post = post_open(&scene);
    for (uint64_t tag = 0; tag < MESSAGES; tag++)
        assert_int_equal(send_text(post, "message", tag), CONEY_OK);
    assert_int_equal(send_text(post, "no room", 99), CONEY_EAGAIN);
    coney_call ended = {.status = CONEY_EDEADLK};
    coney_call call = {.on_done = a_call_done, .ctx = &ended};
    assert_int_equal(sender_run_send(&post->sender, CONEY_STR("waits"), &call), CONEY_OK);
    wait_taken(&scene, post, MESSAGES);
    settle(post, 0, CONEY_OK);
    wait_taken(&scene, post, MESSAGES + 1);
    assert_int_equal(ended.status, CONEY_EDEADLK);
    settle(post, MESSAGES, CONEY_ERETURNED);
    assert_int_equal(ended.status, CONEY_ERETURNED);
    assert_int_equal(ended.value, MESSAGES + 100);
    assert_string_equal(ended.text, "outcome 26");
    post->settles_when_written = true;
    written(&post->sender);
    close_post(post);
    scene_close(&scene);
}

static void a_close_reports_what_stays_without_its_outcome(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, "l", CONEY_OK);
    struct post *post = post_open(&scene);
    assert_int_equal(send_text(post, "one", 1), CONEY_OK);
    assert_int_equal(send_text(post, "two", 2), CONEY_OK);
    wait_taken(&scene, post, 2);
    member_ref(&post->sender.member);
    void *handle = post;
    coney_call call = {.deadline = 20 * CONEY_MILLISECOND};
    assert_int_equal(member_close_handle(&handle, &call), CONEY_ETIMEDOUT);
    assert_int_equal(call.value, 2);
    assert_int_equal(post->last.status, CONEY_EUNKNOWN);
    assert_false(post->last.unsent);
    member_unref(&post->sender.member);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_with_the_kernel_may_be_settled_at_once),
        cmocka_unit_test(each_outcome_is_counted_and_shows_its_body),
        cmocka_unit_test(after_a_loss_the_open_ones_go_out_again_one_at_a_time_if_so_asked),
        cmocka_unit_test(what_no_longer_fits_is_refused_at_the_new_place),
        cmocka_unit_test(a_call_waits_for_room_and_then_for_its_outcome),
        cmocka_unit_test(a_close_reports_what_stays_without_its_outcome),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
