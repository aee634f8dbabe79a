/* certs.h: certificates for tests: CAs, servers and clients, valid or not, as files of a folder that goes with them.
 *
 *     struct certs *certs = certs_new();
 *     certs_make(certs, &(struct cert){.name = "ca"});
 *     certs_make(certs, &(struct cert){.name = "server", .issuer = "ca", .hosts = "DNS:localhost,IP:127.0.0.1"});
 *     … certs_path(certs, "server.pem") …
 *     certs_free(&certs);
 *
 * Keys are of P-256. A failure fails the test.
 */
#ifndef CONEY_TEST_CERTS_H
#define CONEY_TEST_CERTS_H

struct certs;

struct cert {
    const char *name;     /* of its files NAME.pem and NAME.key, and its common name */
    const char *issuer;   /* one made before; NULL = itself */
    const char *hosts;    /* "DNS:localhost,IP:127.0.0.1"; NULL = none */
    const char *usage;    /* "serverAuth" (the default with an issuer) or "clientAuth" */
    const char *password; /* of its key */
    int from;             /* days from now; both 0: from yesterday for a year */
    int until;
};

struct certs *certs_new(void);
void certs_free(struct certs **certs);

/* Makes one, or makes it again: the files are replaced. */
void certs_make(struct certs *certs, const struct cert *cert);

/* NAME.p12 of NAME.pem and NAME.key, which must be plain. */
void certs_make_pkcs12(struct certs *certs, const char *name, const char *password);

/* A file with this content. */
void certs_write(struct certs *certs, const char *file, const char *content);

/* The path of a file of the folder, whether there is one or not. Lives until certs_free. */
const char *certs_path(struct certs *certs, const char *file);

#endif
