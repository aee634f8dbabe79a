#include "core/credentials.h"

#include "base/lock.h"
#include "base/time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define PATIENCE (20 * CONEY_SECOND)

/* A user's callback, and what became of it; the test steps the loop. */
struct scene {
    coney_loop *loop;
    struct credentials credentials;
    struct lock lock; /* guards what follows: the callback has a thread of its own */
    size_t asked;
    coney_status answer;
    const char *password;
    int64_t valid_for;
    struct lock gate; /* held: the callback waits */
    size_t renewed;   /* the loop's from here on */
    size_t failed;
    coney_status failure;
};

struct waiter {
    struct credentials_wait wait;
    size_t done;
    coney_status status;
};

static coney_status answer(void *ctx, coney_credentials *said)
{
    struct scene *scene = ctx;
    lock_acquire(&scene->gate);
    lock_release(&scene->gate);
    lock_acquire(&scene->lock);
    scene->asked++;
    assert_null(said->user);
    said->user = "ada";
    said->password = scene->password;
    said->valid_for = scene->valid_for;
    coney_status status = scene->answer;
    lock_release(&scene->lock);
    return status;
}

static size_t asked(struct scene *scene)
{
    lock_acquire(&scene->lock);
    size_t count = scene->asked;
    lock_release(&scene->lock);
    return count;
}

static void answers(struct scene *scene, coney_status status, const char *password, int64_t valid_for)
{
    lock_acquire(&scene->lock);
    scene->answer = status;
    scene->password = password;
    scene->valid_for = valid_for;
    lock_release(&scene->lock);
}

static void renewed(struct credentials *credentials)
{
    container_of(credentials, struct scene, credentials)->renewed++;
}

static void failed(struct credentials *credentials, coney_status status)
{
    struct scene *scene = container_of(credentials, struct scene, credentials);
    scene->failed++;
    scene->failure = status;
}

static void done(struct credentials_wait *wait, coney_status status)
{
    struct waiter *waiter = container_of(wait, struct waiter, wait);
    waiter->done++;
    waiter->status = status;
}

static void scene_up(struct scene *scene)
{
    *scene = (struct scene){.loop = coney_loop_new(), .password = "secret"};
    assert_non_null(scene->loop);
    credentials_init(&scene->credentials, scene->loop, answer, scene, CONEY_MILLISECOND, 4 * CONEY_MILLISECOND);
    scene->credentials.renewed = renewed;
    scene->credentials.failed = failed;
}

static void scene_down(struct scene *scene)
{
    credentials_end(&scene->credentials);
    coney_loop_free(&scene->loop);
}

static void step_until(struct scene *scene, const size_t *count, size_t reached)
{
    int64_t until = time_now() + PATIENCE;
    while (*count < reached && time_now() < until)
        loop_wait_and_step(scene->loop, until);
    assert_true(*count >= reached);
}

static void who_waits_is_told_when_the_callback_has_answered(void **state)
{
    (void)state;
    struct scene scene;
    struct waiter first = {.wait.done = done};
    struct waiter second = {.wait.done = done};
    scene_up(&scene);
    credentials_await(&scene.credentials, &first.wait);
    credentials_await(&scene.credentials, &second.wait);
    assert_int_equal(first.done, 0);
    step_until(&scene, &second.done, 1);
    assert_int_equal(first.done, 1);
    assert_int_equal(first.status, CONEY_OK);
    assert_string_equal(scene.credentials.user, "ada");
    assert_string_equal(scene.credentials.password, "secret");
    assert_int_equal(asked(&scene), 1);
    scene_down(&scene);
}

static void what_is_fresh_is_not_asked_for_again(void **state)
{
    (void)state;
    struct scene scene;
    struct waiter waiter = {.wait.done = done};
    scene_up(&scene);
    credentials_await(&scene.credentials, &waiter.wait);
    step_until(&scene, &waiter.done, 1);
    credentials_await(&scene.credentials, &waiter.wait);
    assert_int_equal(waiter.done, 2);
    assert_int_equal(asked(&scene), 1);
    scene_down(&scene);
}

static void what_a_broker_refused_is_asked_for_again(void **state)
{
    (void)state;
    struct scene scene;
    struct waiter waiter = {.wait.done = done};
    scene_up(&scene);
    credentials_await(&scene.credentials, &waiter.wait);
    step_until(&scene, &waiter.done, 1);
    answers(&scene, CONEY_OK, "better", 0);
    credentials_refused(&scene.credentials);
    credentials_await(&scene.credentials, &waiter.wait);
    step_until(&scene, &waiter.done, 2);
    assert_string_equal(scene.credentials.password, "better");
    scene_down(&scene);
}

static void a_failure_is_told_and_the_next_asks_again(void **state)
{
    (void)state;
    struct scene scene;
    struct waiter waiter = {.wait.done = done};
    scene_up(&scene);
    answers(&scene, CONEY_EUNAVAILABLE, NULL, 0);
    credentials_await(&scene.credentials, &waiter.wait);
    step_until(&scene, &waiter.done, 1);
    assert_int_equal(waiter.status, CONEY_EUNAVAILABLE);
    assert_int_equal(scene.failed, 0);
    answers(&scene, CONEY_OK, "secret", 0);
    credentials_await(&scene.credentials, &waiter.wait);
    step_until(&scene, &waiter.done, 2);
    assert_int_equal(waiter.status, CONEY_OK);
    scene_down(&scene);
}

static void they_are_renewed_when_four_fifths_of_their_time_are_over(void **state)
{
    (void)state;
    struct scene scene;
    struct waiter waiter = {.wait.done = done};
    scene_up(&scene);
    answers(&scene, CONEY_OK, "first", 100 * CONEY_MILLISECOND);
    credentials_await(&scene.credentials, &waiter.wait);
    step_until(&scene, &waiter.done, 1);
    int64_t began = time_now();
    answers(&scene, CONEY_OK, "second", 0);
    step_until(&scene, &scene.renewed, 2);
    assert_true(time_now() - began >= 70 * CONEY_MILLISECOND);
    assert_string_equal(scene.credentials.password, "second");
    assert_int_equal(asked(&scene), 2);
    scene_down(&scene);
}

static void a_renewal_that_fails_is_told_and_tried_again_with_pauses(void **state)
{
    (void)state;
    struct scene scene;
    struct waiter waiter = {.wait.done = done};
    scene_up(&scene);
    answers(&scene, CONEY_OK, "first", 10 * CONEY_MILLISECOND);
    credentials_await(&scene.credentials, &waiter.wait);
    step_until(&scene, &waiter.done, 1);
    answers(&scene, CONEY_EAUTH, NULL, 0);
    step_until(&scene, &scene.failed, 3);
    assert_int_equal(scene.failure, CONEY_EAUTH);
    answers(&scene, CONEY_OK, "second", 0);
    size_t before = scene.renewed;
    step_until(&scene, &scene.renewed, before + 1);
    assert_string_equal(scene.credentials.password, "second");
    scene_down(&scene);
}

static void the_end_waits_for_a_question_and_tells_nobody(void **state)
{
    (void)state;
    struct scene scene;
    struct waiter waiter = {.wait.done = done};
    scene_up(&scene);
    credentials_await(&scene.credentials, &waiter.wait);
    credentials_end(&scene.credentials);
    assert_int_equal(asked(&scene), 1);
    coney_loop_step(scene.loop);
    assert_int_equal(waiter.done, 0);
    scene_down(&scene);
}

static void who_is_forgotten_is_not_told(void **state)
{
    (void)state;
    struct scene scene;
    struct waiter forgotten = {.wait.done = done};
    struct waiter waiter = {.wait.done = done};
    scene_up(&scene);
    credentials_forget(&forgotten.wait);
    lock_acquire(&scene.gate);
    credentials_await(&scene.credentials, &forgotten.wait);
    credentials_await(&scene.credentials, &waiter.wait);
    credentials_forget(&forgotten.wait);
    lock_release(&scene.gate);
    step_until(&scene, &waiter.done, 1);
    assert_int_equal(forgotten.done, 0);
    scene_down(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_is_told_when_the_callback_has_answered),
        cmocka_unit_test(what_is_fresh_is_not_asked_for_again),
        cmocka_unit_test(what_a_broker_refused_is_asked_for_again),
        cmocka_unit_test(a_failure_is_told_and_the_next_asks_again),
        cmocka_unit_test(they_are_renewed_when_four_fifths_of_their_time_are_over),
        cmocka_unit_test(a_renewal_that_fails_is_told_and_tried_again_with_pauses),
        cmocka_unit_test(the_end_waits_for_a_question_and_tells_nobody),
        cmocka_unit_test(who_is_forgotten_is_not_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
