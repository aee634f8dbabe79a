/* resolve.c: getaddrinfo on a thread that lives for one question.
 *
 * The lock decides the race between an answer and a cancel: whoever comes second frees. A posted answer is freed by its task,
 * which joins the thread first: that has nothing left to do.
 */
#include "net/resolve.h"

#include "base/fork.h"
#include "base/lock.h"
#include "base/text.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct resolve {
    struct task answer;
    coney_loop *loop;
    uint32_t generation;
    struct lock lock;
    pthread_t thread;
    bool has_thread;
    bool canceled;
    bool answered; /* the task is posted */
    void (*done)(void *ctx, coney_status status, struct addrinfo *list, const char *text);
    void *ctx;
    coney_status status;
    struct addrinfo *list;
    char text[512];
    char port[8];
    char host[];
};

static void free_question(struct resolve *question)
{
    if (question->list != NULL)
        freeaddrinfo(question->list);
    free(question);
}

/* Asks the system; true when it has answered. */
static bool ask(struct resolve *question, int flags)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    int error = getaddrinfo(question->host, question->port, &hints, &question->list);
    if (error == 0) {
        question->status = CONEY_OK;
        return true;
    }
    question->list = NULL;
    question->status = error == EAI_MEMORY ? CONEY_ENOMEM : CONEY_ERESOLVE;
    char words[128];
    if (error == EAI_SYSTEM)
        text_errno(words, sizeof words, errno);
    else
        text_print(words, sizeof words, "%s", gai_strerror(error));
    text_print(question->text, sizeof question->text,
               "host '%s' could not be resolved: %s: check its spelling and the system's name service", question->host, words);
    return false;
}

static void give_answer(struct task *task)
{
    struct resolve *question = container_of(task, struct resolve, answer);
    if (question->has_thread)
        pthread_join(question->thread, NULL);
    if (!question->canceled) {
        struct addrinfo *list = question->list;
        question->list = NULL;
        question->done(question->ctx, question->status, list, question->text);
    }
    free_question(question);
}

static void *ask_and_post(void *arg)
{
    struct resolve *question = arg;
    ask(question, 0);
    lock_acquire(&question->lock);
    bool canceled = question->canceled;
    question->answered = !canceled;
    if (!canceled)
        loop_post(question->loop, &question->answer);
    lock_release(&question->lock);
    if (canceled)
        free_question(question);
    return NULL;
}

static void answer_at_once(struct resolve *question)
{
    question->answered = true;
    loop_defer(question->loop, &question->answer);
}

struct resolve *resolve_start(coney_loop *loop, const char *host, uint16_t port,
                              void (*done)(void *ctx, coney_status status, struct addrinfo *list, const char *text), void *ctx)
{
    size_t host_len = strlen(host);
    struct resolve *question = calloc(1, sizeof *question + host_len + 1);
    if (question == NULL)
        return NULL;
    question->answer.run = give_answer;
    question->loop = loop;
    question->generation = fork_generation();
    question->done = done;
    question->ctx = ctx;
    memcpy(question->host, host, host_len + 1);
    text_print(question->port, sizeof question->port, "%u", (unsigned)port);

    if (ask(question, AI_NUMERICHOST)) {
        answer_at_once(question);
        return question;
    }
    question->has_thread = true;
    if (thread_start(&question->thread, "coney-resolve", ask_and_post, question) == CONEY_OK)
        return question;
    question->has_thread = false;
    question->status = CONEY_ELIMIT;
    text_print(question->text, sizeof question->text,
               "host '%s' could not be resolved: no thread could be started for it: raise the limit (ulimit -u)", host);
    answer_at_once(question);
    return question;
}

void resolve_cancel(struct resolve *question)
{
    if (question->generation != fork_generation()) { /* neither the thread nor the loop's tasks are in this process */
        free(question);
        return;
    }
    lock_acquire(&question->lock);
    question->canceled = true;
    if (!question->answered)
        pthread_detach(question->thread);
    lock_release(&question->lock);
}
