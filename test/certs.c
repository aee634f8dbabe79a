/* certs.c: certificates by OpenSSL's library, so that the tests need no tool. */
#define _GNU_SOURCE
#include "certs.h"

#include "support.h"

#include <dirent.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#define DAY (24 * 60 * 60)
#define PATHS 64

struct certs {
    char folder[64];
    long serial;
    char *paths[PATHS];
    size_t path_count;
};

struct certs *certs_new(void)
{
    struct certs *certs = calloc(1, sizeof *certs);
    snprintf(certs->folder, sizeof certs->folder, "/tmp/coney-certs-XXXXXX");
    assert_non_null(mkdtemp(certs->folder));
    return certs;
}

void certs_free(struct certs **certs)
{
    struct certs *it = *certs;
    *certs = NULL;
    if (it == NULL)
        return;
    DIR *folder = opendir(it->folder);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder != NULL)
        closedir(folder);
    rmdir(it->folder);
    for (size_t i = 0; i < it->path_count; i++)
        free(it->paths[i]);
    free(it);
}

const char *certs_path(struct certs *certs, const char *file)
{
    char *path = NULL;
    assert_true(asprintf(&path, "%s/%s", certs->folder, file) > 0);
    for (size_t i = 0; i < certs->path_count; i++) {
        if (strcmp(certs->paths[i], path) == 0) {
            free(path);
            return certs->paths[i];
        }
    }
    assert_true(certs->path_count < PATHS);
    certs->paths[certs->path_count++] = path;
    return path;
}

static FILE *open_file(struct certs *certs, const char *name, const char *ending, const char *mode)
{
    char file[128];
    snprintf(file, sizeof file, "%s%s", name, ending);
    FILE *opened = fopen(certs_path(certs, file), mode);
    assert_non_null(opened);
    return opened;
}

static X509 *read_certificate(struct certs *certs, const char *name)
{
    FILE *file = open_file(certs, name, ".pem", "re");
    X509 *certificate = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    assert_non_null(certificate);
    return certificate;
}

static EVP_PKEY *read_key(struct certs *certs, const char *name)
{
    FILE *file = open_file(certs, name, ".key", "re");
    EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    fclose(file);
    assert_non_null(key);
    return key;
}

static void extend(X509 *certificate, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    assert_non_null(extension);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
}

static void set_extensions(X509 *certificate, const struct cert *cert)
{
    bool is_ca = cert->issuer == NULL && cert->hosts == NULL;
    extend(certificate, NID_basic_constraints, is_ca ? "critical,CA:TRUE" : "CA:FALSE");
    extend(certificate, NID_key_usage, is_ca ? "critical,keyCertSign,cRLSign" : "digitalSignature");
    if (!is_ca)
        extend(certificate, NID_ext_key_usage, cert->usage != NULL ? cert->usage : "serverAuth");
    if (cert->hosts != NULL)
        extend(certificate, NID_subject_alt_name, cert->hosts);
}

void certs_make(struct certs *certs, const struct cert *cert)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    X509 *issuer = cert->issuer != NULL ? read_certificate(certs, cert->issuer) : NULL;
    EVP_PKEY *issuer_key = cert->issuer != NULL ? read_key(certs, cert->issuer) : NULL;
    bool default_dates = cert->from == 0 && cert->until == 0;

    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++certs->serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate), (default_dates ? -1L : cert->from) * DAY);
    X509_gmtime_adj(X509_getm_notAfter(certificate), (default_dates ? 365L : cert->until) * DAY);
    X509_set_pubkey(certificate, key);
    X509_NAME *subject = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)cert->name, -1, -1, 0);
    X509_set_issuer_name(certificate, issuer != NULL ? X509_get_subject_name(issuer) : subject);
    set_extensions(certificate, cert);
    assert_true(X509_sign(certificate, issuer_key != NULL ? issuer_key : key, EVP_sha256()) > 0);

    FILE *file = open_file(certs, cert->name, ".pem", "we");
    assert_int_equal(PEM_write_X509(file, certificate), 1);
    fclose(file);
    file = open_file(certs, cert->name, ".key", "we");
    const EVP_CIPHER *cipher = cert->password != NULL ? EVP_aes_128_cbc() : NULL;
    assert_int_equal(PEM_write_PrivateKey(file, key, cipher, NULL, 0, NULL, (void *)(uintptr_t)cert->password), 1);
    fclose(file);
    X509_free(issuer);
    EVP_PKEY_free(issuer_key);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

void certs_make_pkcs12(struct certs *certs, const char *name, const char *password)
{
    X509 *certificate = read_certificate(certs, name);
    EVP_PKEY *key = read_key(certs, name);
    PKCS12 *pkcs12 = PKCS12_create(password, name, key, certificate, NULL, 0, 0, 0, 0, 0);
    assert_non_null(pkcs12);
    FILE *file = open_file(certs, name, ".p12", "we");
    assert_int_equal(i2d_PKCS12_fp(file, pkcs12), 1);
    fclose(file);
    PKCS12_free(pkcs12);
    EVP_PKEY_free(key);
    X509_free(certificate);
}

void certs_write(struct certs *certs, const char *file, const char *content)
{
    FILE *opened = open_file(certs, file, "", "we");
    fputs(content, opened);
    fclose(opened);
}
