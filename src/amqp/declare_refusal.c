/* declare_refusal.c: what was being done, to what, what the broker said, what to do next. */
#include "amqp/declare_refusal.h"

#include "base/text.h"

#include <string.h>

/* The first row that fits counts. */
static const struct advice {
    uint32_t id; /* 0: any */
    coney_status status;
    const char *advice;
} advices[] = {
    {AMQP_QUEUE_DECLARE, CONEY_ENOTFOUND, "create it first, or check the name"},
    {AMQP_EXCHANGE_DECLARE, CONEY_ENOTFOUND, "create it first, or check the name"},
    {AMQP_QUEUE_DECLARE, CONEY_EPRECONDITION, "the broker does not take these arguments for it"},
    {AMQP_EXCHANGE_DECLARE, CONEY_EPRECONDITION, "the broker does not take this type or these arguments"},
    {AMQP_QUEUE_DELETE, CONEY_EPRECONDITION, "the condition of the delete does not hold"},
    {AMQP_EXCHANGE_DELETE, CONEY_EPRECONDITION, "the condition of the delete does not hold"},
    {0, CONEY_ENOTFOUND, "declare it first, or check the name"},
    {0, CONEY_EACCESS, "the user lacks the permission, or the name is the broker's own"},
    {0, CONEY_EUNAVAILABLE, "it is exclusive to another connection"},
};

static const char *advice_for(uint32_t id, coney_status status)
{
    for (size_t i = 0; i < sizeof advices / sizeof advices[0]; i++)
        if ((advices[i].id == 0 || advices[i].id == id) && advices[i].status == status)
            return advices[i].advice;
    return "";
}

static const char *text_of(coney_bytes bytes)
{
    return bytes.len > 0 ? bytes.data : "";
}

/* "declare queue 'x'". */
static void print_deed(const struct amqp_method *method, const char *name, char *out, size_t cap)
{
    switch (method->id) {
    case AMQP_EXCHANGE_DECLARE:
        text_print(out, cap, "declare exchange '%s'", text_of(method->exchange_declare.exchange));
        break;
    case AMQP_EXCHANGE_DELETE:
        text_print(out, cap, "delete exchange '%s'", text_of(method->exchange_delete.exchange));
        break;
    case AMQP_EXCHANGE_BIND:
    case AMQP_EXCHANGE_UNBIND:
        text_print(out, cap, "%s exchange '%s' to exchange '%s' with the key '%s'",
                   method->id == AMQP_EXCHANGE_BIND ? "bind" : "unbind", text_of(method->exchange_bind.destination),
                   text_of(method->exchange_bind.source), text_of(method->exchange_bind.routing_key));
        break;
    case AMQP_QUEUE_BIND:
        text_print(out, cap, "bind queue '%s' to exchange '%s' with the key '%s'", name, text_of(method->queue_bind.exchange),
                   text_of(method->queue_bind.routing_key));
        break;
    case AMQP_QUEUE_UNBIND:
        text_print(out, cap, "unbind queue '%s' from exchange '%s' with the key '%s'", name,
                   text_of(method->queue_unbind.exchange), text_of(method->queue_unbind.routing_key));
        break;
    default:
        text_print(out, cap, "%s queue '%s'",
                   method->id == AMQP_QUEUE_DECLARE  ? "declare"
                   : method->id == AMQP_QUEUE_DELETE ? "delete"
                                                     : "purge",
                   name);
        break;
    }
}

/* A broker's reason is "NOT_FOUND - its words". */
static const char *words_of(const char *reason)
{
    size_t name = strspn(reason, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    return name > 0 && strncmp(reason + name, " - ", 3) == 0 ? reason + name + 3 : reason;
}

static bool is_declaration(uint32_t id)
{
    return id == AMQP_QUEUE_DECLARE || id == AMQP_EXCHANGE_DECLARE;
}

void refusal_explain(const struct amqp_method *method, const char *name, const struct refusal *refusal, char *out, size_t cap)
{
    char deed[600];
    print_deed(method, name, deed, sizeof deed);
    if (refusal->reason == NULL) {
        text_print(out, cap, "cannot %s: %s", deed, refusal->text);
        return;
    }
    const char *words = words_of(refusal->reason);
    const char *node = refusal->node;
    unsigned code = refusal->code;
    coney_status status = refusal->status;
    const char *thing = deed + strlen("declare ");
    const char *advice = advice_for(method->id, status);
    if (is_declaration(method->id) && strncmp(words, "inequivalent arg", 16) == 0)
        text_print(out, cap, "%s exists with other arguments on %s: %s (%u): declare it as it is, or delete it", thing, node,
                   words, code);
    else if (is_declaration(method->id) && status == CONEY_ENOTFOUND)
        text_print(out, cap, "%s does not exist on %s: %s (%u): %s", thing, node, words, code, advice);
    else
        text_print(out, cap, "cannot %s on %s: %s (%u)%s%s", deed, node, words, code, advice[0] != '\0' ? ": " : "", advice);
}
