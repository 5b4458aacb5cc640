/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* certs.h - certificates for tests, as files: an authority and hosts that it signs for. */
#ifndef TESTS_CERTS_H
#define TESTS_CERTS_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>

struct authority {
	EVP_PKEY *key;
	X509 *cert;
};

/* Its certificate goes to `path`. */
void authority_make(struct authority *a, const char *name, const char *path);
void authority_free(struct authority *a);
/*
 * A certificate and its key, to both files. names: its subjectAltName, NULL: it has none. days: how
 * long it is valid, from a day ago; < 0: it has expired. Its serial number.
 */
long cert_make_named(const struct authority *a, const char *common, const char *names, int days,
		     const char *cert_path, const char *key_path);
/*
 * The authority's list of these [n] serial numbers, to the file. days: how long it holds; < 0: it has
 * expired. more: behind what is there.
 */
void crl_make(const struct authority *a, const long *serials, size_t n, int days, const char *path,
	      bool more);
/*
 * A host's certificate and key, to both files. san: its DNS name, NULL: the name is only the common
 * name. days: how long it is valid, from a day ago; < 0: it has expired.
 */
void cert_make(const struct authority *a, const char *common, const char *san, int days,
	       const char *cert_path, const char *key_path);
/* A key with a passphrase. */
void key_make_locked(const char *path);

#endif
