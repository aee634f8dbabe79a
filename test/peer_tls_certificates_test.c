/* peer_tls_certificates_test.c: whom a link trusts, what it shows of itself, and the sentence for each refusal. */
#include "tls_scene.h"

#include <openssl/pem.h>
#include <time.h>

static void serve(struct scene *s, const struct cert *cert)
{
    char file[64];
    certs_make(certs, cert);
    snprintf(file, sizeof file, "%s.pem", cert->name);
    s->server.certificate = FILE_OF(file);
    snprintf(file, sizeof file, "%s.key", cert->name);
    s->server.private_key = FILE_OF(file);
}

/* The broker's certificate --------------------------------------------------------------------------------------- */

static void a_certificate_of_an_unknown_ca_is_refused_and_its_ca_named(void **state)
{
    struct scene *s = *state;
    certs_make(certs, &(struct cert){.name = "otherca"});
    s->options.ca_file = FILE_OF("otherca.pem");
    expect_down(s, CONEY_ETLS, "leads to the CA 'CN=ca', which is not in ca_file '");
    assert_non_null(strstr(s->f->text, "put that CA's certificate into ca_file"));
    assert_int_equal(s->f->opened, 0);
}

static void the_systems_store_does_not_know_a_ca_of_our_own(void **state)
{
    struct scene *s = *state;
    s->options.ca_file = NULL;
    expect_down(s, CONEY_ETLS, "'CN=ca', which is not in the system's store: put that CA's certificate into ca_file");
}

static void the_systems_store_is_read_again_when_its_file_changes(void **state)
{
    struct scene *s = *state;
    certs_make(certs, &(struct cert){.name = "system"});
    setenv("SSL_CERT_FILE", FILE_OF("system.pem"), 1);
    s->options.ca_file = NULL;
    serve(s, &(struct cert){.name = "node", .issuer = "system", .hosts = "DNS:localhost"});
    open_and_agree(s);
    hang_up(s);
    open_and_agree(s);
    hang_up(s);
    certs_make(certs, &(struct cert){.name = "system"});
    expect_down(s, CONEY_ETLS, "");
    hang_up(s);
    serve(s, &(struct cert){.name = "node", .issuer = "system", .hosts = "DNS:localhost"});
    open_and_agree(s);
    unsetenv("SSL_CERT_FILE");
}

static void a_folder_of_trusted_certificates_serves_too(void **state)
{
    struct scene *s = *state;
    FILE *file = fopen(FILE_OF("ca.pem"), "re");
    X509 *ca = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    char link[64];
    snprintf(link, sizeof link, "%08lx.0", X509_subject_name_hash(ca));
    X509_free(ca);
    assert_int_equal(symlink("ca.pem", FILE_OF(link)), 0);
    s->options.ca_file = NULL;
    s->options.ca_path = FILE_OF(".");
    open_and_agree(s);
}

static void a_self_signed_certificate_is_refused_unless_it_is_trusted_itself(void **state)
{
    struct scene *s = *state;
    serve(s, &(struct cert){.name = "selfmade", .hosts = "DNS:localhost"});
    expect_down(s, CONEY_ETLS, "the broker's certificate ('CN=selfmade') is self-signed and not in ca_file '");
    hang_up(s);
    s->options.ca_file = FILE_OF("selfmade.pem");
    open_and_agree(s);
}

static void an_expired_certificate_is_refused_with_its_date(void **state)
{
    struct scene *s = *state;
    serve(s, &(struct cert){.name = "old", .issuer = "ca", .hosts = "DNS:localhost", .from = -10, .until = -2});
    time_t until = time(NULL) - 2 * 24 * 60 * 60;
    char expected[128];
    strftime(expected, sizeof expected, "the certificate of 'CN=old' expired on %Y-%m-%d ", gmtime(&until));
    expect_down(s, CONEY_ETLS, expected);
    assert_non_null(strstr(s->f->text, " UTC: it has to be renewed"));
}

static void a_certificate_of_tomorrow_is_refused_with_its_date(void **state)
{
    struct scene *s = *state;
    serve(s, &(struct cert){.name = "young", .issuer = "ca", .hosts = "DNS:localhost", .from = 1, .until = 9});
    expect_down(s, CONEY_ETLS, "the certificate of 'CN=young' is not valid before ");
}

static void SB_81_a_certificate_of_another_host_is_refused_and_its_names_are_told(void **state)
{
    struct scene *s = *state;
    serve(s, &(struct cert){.name = "node-b", .issuer = "ca", .hosts = "DNS:node-b.example,DNS:*.b.example,IP:10.0.0.2"});
    expect_down(
        s, CONEY_ETLS,
        "the broker's certificate is not for 'localhost' but for node-b.example, *.b.example, 10.0.0.2: connect by such a "
        "name, or set server_name to it");
    hang_up(s);
    s->host = "127.0.0.1";
    expect_down(s, CONEY_ETLS, "is not for '127.0.0.1' but for node-b.example");
}

static void SB_81_behind_a_balancer_the_name_to_check_is_an_option(void **state)
{
    struct scene *s = *state;
    serve(s, &(struct cert){.name = "node-b", .issuer = "ca", .hosts = "DNS:node-b.example"});
    s->options.server_name = "node-b.example";
    open_and_agree(s);
    hang_up(s);
    s->options.server_name = "node-c.example";
    expect_down(s, CONEY_ETLS, "is not for 'node-c.example' but for node-b.example");
}

static void F02_an_address_is_checked_against_the_addresses_of_the_certificate(void **state)
{
    struct scene *s = *state;
    s->host = "127.0.0.1";
    open_and_agree(s);
    hang_up(s);
    serve(s, &(struct cert){.name = "by-name", .issuer = "ca", .hosts = "DNS:127.0.0.1,DNS:localhost"});
    expect_down(s, CONEY_ETLS, "is not for '127.0.0.1'");
}

/* Its common name is "localhost", and that counts for nothing. */
static void a_certificate_without_alternative_names_is_for_no_host(void **state)
{
    struct scene *s = *state;
    serve(s, &(struct cert){.name = "localhost", .issuer = "ca"});
    expect_down(s, CONEY_ETLS, "is for no host at all, not for 'localhost': it needs a subject alternative name");
}

static void a_clients_certificate_does_not_make_a_server(void **state)
{
    struct scene *s = *state;
    serve(s, &(struct cert){.name = "wrong-use", .issuer = "ca", .hosts = "DNS:localhost", .usage = "clientAuth"});
    expect_down(s, CONEY_ETLS, "'CN=wrong-use' is not made for this use");
}

static void control_characters_of_a_certificate_do_not_reach_the_text(void **state)
{
    struct scene *s = *state;
    serve(s, &(struct cert){.name = "bell\a\x1b[31m", .hosts = "DNS:localhost"});
    expect_down(s, CONEY_ETLS, "is self-signed");
    assert_null(strpbrk(s->f->text, "\a\x1b"));
}

static void skip_host_name_still_asks_for_a_trusted_ca(void **state)
{
    struct scene *s = *state;
    s->options.skip_host_name = true;
    serve(s, &(struct cert){.name = "node-b", .issuer = "ca", .hosts = "DNS:node-b.example"});
    open_and_agree(s);
    hang_up(s);
    s->host = "127.0.0.1";
    open_and_agree(s);
    hang_up(s);
    serve(s, &(struct cert){.name = "selfmade", .hosts = "DNS:localhost"});
    expect_down(s, CONEY_ETLS, "self-signed");
}

static void skip_verification_takes_any_certificate(void **state)
{
    struct scene *s = *state;
    s->options = (coney_tls_options){.skip_verification = true};
    serve(s, &(struct cert){.name = "bad", .hosts = "DNS:elsewhere", .from = -10, .until = -2});
    open_and_agree(s);
}

static void a_certificate_that_was_replaced_is_met_on_the_next_connection(void **state)
{
    struct scene *s = *state;
    certs_make(certs, &(struct cert){.name = "rotating"});
    serve(s, &(struct cert){.name = "node", .issuer = "rotating", .hosts = "DNS:localhost"});
    s->options.ca_file = FILE_OF("rotating.pem");
    open_and_agree(s);
    hang_up(s);
    certs_make(certs, &(struct cert){.name = "rotating"}); /* another key under the same name */
    expect_down(s, CONEY_ETLS, "");
    hang_up(s);
    serve(s, &(struct cert){.name = "node", .issuer = "rotating", .hosts = "DNS:localhost"});
    open_and_agree(s);
}

/* Versions and ports --------------------------------------------------------------------------------------------- */

static void a_peer_with_nothing_later_than_tls_1_1_is_refused(void **state)
{
    struct scene *s = *state;
    s->server.min_version = TLS1_VERSION;
    s->server.max_version = TLS1_1_VERSION;
    expect_down(s, CONEY_ETLS, "the broker speaks no version of TLS that is allowed here: it needs 1.2 or later");
}

static void min_version_1_3_refuses_a_peer_with_1_2(void **state)
{
    struct scene *s = *state;
    s->options.min_version = CONEY_TLS_1_3;
    s->server.max_version = TLS1_2_VERSION;
    expect_down(s, CONEY_ETLS, "or what min_version asks for");
}

static void expect_after_clear_text(struct scene *s, const char *spoken, size_t len, coney_status status, const char *words)
{
    hang_up(s);
    nonblocking_listener(s);
    s->host = "127.0.0.1";
    open_tls(s);
    UNTIL(s->f, (s->f->peer = accept4(s->f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0);
    char hello[4096];
    UNTIL(s->f, recv(s->f->peer, hello, sizeof hello, 0) > 0);
    send(s->f->peer, spoken, len, MSG_NOSIGNAL);
    shutdown(s->f->peer, SHUT_WR);
    UNTIL(s->f, s->f->downs == 1);
    if (strstr(s->f->text, words) == NULL)
        fail_msg("'%s' does not say '%s'", s->f->text, words);
    assert_int_equal(s->f->status, status);
}

static void a_port_that_speaks_something_else_is_told_from_a_tls_port(void **state)
{
    struct scene *s = *state;
    expect_after_clear_text(s, "AMQP\0\0\x09\x01", 8, CONEY_ETLS, "this port speaks AMQP in clear text");
    expect_after_clear_text(s, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, CONEY_ETLS, "this port speaks HTTP in clear text");
    expect_after_clear_text(s, "220 mail ready\r\n", 16, CONEY_ETLS, "5671 (AMQP) and 5551 (streams)");
    expect_after_clear_text(s, "", 0, CONEY_ECONNECT,
                            "TLS handshake: the peer closed the connection: does this port speak TLS?");
}

/* Our certificate ------------------------------------------------------------------------------------------------ */

static void show_client(struct scene *s)
{
    s->server.client_ca = FILE_OF("ca.pem");
    s->options.certificate = FILE_OF("client.pem");
    s->options.private_key = FILE_OF("client.key");
}

static void a_client_certificate_is_shown_where_it_is_asked_for(void **state)
{
    struct scene *s = *state;
    show_client(s);
    open_and_agree(s);
    X509 *shown = SSL_get1_peer_certificate(s->peer.ssl);
    assert_non_null(shown);
    X509_free(shown);
}

static void the_client_certificate_of_a_new_connection_is_the_one_that_lies_there_then(void **state)
{
    struct scene *s = *state;
    show_client(s);
    open_and_agree(s);
    X509 *first = SSL_get1_peer_certificate(s->peer.ssl);
    hang_up(s);
    certs_make(certs, &(struct cert){.name = "client", .issuer = "ca", .usage = "clientAuth"});
    open_and_agree(s);
    X509 *second = SSL_get1_peer_certificate(s->peer.ssl);
    assert_int_not_equal(X509_cmp(first, second), 0);
    X509_free(first);
    X509_free(second);
}

/* With TLS 1.3 the refusal comes after the link has opened. */
static void a_broker_that_asks_for_a_client_certificate_says_so(void **state)
{
    struct scene *s = *state;
    s->server.client_ca = FILE_OF("ca.pem");
    expect_down(s, CONEY_ETLS, "the broker asks for a client certificate: set certificate and private_key, or pkcs12_file");
    hang_up(s);
    s->server.max_version = TLS1_2_VERSION;
    expect_down(s, CONEY_ETLS, "the broker asks for a client certificate");
    assert_int_equal(s->f->opened, 0);
}

/* The client has written by then, and the socket is closed with what it wrote unread: the alert is told, not the reset. */
static void the_refusal_of_a_client_is_told_though_its_writes_fail(void **state)
{
    struct scene *s = *state;
    s->server.client_ca = FILE_OF("ca.pem");
    nonblocking_listener(s);
    open_tls(s);
    link_write(s->f->link, "header", 6);
    ROUNDS_UNTIL(s, s->f->opened == 1);
    tls_peer_pump(&s->peer);
    close(s->f->peer);
    s->f->peer = -1;
    link_write(s->f->link, "more", 4);
    link_flush(&s->f->link->flush); /* what the peer's host answers with a reset */
    link_write(s->f->link, "and more", 8);
    link_flush(&s->f->link->flush);
    assert_int_not_equal(s->f->link->broken, 0);
    UNTIL(s->f, s->f->downs == 1);
    assert_int_equal(s->f->status, CONEY_ETLS);
    assert_non_null(strstr(s->f->text, "asks for a client certificate"));
}

static void a_client_certificate_that_the_broker_does_not_trust_is_its_refusal(void **state)
{
    struct scene *s = *state;
    show_client(s);
    certs_make(certs, &(struct cert){.name = "otherca"});
    s->server.client_ca = FILE_OF("otherca.pem");
    expect_down(s, CONEY_ETLS, "the broker refused our certificate: it does not know the CA that signed it");
}

static void an_expired_client_certificate_is_the_brokers_refusal(void **state)
{
    struct scene *s = *state;
    show_client(s);
    certs_make(certs, &(struct cert){.name = "oldclient", .issuer = "ca", .usage = "clientAuth", .from = -9, .until = -2});
    s->options.certificate = FILE_OF("oldclient.pem");
    s->options.private_key = FILE_OF("oldclient.key");
    expect_down(s, CONEY_ETLS, "the broker refused our certificate: it has expired");
}

static void a_key_with_a_password_needs_the_right_one(void **state)
{
    struct scene *s = *state;
    show_client(s);
    certs_make(certs, &(struct cert){.name = "locked", .issuer = "ca", .usage = "clientAuth", .password = "sesame"});
    s->options.certificate = FILE_OF("locked.pem");
    s->options.private_key = FILE_OF("locked.key");
    expect_down(s, CONEY_ETLS, "locked.key' is encrypted: set key_password");
    hang_up(s);
    s->options.key_password = "simsim";
    expect_down(s, CONEY_ETLS, "key_password is not the password of the key in private_key '");
    hang_up(s);
    s->options.key_password = "sesame";
    open_and_agree(s);
}

static void pkcs12_holds_certificate_and_key(void **state)
{
    struct scene *s = *state;
    s->server.client_ca = FILE_OF("ca.pem");
    certs_make_pkcs12(certs, "client", "sesame");
    s->options.pkcs12_file = FILE_OF("client.p12");
    expect_down(s, CONEY_ETLS, "client.p12' is encrypted: set key_password");
    hang_up(s);
    s->options.key_password = "simsim";
    expect_down(s, CONEY_ETLS, "key_password is not the password of pkcs12_file '");
    hang_up(s);
    s->options.key_password = "sesame";
    open_and_agree(s);
}

static void certificate_and_key_may_share_a_file(void **state)
{
    struct scene *s = *state;
    show_client(s);
    char both[8192] = "";
    size_t len = 0;
    static const char *const parts[] = {"client.pem", "client.key"};
    for (int i = 0; i < 2; i++) {
        FILE *file = fopen(FILE_OF(parts[i]), "re");
        len += fread(both + len, 1, sizeof both - 1 - len, file);
        fclose(file);
    }
    certs_write(certs, "both.pem", both);
    s->options.certificate = FILE_OF("both.pem");
    s->options.private_key = NULL;
    open_and_agree(s);
}

static void a_key_of_another_certificate_is_told(void **state)
{
    struct scene *s = *state;
    show_client(s);
    s->options.private_key = FILE_OF("server.key");
    expect_down(s, CONEY_ETLS, "server.key' is not the key of the certificate");
}

static void a_file_that_cannot_be_used_is_named_with_the_reason(void **state)
{
    struct scene *s = *state;
    certs_write(certs, "prose", "no certificate at all\n");
    certs_write(certs, "damaged", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    const char *good = FILE_OF("client.pem");
    const struct {
        coney_tls_options options;
        const char *words;
    } cases[] = {
        {{.ca_file = "/nowhere/ca.pem"}, "ca_file '/nowhere/ca.pem' cannot be read: No such file or directory"},
        {{.ca_file = FILE_OF("prose")}, "prose' holds no PEM certificate"},
        {{.ca_file = FILE_OF("damaged")}, "damaged' is damaged after 0 certificates"},
        {{.certificate = "/nowhere/c.pem"}, "certificate '/nowhere/c.pem' cannot be read"},
        {{.certificate = FILE_OF("prose")}, "certificate '"},
        {{.certificate = FILE_OF("damaged")}, "damaged' is damaged"},
        {{.certificate = good, .private_key = "/nowhere/k"}, "private_key '/nowhere/k' cannot be read"},
        {{.certificate = good, .private_key = FILE_OF("prose")}, "prose' holds no PEM key"},
        {{.certificate = good}, "client.pem' holds no PEM key"},
        {{.pkcs12_file = "/nowhere/p12"}, "pkcs12_file '/nowhere/p12' cannot be read"},
        {{.pkcs12_file = FILE_OF("prose")}, "prose' is no PKCS#12 file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        s->options = cases[i].options;
        expect_down(s, CONEY_ETLS, cases[i].words);
        hang_up(s);
    }
}

/* Options -------------------------------------------------------------------------------------------------------- */

static void options_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    const struct {
        coney_tls_options options;
        const char *words;
    } cases[] = {
        {{.private_key = "k"}, "private_key without certificate"},
        {{.pkcs12_file = "p", .certificate = "c"}, "pkcs12_file holds certificate and key"},
        {{.key_password = "x"}, "key_password without a key"},
        {{.ca_file = ""}, "ca_file is empty"},
        {{.min_version = (coney_tls_version)11}, "min_version"},
        {{.reserved = {0, 1}}, "reserved"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tls_settings settings;
        char error[256] = "";
        assert_int_equal(tls_settings_read(&settings, &cases[i].options, error, sizeof error), CONEY_EINVAL);
        if (strstr(error, cases[i].words) == NULL)
            fail_msg("'%s' does not say '%s'", error, cases[i].words);
    }
}

static void no_options_are_the_defaults_and_texts_are_copied(void **state)
{
    (void)state;
    struct tls_settings settings;
    char error[64];
    assert_int_equal(tls_settings_read(&settings, NULL, error, sizeof error), CONEY_OK);
    assert_null(settings.options.ca_file);
    assert_false(settings.options.skip_verification);
    tls_settings_free(&settings);
    char path[] = "ca.pem";
    assert_int_equal(tls_settings_read(&settings, &(coney_tls_options){.ca_file = path}, error, sizeof error), CONEY_OK);
    path[0] = 'x';
    assert_string_equal(settings.options.ca_file, "ca.pem");
    tls_settings_free(&settings);
    tls_settings_free(&settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scene_test(a_certificate_of_an_unknown_ca_is_refused_and_its_ca_named),
        scene_test(the_systems_store_does_not_know_a_ca_of_our_own),
        scene_test(the_systems_store_is_read_again_when_its_file_changes),
        scene_test(a_folder_of_trusted_certificates_serves_too),
        scene_test(a_self_signed_certificate_is_refused_unless_it_is_trusted_itself),
        scene_test(an_expired_certificate_is_refused_with_its_date),
        scene_test(a_certificate_of_tomorrow_is_refused_with_its_date),
        scene_test(SB_81_a_certificate_of_another_host_is_refused_and_its_names_are_told),
        scene_test(SB_81_behind_a_balancer_the_name_to_check_is_an_option),
        scene_test(F02_an_address_is_checked_against_the_addresses_of_the_certificate),
        scene_test(a_certificate_without_alternative_names_is_for_no_host),
        scene_test(a_clients_certificate_does_not_make_a_server),
        scene_test(control_characters_of_a_certificate_do_not_reach_the_text),
        scene_test(skip_host_name_still_asks_for_a_trusted_ca),
        scene_test(skip_verification_takes_any_certificate),
        scene_test(a_certificate_that_was_replaced_is_met_on_the_next_connection),
        scene_test(a_peer_with_nothing_later_than_tls_1_1_is_refused),
        scene_test(min_version_1_3_refuses_a_peer_with_1_2),
        scene_test(a_port_that_speaks_something_else_is_told_from_a_tls_port),
        scene_test(a_client_certificate_is_shown_where_it_is_asked_for),
        scene_test(the_client_certificate_of_a_new_connection_is_the_one_that_lies_there_then),
        scene_test(a_broker_that_asks_for_a_client_certificate_says_so),
        scene_test(the_refusal_of_a_client_is_told_though_its_writes_fail),
        scene_test(a_client_certificate_that_the_broker_does_not_trust_is_its_refusal),
        scene_test(an_expired_client_certificate_is_the_brokers_refusal),
        scene_test(a_key_with_a_password_needs_the_right_one),
        scene_test(pkcs12_holds_certificate_and_key),
        scene_test(certificate_and_key_may_share_a_file),
        scene_test(a_key_of_another_certificate_is_told),
        scene_test(a_file_that_cannot_be_used_is_named_with_the_reason),
        cmocka_unit_test(options_that_contradict_each_other_are_refused),
        cmocka_unit_test(no_options_are_the_defaults_and_texts_are_copied),
    };
    tests_filter();
    return cmocka_run_group_tests(tests, make_certs, remove_certs);
}
