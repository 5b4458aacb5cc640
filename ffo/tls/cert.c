/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cert.c - what the other side's certificate is for, and whether it has been revoked since. See
 * tls.h. By one thread for each struct tls.
 *
 * A role is a URI in the subjectAltName, freeflow:host, and not a part of the subject: an authority
 * that signs a request takes the subject from it, and the alternative names from its own words, so
 * who asks for a certificate cannot give itself a role. A certificate has one role; with two it would
 * be for what nobody has thought of.
 *
 * Tests: test_tls.c, test_crl.c
 */
#include <assert.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffo/tls/crl.h"
#include "ffo/tls/internal.h"

#define SCHEME "freeflow:"
#define TENANT SCHEME "tenant/"

static const char *const role_uri[] = { [TLS_ROLE_NONE] = "",
#define X(NAME, name, words) [TLS_ROLE_##NAME] = SCHEME #name,
					TLS_ROLES(X)
#undef X
};
static const char *const role_words[] = { [TLS_ROLE_NONE] = "nobody",
#define X(NAME, name, words) [TLS_ROLE_##NAME] = words,
					  TLS_ROLES(X)
#undef X
};
#define NUM_ROLES (sizeof(role_uri) / sizeof(role_uri[0]))

/* ---- what it is for -------------------------------------------------------------------------- */

/* The text of a URI of ours; NULL: it is another name, or has a NUL in it. */
static const char *uri_of_ours(const GENERAL_NAME *name)
{
	const ASN1_IA5STRING *uri;
	const char *text;
	int type;

	uri = GENERAL_NAME_get0_value(name, &type);
	if (type != GEN_URI)
		return NULL;
	text = (const char *)ASN1_STRING_get0_data(uri);
	if (strlen(text) != (size_t)ASN1_STRING_length(uri) ||
	    strncmp(text, SCHEME, strlen(SCHEME)))
		return NULL;
	return text;
}

static GENERAL_NAMES *names_of(const X509 *cert)
{
	return cert ? X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL) : NULL;
}

/* How many different roles it names, and the last of them. */
static unsigned int roles_of(const X509 *cert, enum tls_role *role)
{
	GENERAL_NAMES *names = names_of(cert);
	unsigned int num = 0;
	const char *uri;

	*role = TLS_ROLE_NONE;
	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		uri = uri_of_ours(sk_GENERAL_NAME_value(names, i));
		for (unsigned int k = 1; uri && k < NUM_ROLES; k++)
			if (!strcmp(uri, role_uri[k]) && *role != k) {
				*role = (enum tls_role)k;
				num++;
			}
	}
	GENERAL_NAMES_free(names);
	return num;
}

/*
 * What an SSL's application data holds: the roles that are taken, as bits, and above them what is wrong
 * with the one that came.
 */
#define WRONG_SHIFT 8u
#define WRONG_MANY  NUM_ROLES /* or the role's number */
static_assert(NUM_ROLES < WRONG_SHIFT, "a bit for each");

void tls_takes(SSL *ssl, unsigned int roles)
{
	SSL_set_app_data(ssl, (void *)(uintptr_t)roles);
}

/*
 * OpenSSL asks for each certificate of the chain. That of the other side itself, with which nothing else
 * is wrong, has to be of a role that is taken; the other side is told if not.
 */
int tls_verify_role(int ok, X509_STORE_CTX *ctx)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(ctx, SSL_get_ex_data_X509_STORE_CTX_idx());
	uintptr_t bits = (uintptr_t)SSL_get_app_data(ssl);
	unsigned int num;
	enum tls_role role;

	if (!ok || X509_STORE_CTX_get_error_depth(ctx) > 0)
		return ok;
	num = roles_of(X509_STORE_CTX_get_current_cert(ctx), &role);
	if (num <= 1 && bits & 1u << role)
		return 1;
	bits |= (uintptr_t)((num > 1 ? WRONG_MANY : role) + 1) << WRONG_SHIFT;
	SSL_set_app_data(ssl, (void *)bits);
	X509_STORE_CTX_set_error(ctx, X509_V_ERR_INVALID_PURPOSE);
	return 0;
}

bool tls_why_role(const SSL *ssl, char *why, size_t size)
{
	uintptr_t wrong = (uintptr_t)SSL_get_app_data(ssl) >> WRONG_SHIFT;

	if (!wrong)
		return false;
	if (wrong - 1 == WRONG_MANY)
		snprintf(why, size, "TLS: its certificate names more than one role");
	else if (wrong - 1 == TLS_ROLE_NONE)
		snprintf(why, size,
			 "TLS: its certificate names no role (URI:" SCHEME
			 "host or the like in its subjectAltName)");
	else
		snprintf(why, size, "TLS: its certificate is that of %s, which has no place here",
			 role_words[wrong - 1]);
	return true;
}

enum tls_role tls_role(const SSL *ssl)
{
	enum tls_role role;

	(void)roles_of(SSL_get0_peer_certificate(ssl), &role);
	return role;
}

bool tls_is_current(const struct tls *t, const SSL *ssl)
{
	X509_STORE *store = NULL;

	if (!t->crl)
		return true;
	return SSL_get0_verify_cert_store((SSL *)ssl, &store) && store == t->trust;
}

bool tls_has_tenant(const SSL *ssl, const char *tenant)
{
	GENERAL_NAMES *names = names_of(SSL_get0_peer_certificate(ssl));
	bool any = true, has = false;
	const char *uri;

	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		uri = uri_of_ours(sk_GENERAL_NAME_value(names, i));
		if (!uri || strncmp(uri, TENANT, strlen(TENANT)))
			continue;
		any = false;
		has |= !strcmp(uri + strlen(TENANT), tenant);
	}
	GENERAL_NAMES_free(names);
	return any || has;
}

/* ---- revoked --------------------------------------------------------------------------------- */

struct tls_cert {
	X509 *cert;
	STACK_OF(X509) * between; /* what came with it */
};

struct tls_cert *tls_cert_of(const SSL *ssl)
{
	STACK_OF(X509) *between = SSL_get_peer_cert_chain(ssl);
	struct tls_cert *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->cert = SSL_get1_peer_certificate(ssl);
	c->between = between ? X509_chain_up_ref(between) : NULL;
	if (c->cert && (c->between || !between))
		return c;
	tls_cert_free(c);
	return NULL;
}

void tls_cert_free(struct tls_cert *c)
{
	if (!c)
		return;
	sk_X509_pop_free(c->between, X509_free);
	X509_free(c->cert);
	free(c);
}

/*
 * Nothing but this is asked: the certificate was good when it was shown, and goes on being so when it
 * expires, or the list does.
 */
static int only_revoked(int ok, X509_STORE_CTX *ctx)
{
	bool *revoked = X509_STORE_CTX_get_app_data(ctx);

	if (!ok && X509_STORE_CTX_get_error(ctx) == X509_V_ERR_CERT_REVOKED)
		*revoked = true;
	return 1;
}

bool tls_cert_is_revoked(const struct tls *t, const struct tls_cert *c)
{
	X509_STORE_CTX *ctx;
	bool revoked = false;

	if (!t->crl || !tls_crl_is_readable(t->crl))
		return false;
	ctx = X509_STORE_CTX_new();
	/* Without memory there is no telling: then it goes, and comes again. */
	if (!t->trust || !ctx || X509_STORE_CTX_init(ctx, t->trust, c->cert, c->between) != 1) {
		X509_STORE_CTX_free(ctx);
		return true;
	}
	X509_STORE_CTX_set_app_data(ctx, &revoked);
	X509_STORE_CTX_set_verify_cb(ctx, only_revoked);
	(void)X509_verify_cert(ctx);
	X509_STORE_CTX_free(ctx);
	return revoked;
}
