/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* certs.c - certificates for tests. Whatever fails ends the test. */
#include "tests/rig/unit/certs.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define DAY (24L * 3600)

static void must(int ok)
{
	if (ok <= 0)
		abort();
}

static void save_key(EVP_PKEY *key, const char *path, const char *phrase)
{
	FILE *f = fopen(path, "w");

	must(f != NULL);
	must(!fchmod(fileno(f), 0600));
	must(PEM_write_PrivateKey(f, key, phrase ? EVP_aes_128_cbc() : NULL, NULL, 0, NULL,
				  (void *)phrase));
	fclose(f);
}

static void save_cert(X509 *cert, const char *path)
{
	FILE *f = fopen(path, "w");

	must(f != NULL);
	must(PEM_write_X509(f, cert));
	fclose(f);
}

static void extend(X509 *cert, int nid, const char *value)
{
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	must(e != NULL);
	must(X509_add_ext(cert, e, -1));
	X509_EXTENSION_free(e);
}

static X509 *cert_new(EVP_PKEY *key, const char *common, int days)
{
	static long serial;
	X509 *cert = X509_new();
	X509_NAME *name;

	must(cert && key);
	must(X509_set_version(cert, 2));
	must(ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial));
	must(X509_gmtime_adj(X509_getm_notBefore(cert), -2 * DAY) != NULL);
	must(X509_gmtime_adj(X509_getm_notAfter(cert), days * DAY) != NULL);
	must(X509_set_pubkey(cert, key));
	name = X509_get_subject_name(cert);
	must(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)common, -1,
					-1, 0));
	return cert;
}

void authority_make(struct authority *a, const char *name, const char *path)
{
	a->key = EVP_EC_gen("P-256");
	a->cert = cert_new(a->key, name, 10);
	must(X509_set_issuer_name(a->cert, X509_get_subject_name(a->cert)));
	extend(a->cert, NID_basic_constraints, "critical,CA:TRUE");
	must(X509_sign(a->cert, a->key, EVP_sha256()));
	save_cert(a->cert, path);
}

void authority_free(struct authority *a)
{
	X509_free(a->cert);
	EVP_PKEY_free(a->key);
}

long cert_make_named(const struct authority *a, const char *common, const char *names, int days,
		     const char *cert_path, const char *key_path)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = cert_new(key, common, days);
	long serial = ASN1_INTEGER_get(X509_get0_serialNumber(cert));

	must(X509_set_issuer_name(cert, X509_get_subject_name(a->cert)));
	if (names)
		extend(cert, NID_subject_alt_name, names);
	must(X509_sign(cert, a->key, EVP_sha256()));
	save_cert(cert, cert_path);
	save_key(key, key_path, NULL);
	X509_free(cert);
	EVP_PKEY_free(key);
	return serial;
}

void cert_make(const struct authority *a, const char *common, const char *san, int days,
	       const char *cert_path, const char *key_path)
{
	char names[128];

	snprintf(names, sizeof(names), "URI:freeflow:host%s%s", san ? ",DNS:" : "", san ? san : "");
	cert_make_named(a, common, names, days, cert_path, key_path);
}

void crl_make(const struct authority *a, const long *serials, size_t n, int days, const char *path,
	      bool more)
{
	X509_CRL *crl = X509_CRL_new();
	ASN1_TIME *from = X509_gmtime_adj(NULL, -2 * DAY), *to = X509_gmtime_adj(NULL, days * DAY);
	FILE *f = fopen(path, more ? "a" : "w");

	must(crl && from && to && f);
	must(X509_CRL_set_version(crl, 1));
	must(X509_CRL_set_issuer_name(crl, X509_get_subject_name(a->cert)));
	must(X509_CRL_set1_lastUpdate(crl, from));
	must(X509_CRL_set1_nextUpdate(crl, to));
	for (size_t i = 0; i < n; i++) {
		X509_REVOKED *r = X509_REVOKED_new();
		ASN1_INTEGER *serial = ASN1_INTEGER_new();

		must(r && serial && ASN1_INTEGER_set(serial, serials[i]));
		must(X509_REVOKED_set_serialNumber(r, serial));
		must(X509_REVOKED_set_revocationDate(r, from));
		must(X509_CRL_add0_revoked(crl, r));
		ASN1_INTEGER_free(serial);
	}
	must(X509_CRL_sort(crl));
	must(X509_CRL_sign(crl, a->key, EVP_sha256()));
	must(PEM_write_X509_CRL(f, crl));
	fclose(f);
	ASN1_TIME_free(from);
	ASN1_TIME_free(to);
	X509_CRL_free(crl);
}

void key_make_locked(const char *path)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");

	save_key(key, path, "secret");
	EVP_PKEY_free(key);
}
