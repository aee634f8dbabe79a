/* tls_store.c: the system's trusted certificates. There are a hundred and more, and OpenSSL takes some 25 ms to read them, on
 * the loop: they are read once for the process, and again when their file has changed.
 */
#include "net/tls_internal.h"

#include "base/lock.h"

#include <stdlib.h>
#include <sys/stat.h>

static struct {
    struct lock lock;
    X509_STORE *store; /* NULL = not read yet */
    struct stat file;  /* as it was then; zeros = there was none */
} system_store;

static struct stat look_at_file(void)
{
    const char *chosen = getenv(X509_get_default_cert_file_env());
    struct stat file;
    bool there = stat(chosen != NULL ? chosen : X509_get_default_cert_file(), &file) == 0;
    return there ? file : (struct stat){0};
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static X509_STORE *read_store(void)
{
    X509_STORE *store = X509_STORE_new();
    if (store != NULL && X509_STORE_set_default_paths(store) != 1) {
        X509_STORE_free(store);
        return NULL;
    }
    return store;
}

bool tls_trust_system(SSL_CTX *context)
{
    lock_acquire(&system_store.lock);
    struct stat file = look_at_file();
    if (system_store.store == NULL || !is_same(&file, &system_store.file)) {
        X509_STORE_free(system_store.store);
        system_store.store = read_store();
        system_store.file = file;
    }
    X509_STORE *store = system_store.store;
    if (store != NULL)
        SSL_CTX_set1_cert_store(context, store);
    lock_release(&system_store.lock);
    return store != NULL;
}
