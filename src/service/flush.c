/* flush.c: waiting for the outcomes of all that a publisher has accepted. */
#include "base/fork.h"
#include "service/app.h"
#include "service/posting.h"

/* NULL: it is not open. Else it stays so until left. */
static struct outlet *enter(coney_publisher *p)
{
    lock_acquire(&p->lock);
    struct outlet *outlet = p->outlet;
    p->users += outlet != NULL;
    lock_release(&p->lock);
    return outlet;
}

static void leave(coney_publisher *p)
{
    lock_acquire(&p->lock);
    p->users--;
    posting_left(p);
    lock_release(&p->lock);
}

coney_status coney_publisher_flush(coney_publisher *publisher, coney_call *call)
{
    coney_call own = {0};
    if (call == NULL)
        call = &own;
    if (publisher == NULL)
        return app_refuse(call, CONEY_EINVAL, "the publisher is NULL");
    if (call->on_done != NULL)
        return app_refuse(call, CONEY_EINVAL, "a flush waits for outcomes: leave out on_done");
    if (publisher->broker->app->born != fork_generation())
        return app_refuse(call, CONEY_EFORKED, "publisher '%s': the app runs in the parent process", publisher->name);
    struct outlet *outlet = enter(publisher);
    if (outlet == NULL)
        return app_refuse(call, CONEY_ECLOSED, "publisher '%s': the app does not run", publisher->name);
    const struct transport *transport = publisher->broker->transport;
    coney_status status = transport->flush != NULL ? transport->flush(outlet, call) : CONEY_OK;
    call->status = status;
    leave(publisher);
    return status;
}
