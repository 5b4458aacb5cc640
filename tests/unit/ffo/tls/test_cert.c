/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffo/tls/crl.c ffr/lib/log.c */
/*
 * test_cert.c - the roles that a certificate's alternative names give. The test includes cert.c, so that it may
 * ask for them without a connection.
 */
#include "ffo/tls/cert.c" /* NOLINT(bugprone-suspicious-include) */
#include "tests/rig/unit/unit.h"

/* A certificate with one alternative name of that type, which is these len bytes. */
static X509 *cert_with(int type, const char *text, size_t len)
{
	GENERAL_NAMES *names = GENERAL_NAMES_new();
	GENERAL_NAME *name = GENERAL_NAME_new();
	ASN1_IA5STRING *value = ASN1_IA5STRING_new();
	X509 *cert = X509_new();

	assert_true(ASN1_STRING_set(value, text, (int)len));
	GENERAL_NAME_set0_value(name, type, value);
	assert_true(sk_GENERAL_NAME_push(names, name));
	assert_int_equal(X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, 0), 1);
	GENERAL_NAMES_free(names);
	return cert;
}

/* Text behind a NUL is one that the authority has read, and that strcmp() does not see. */
static void a_role_is_a_whole_name(void **state)
{
	static const struct {
		int type;
		const char *text;
		size_t len;
		enum tls_role role;
	} t[] = {
#define N(type, text, role) { type, text, sizeof(text) - 1, role }
		N(GEN_URI, "freeflow:host", TLS_ROLE_HOST),
		N(GEN_URI, "freeflow:operator", TLS_ROLE_OPERATOR),
		N(GEN_URI, "freeflow:host\0.example.org", TLS_ROLE_NONE),
		N(GEN_URI, "freeflow:host\0", TLS_ROLE_NONE),
		N(GEN_URI, "freeflow:hosts", TLS_ROLE_NONE),
		N(GEN_URI, "freeflow:hos", TLS_ROLE_NONE),
		N(GEN_URI, "xfreeflow:host", TLS_ROLE_NONE),
		N(GEN_URI, "", TLS_ROLE_NONE),
		N(GEN_DNS, "freeflow:host", TLS_ROLE_NONE),
#undef N
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		X509 *cert = cert_with(t[i].type, t[i].text, t[i].len);
		enum tls_role role;

		assert_int_equal(roles_of(cert, &role), t[i].role != TLS_ROLE_NONE);
		assert_int_equal(role, t[i].role);
		X509_free(cert);
	}
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(a_role_is_a_whole_name));
}
