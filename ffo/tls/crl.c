/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * crl.c - see crl.h. Used by tls.c; by one thread for each struct tls.
 *
 * Fail closed: with CRL checks on and no list of an authority in the store, OpenSSL takes no
 * certificate of that authority; nor with one that has expired. So a file that is gone or broken is
 * the same as an empty set of lists, and all that is left to do here is to say so.
 */
#include "ffo/tls/crl.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ffr/lib/log.h"

#define MAX_LISTS 64 /* in the file */

/* What tells one state of the file from another. */
struct mark {
	struct timespec changed;
	ino_t ino;
	off_t size;
	int err;
};

struct tls_crl {
	char *path;
	struct mark mark;
	STACK_OF(X509_CRL) * lists; /* NULL: the file cannot be read */
	bool expired;		    /* the log knows */
};

static void lists_free(STACK_OF(X509_CRL) * lists)
{
	sk_X509_CRL_pop_free(lists, X509_CRL_free);
}

static void mark_take(const struct tls_crl *c, struct mark *m)
{
	struct stat st;

	memset(m, 0, sizeof(*m));
	if (stat(c->path, &st)) {
		m->err = errno;
		return;
	}
	m->changed = st.st_mtim;
	m->ino = st.st_ino;
	m->size = st.st_size;
}

/* All lists of the file, and nothing but lists; NULL: `err` has one line. */
static STACK_OF(X509_CRL) * lists_read(const char *path, char *err, size_t size)
{
	STACK_OF(X509_CRL) *lists = sk_X509_CRL_new_null();
	FILE *f = fopen(path, "re");
	bool whole = false;
	X509_CRL *one;

	if (!f || !lists) {
		snprintf(err, size, "%s: %s", path, strerror(f ? ENOMEM : errno));
		goto out;
	}
	ERR_clear_error();
	while (sk_X509_CRL_num(lists) < MAX_LISTS && (one = PEM_read_X509_CRL(f, NULL, NULL, NULL)))
		if (!sk_X509_CRL_push(lists, one)) {
			X509_CRL_free(one);
			break;
		}
	/* At the file's end, and only there, no further list begins. */
	whole = sk_X509_CRL_num(lists) && feof(f) &&
		ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
	if (!whole)
		snprintf(err, size, "%s: not a PEM file of revocation lists", path);
	ERR_clear_error();
out:
	if (f)
		fclose(f);
	if (whole)
		return lists;
	lists_free(lists);
	return NULL;
}

static int num_revoked(const struct tls_crl *c)
{
	int n = 0, of_one;

	for (int i = 0; i < sk_X509_CRL_num(c->lists); i++) {
		of_one = sk_X509_REVOKED_num(X509_CRL_get_REVOKED(sk_X509_CRL_value(c->lists, i)));
		n += of_one > 0 ? of_one : 0;
	}
	return n;
}

/* Said when it happens, and when a list is read that has: nothing else tells why all are refused. */
static void look_at_dates(struct tls_crl *c)
{
	const ASN1_TIME *until;
	bool expired = false;

	for (int i = 0; i < sk_X509_CRL_num(c->lists); i++) {
		until = X509_CRL_get0_nextUpdate(sk_X509_CRL_value(c->lists, i));
		expired |= until && X509_cmp_current_time(until) < 0;
	}
	if (expired && !c->expired)
		log_err("%s: the revocation list has expired: connections are refused until there is a new one",
			c->path);
	c->expired = expired;
}

struct tls_crl *tls_crl_create(const char *path, char *err, size_t size)
{
	struct tls_crl *c = calloc(1, sizeof(*c));

	if (c)
		c->path = strdup(path);
	if (!c || !c->path) {
		snprintf(err, size, "out of memory");
		free(c);
		return NULL;
	}
	mark_take(c, &c->mark);
	c->lists = lists_read(path, err, size);
	if (!c->lists) {
		tls_crl_free(c);
		return NULL;
	}
	look_at_dates(c);
	return c;
}

void tls_crl_free(struct tls_crl *c)
{
	if (!c)
		return;
	lists_free(c->lists);
	free(c->path);
	free(c);
}

bool tls_crl_look(struct tls_crl *c)
{
	struct mark now;
	char err[512];

	mark_take(c, &now);
	if (!memcmp(&now, &c->mark, sizeof(now))) {
		look_at_dates(c);
		return false;
	}
	c->mark = now;
	lists_free(c->lists);
	c->lists = lists_read(c->path, err, sizeof(err));
	c->expired = false;
	if (c->lists)
		log_info("%s: the revocation list was read: %d revoked", c->path, num_revoked(c));
	else
		log_err("%s: connections are refused until the revocation list can be read", err);
	look_at_dates(c);
	return true;
}

int tls_crl_apply(const struct tls_crl *c, X509_STORE *store)
{
	X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
	for (int i = 0; i < sk_X509_CRL_num(c->lists); i++)
		if (X509_STORE_add_crl(store, sk_X509_CRL_value(c->lists, i)) != 1)
			return -ENOMEM;
	return 0;
}

bool tls_crl_is_readable(const struct tls_crl *c)
{
	return c->lists;
}
