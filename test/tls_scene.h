/* tls_scene.h: a link that speaks TLS to a peer of the test's (tls_peer.h), with the certificates of both. For the TLS tests:
 * their first include. One thread steps both sides, so a test sees each byte's effect.
 */
#ifndef CONEY_TEST_TLS_SCENE_H
#define CONEY_TEST_TLS_SCENE_H

#include "net/link_fixture.h"

#include "certs.h"
#include "support.h"
#include "tls_peer.h"

#include <openssl/err.h>
#include <string.h>

static struct certs *certs;

struct scene {
    struct fixture *f;
    coney_tls_options options;
    struct tls_settings settings;
    const char *host;
    struct tls_peer_options server;
    struct tls_peer peer;
};

#define FILE_OF(name) certs_path(certs, name)

/* "ca" signs "server" (localhost and 127.0.0.1) and "client". */
static inline int make_certs(void **state)
{
    (void)state;
    certs = certs_new();
    certs_make(certs, &(struct cert){.name = "ca"});
    certs_make(certs, &(struct cert){.name = "server", .issuer = "ca", .hosts = "DNS:localhost,IP:127.0.0.1"});
    certs_make(certs, &(struct cert){.name = "client", .issuer = "ca", .usage = "clientAuth"});
    return 0;
}

static inline int remove_certs(void **state)
{
    (void)state;
    certs_free(&certs);
    return 0;
}

static inline int start_scene(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    void *fixture;
    start(&fixture);
    s->f = fixture;
    s->host = "localhost";
    s->options = (coney_tls_options){.ca_file = FILE_OF("ca.pem")};
    s->server = (struct tls_peer_options){.certificate = FILE_OF("server.pem"), .private_key = FILE_OF("server.key")};
    *state = s;
    return 0;
}

static inline int stop_scene(void **state)
{
    struct scene *s = *state;
    void *fixture = s->f;
    int status = stop(&fixture);
    tls_settings_free(&s->settings);
    tls_peer_free(&s->peer);
    free(s);
    return status;
}

static inline void open_tls(struct scene *s)
{
    char error[256] = "";
    tls_settings_free(&s->settings);
    assert_int_equal(tls_settings_read(&s->settings, &s->options, error, sizeof error), CONEY_OK);
    s->f->tls = &s->settings;
    open_to(s->f, s->host, s->f->port);
}

/* A round of both sides. */
static inline void round_of(struct scene *s)
{
    loop_wait_and_step(s->f->loop, time_after(time_now(), CONEY_MILLISECOND));
    if (s->f->peer < 0) {
        s->f->peer = accept4(s->f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (s->f->peer >= 0) {
            size_t at_once = s->peer.at_once;
            tls_peer_start(&s->peer, s->f->peer, &s->server);
            s->peer.at_once = at_once;
        }
    }
    if (s->f->peer >= 0)
        tls_peer_pump(&s->peer);
}

#define ROUNDS_UNTIL(s, condition)                                                                                             \
    do {                                                                                                                       \
        int64_t deadline_ = time_after(time_now(), PATIENCE);                                                                  \
        while (!(condition)) {                                                                                                 \
            if (time_now() >= deadline_)                                                                                       \
                fail_msg("never came true: %s (down: '%s')", #condition, (s)->f->text);                                        \
            round_of(s);                                                                                                       \
        }                                                                                                                      \
    } while (0)

static inline void nonblocking_listener(struct scene *s)
{
    assert_int_equal(fcntl(s->f->listener, F_SETFL, O_NONBLOCK), 0);
}

static inline void open_and_agree(struct scene *s)
{
    nonblocking_listener(s);
    open_tls(s);
    ROUNDS_UNTIL(s, s->f->opened == 1 || s->f->downs == 1);
    if (s->f->downs > 0)
        fail_msg("down: %s", s->f->text);
    ROUNDS_UNTIL(s, tls_peer_pump(&s->peer));
}

/* Opens, and expects this status and a sentence with these words. */
static inline void expect_down(struct scene *s, coney_status status, const char *words)
{
    nonblocking_listener(s);
    open_tls(s);
    ROUNDS_UNTIL(s, s->f->downs == 1);
    if (strstr(s->f->text, words) == NULL)
        fail_msg("'%s' does not say '%s'", s->f->text, words);
    assert_int_equal(s->f->status, status);
}

/* Goes on as at the start, with another connection. */
static inline void hang_up(struct scene *s)
{
    link_close(&s->f->link, false);
    tls_peer_free(&s->peer);
    if (s->f->peer >= 0)
        close(s->f->peer);
    s->f->peer = -1;
    s->f->opened = s->f->downs = 0;
    s->f->text[0] = '\0';
}

#define scene_test(test) cmocka_unit_test_setup_teardown(test, start_scene, stop_scene)

#endif
