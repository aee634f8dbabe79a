/* tls_reason.c: why TLS was not agreed, and what to do about it. */
#include "net/tls_internal.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

/* Certificates of the peer --------------------------------------------------------------------------------------- */

static void print_name(char *buf, size_t cap, const X509_NAME *name)
{
    BIO *bio = BIO_new(BIO_s_mem());
    unsigned long style = (XN_FLAG_ONELINE & ~(unsigned long)ASN1_STRFLGS_ESC_MSB) | ASN1_STRFLGS_UTF8_CONVERT;
    coney_bytes bytes = {0};
    if (bio != NULL && X509_NAME_print_ex(bio, name, 0, style & ~(unsigned long)XN_FLAG_SPC_EQ) >= 0) {
        char *at = NULL;
        long len = BIO_get_mem_data(bio, &at);
        bytes = coney_bytes_of(at, len > 0 ? (size_t)len : 0);
    }
    text_from_wire(buf, cap, bytes.len > 0 ? bytes : CONEY_STR("(no name)"));
    BIO_free(bio);
}

static void print_time(char *buf, size_t cap, const ASN1_TIME *time)
{
    struct tm at;
    if (ASN1_TIME_to_tm(time, &at) != 1 || strftime(buf, cap, "%Y-%m-%d %H:%M:%S UTC", &at) == 0)
        text_print(buf, cap, "a date that cannot be read");
}

/* "a.example, *.b.example, 10.0.0.1": what the certificate is for. Empty when it names none. */
static void print_hosts(char *buf, size_t cap, const X509 *certificate)
{
    buf[0] = '\0';
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        int type;
        const ASN1_STRING *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
        char text[256] = "";
        int len = type == GEN_DNS || type == GEN_IPADD ? ASN1_STRING_length(value) : 0;
        const unsigned char *data = len > 0 ? ASN1_STRING_get0_data(value) : NULL;
        if (type == GEN_DNS && len > 0)
            text_from_wire(text, sizeof text, coney_bytes_of(data, (size_t)len));
        else if (len == 4 || len == 16)
            inet_ntop(len == 4 ? AF_INET : AF_INET6, data, text, sizeof text);
        if (text[0] != '\0')
            text_append(buf, cap, "%s%s", buf[0] != '\0' ? ", " : "", text);
    }
    GENERAL_NAMES_free(names);
}

static void refuse_host(struct tls *tls, const X509 *certificate)
{
    char hosts[256];
    print_hosts(hosts, sizeof hosts, certificate);
    if (hosts[0] == '\0')
        text_print(tls->text, sizeof tls->text,
                   "the broker's certificate is for no host at all, not for '%s': it needs a subject alternative name",
                   tls->expected);
    else
        text_print(tls->text, sizeof tls->text,
                   "the broker's certificate is not for '%s' but for %s: connect by such a name, or set server_name to it",
                   tls->expected, hosts);
}

static void refuse_dates(struct tls *tls, int error, const X509 *certificate, const char *subject)
{
    bool expired = error == X509_V_ERR_CERT_HAS_EXPIRED;
    char date[64];
    print_time(date, sizeof date, expired ? X509_get0_notAfter(certificate) : X509_get0_notBefore(certificate));
    text_print(tls->text, sizeof tls->text,
               expired ? "the certificate of '%s' expired on %s: it has to be renewed, unless this machine's clock is wrong"
                       : "the certificate of '%s' is not valid before %s: is a clock wrong, here or where it was made?",
               subject, date);
}

static void refuse_issuer(struct tls *tls, int error, const X509 *certificate, const char *subject)
{
    char issuer[256];
    print_name(issuer, sizeof issuer, X509_get_issuer_name(certificate));
    if (error == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT)
        text_print(tls->text, sizeof tls->text,
                   "the broker's certificate ('%s') is self-signed and not in %s: if it is the right one, put it into ca_file",
                   subject, tls->trusted);
    else
        text_print(tls->text, sizeof tls->text,
                   "the broker's certificate leads to the CA '%s', which is not in %s: put that CA's certificate into ca_file",
                   issuer, tls->trusted);
}

int tls_refuse_certificate(int good, X509_STORE_CTX *store)
{
    if (good == 1)
        return 1;
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls *tls = SSL_get_app_data(ssl);
    int error = X509_STORE_CTX_get_error(store);
    const X509 *certificate = X509_STORE_CTX_get_current_cert(store);
    char subject[256] = "";
    if (certificate != NULL)
        print_name(subject, sizeof subject, X509_get_subject_name(certificate));
    tls->status = CONEY_ETLS;
    switch (certificate != NULL ? error : X509_V_ERR_UNSPECIFIED) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        refuse_dates(tls, error, certificate, subject);
        break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        refuse_host(tls, certificate);
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        refuse_issuer(tls, error, certificate, subject);
        break;
    case X509_V_ERR_INVALID_PURPOSE:
        text_print(tls->text, sizeof tls->text,
                   "the certificate of '%s' is not made for this use: a server's needs the extended key usage serverAuth",
                   subject);
        break;
    default:
        text_print(tls->text, sizeof tls->text, "the certificate of '%s' is refused: %s", subject,
                   X509_verify_cert_error_string(error));
    }
    return 0;
}

/* Alerts of the peer --------------------------------------------------------------------------------------------- */

struct alert {
    int number;
    const char *text;
};

#define ASKS_FOR_CERTIFICATE "the broker asks for a client certificate: set certificate and private_key, or pkcs12_file"
#define REFUSES_OURS "the broker refused our certificate"

static const struct alert alerts[] = {
    {SSL_AD_HANDSHAKE_FAILURE,
     "the broker ended the handshake: " REFUSES_OURS ", or the two have no cipher in common; its log says which"},
    {SSL_AD_NO_CERTIFICATE, ASKS_FOR_CERTIFICATE},
    {TLS13_AD_CERTIFICATE_REQUIRED, ASKS_FOR_CERTIFICATE},
    {SSL_AD_BAD_CERTIFICATE, REFUSES_OURS ": it is not the kind that it takes; its log says why"},
    {SSL_AD_UNSUPPORTED_CERTIFICATE, REFUSES_OURS ": it is not made for clients (extended key usage clientAuth)"},
    {SSL_AD_CERTIFICATE_REVOKED, REFUSES_OURS ": it is revoked"},
    {SSL_AD_CERTIFICATE_EXPIRED, REFUSES_OURS ": it has expired; renew it"},
    {SSL_AD_CERTIFICATE_UNKNOWN, REFUSES_OURS ": its log says why"},
    {SSL_AD_UNKNOWN_CA, REFUSES_OURS ": it does not know the CA that signed it (the broker's ssl_options.cacertfile)"},
    {SSL_AD_PROTOCOL_VERSION, "the broker speaks no version of TLS that is allowed here: it needs 1.2 or later, or what "
                              "min_version asks for"},
    {SSL_AD_INSUFFICIENT_SECURITY, "the broker asks for stronger ciphers than this OpenSSL offers"},
    {SSL_AD_UNRECOGNIZED_NAME, "the broker knows no server of this name: set server_name to one that it knows"},
};

static void explain_alert(struct tls *tls, int number)
{
    if (number == SSL_AD_HANDSHAKE_FAILURE && !tls->has_certificate)
        number = TLS13_AD_CERTIFICATE_REQUIRED;
    for (size_t i = 0; i < sizeof alerts / sizeof alerts[0]; i++) {
        if (alerts[i].number != number)
            continue;
        text_print(tls->text, sizeof tls->text, "%s", alerts[i].text);
        return;
    }
    text_print(tls->text, sizeof tls->text, "the broker ended TLS with the alert '%s' (%d): its log says why",
               SSL_alert_desc_string_long(number), number);
}

/* The rest ------------------------------------------------------------------------------------------------------- */

static bool speaks_tls(const struct tls *tls)
{
    bool known_type = tls->first[0] >= SSL3_RT_CHANGE_CIPHER_SPEC && tls->first[0] <= SSL3_RT_APPLICATION_DATA;
    return tls->first_len == 0 || (known_type && (tls->first_len == 1 || tls->first[1] == SSL3_VERSION_MAJOR));
}

static void explain_peer_without_tls(struct tls *tls)
{
    const char *what = tls->first_len >= 4 && memcmp(tls->first, "AMQP", 4) == 0   ? "AMQP in clear text"
                       : tls->first_len >= 4 && memcmp(tls->first, "HTTP", 4) == 0 ? "HTTP in clear text"
                                                                                   : "no TLS";
    text_print(tls->text, sizeof tls->text,
               "this port speaks %s: by default a broker's TLS ports are 5671 (AMQP) and 5551 (streams)", what);
}

static bool is_about_versions(unsigned long error)
{
    switch (ERR_GET_REASON(error)) {
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_WRONG_SSL_VERSION:
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_VERSION_TOO_LOW:
        return ERR_GET_LIB(error) == ERR_LIB_SSL;
    }
    return false;
}

bool tls_is_out_of_memory(void)
{
    return ERR_GET_REASON(ERR_peek_error()) == ERR_R_MALLOC_FAILURE;
}

void tls_explain(struct tls *tls)
{
    if (tls->status != CONEY_OK)
        return;
    unsigned long error = ERR_peek_error();
    int reason = ERR_GET_REASON(error);
    tls->status = CONEY_ETLS;
    if (tls_is_out_of_memory()) {
        tls->status = CONEY_ENOMEM;
        text_print(tls->text, sizeof tls->text, "no memory for TLS");
    } else if (!speaks_tls(tls)) {
        explain_peer_without_tls(tls);
    } else if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason >= SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) {
        explain_alert(tls, reason - SSL_AD_REASON_OFFSET);
    } else if (is_about_versions(error)) {
        explain_alert(tls, SSL_AD_PROTOCOL_VERSION);
    } else {
        const char *words = ERR_reason_error_string(error);
        text_print(tls->text, sizeof tls->text, "TLS failed: %s", words != NULL ? words : "OpenSSL does not say why");
    }
}
