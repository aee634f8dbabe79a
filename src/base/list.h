/* list.h: a doubly linked list whose links stand inside the items. No allocation; O(1) everywhere. Not thread-safe by itself.
 *
 * A head and an item out of every list are both rings of one. An item is in one list at most for each `struct list` it holds.
 */
#ifndef CONEY_BASE_LIST_H
#define CONEY_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void list_init(struct list *item)
{
    item->next = item->prev = item;
}

static inline bool list_empty(const struct list *item)
{
    return item->next == item;
}

/* Puts `item` at the end of `head`'s list. */
static inline void list_append(struct list *head, struct list *item)
{
    item->prev = head->prev;
    item->next = head;
    head->prev->next = item;
    head->prev = item;
}

/* Takes `item` out of whatever list it is in; harmless when it is in none. */
static inline void list_remove(struct list *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    list_init(item);
}

/* Takes the first item out and returns it, or NULL from an empty list. */
static inline struct list *list_take(struct list *head)
{
    struct list *item = head->next;
    if (item == head)
        return NULL;
    list_remove(item);
    return item;
}

/* Moves all of `from` to the end of `to`. */
static inline void list_move_all(struct list *to, struct list *from)
{
    for (struct list *item = list_take(from); item != NULL; item = list_take(from))
        list_append(to, item);
}

#endif
