/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * acl.c - see acl.h. The loop's thread only.
 *
 * There are three kinds of credentials. Those that all hosts share let them read everything. A process
 * may have its own beside them: a host's, or an operator's. Without credentials of its own all that it
 * makes is for all who share the others (or for everybody, where there are none). With them:
 *
 *			the maker	operators	all hosts
 *	OWN		all		all		read
 *	ADD		-		all		read, make nodes in it
 *	SHARED		-		all		read, write, make, remove
 *	OPERATORS	-		all		read
 *
 * To remove a node, ZooKeeper asks for the right of its folder, not its own. So what only its maker may
 * remove is in a folder that is OWN, and what is in one that is ADD only operators remove.
 */
#include "ffo/store/zk/acl.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffo/store/zk/zk.h"

#define SCHEME "digest"
#define ID_MAX 160u

enum acl_kind { ACL_OWN, ACL_ADD, ACL_SHARED, ACL_OPERATORS, ACL_HOST, NUM_KINDS };

struct zk_acls {
	char shared[ID_MAX], own[ID_MAX], operators[ID_MAX], host[ID_MAX]; /* "USER:HASH" */
	struct ACL entry[NUM_KINDS][3];
	struct ACL_vector vector[NUM_KINDS];
	const struct ACL_vector *all; /* the one for everything, without credentials of our own */
};

/*
 * The kinds, by where in the tree: the longest of these that the path is, or is in. `below`: of what is
 * in it, at any depth.
 */
static const struct {
	const char *path;
	enum acl_kind at, in, below;
} tree[] = {
	/* path		itself		what is in it	and further down */
	{ "/containers", ACL_ADD, ACL_OWN, ACL_OWN },
	{ "/names", ACL_ADD, ACL_OWN, ACL_OWN },
	{ "/lids", ACL_ADD, ACL_OWN, ACL_OWN },
	{ "/addrs", ACL_ADD, ACL_ADD, ACL_OWN },
	{ "/owned", ACL_ADD, ACL_ADD, ACL_OWN },
	{ "/hosts", ACL_OPERATORS, ACL_OWN, ACL_OWN },
	{ "/ids", ACL_SHARED, ACL_SHARED, ACL_SHARED },
	{ "/active", ACL_SHARED, ACL_SHARED, ACL_SHARED },
	{ "/mcast", ACL_SHARED, ACL_SHARED, ACL_SHARED },
};

/* digest:USER:PASSWORD to what stands in an ACL: USER:base64(SHA-1(USER:PASSWORD)). */
static int id_of(const char *credentials, char id[ID_MAX])
{
	const char *text = strchr(credentials, ':'), *colon;
	unsigned char hash[EVP_MAX_MD_SIZE], base64[2 * EVP_MAX_MD_SIZE];
	unsigned int len;

	if (!text || strncmp(credentials, SCHEME ":", strlen(SCHEME) + 1))
		return -EINVAL;
	text++;
	colon = strchr(text, ':');
	if (!colon || colon == text || colon - text > 64)
		return -EINVAL;
	if (EVP_Digest(text, strlen(text), hash, &len, EVP_sha1(), NULL) != 1)
		return -ENOMEM;
	EVP_EncodeBlock(base64, hash, (int)len);
	snprintf(id, ID_MAX, "%.*s:%s", (int)(colon - text), text, (const char *)base64);
	return 0;
}

static void put(struct zk_acls *a, enum acl_kind kind, int32_t perms, char *id)
{
	struct ACL_vector *v = &a->vector[kind];

	v->data = a->entry[kind];
	v->data[v->count++] =
		(struct ACL){ .perms = perms, .id = { .scheme = (char *)SCHEME, .id = id } };
}

static void make_vectors(struct zk_acls *a)
{
	const int32_t use = ZOO_PERM_READ | ZOO_PERM_WRITE | ZOO_PERM_CREATE | ZOO_PERM_DELETE;

	for (enum acl_kind k = 0; k < NUM_KINDS; k++)
		put(a, k, ZOO_PERM_ALL, a->operators);
	put(a, ACL_OWN, ZOO_PERM_ALL, a->own);
	put(a, ACL_OWN, ZOO_PERM_READ, a->shared);
	put(a, ACL_ADD, ZOO_PERM_READ | ZOO_PERM_CREATE, a->shared);
	put(a, ACL_SHARED, use, a->shared);
	put(a, ACL_OPERATORS, ZOO_PERM_READ, a->shared);
	put(a, ACL_HOST, ZOO_PERM_ALL, a->host);
	put(a, ACL_HOST, ZOO_PERM_READ, a->shared);
}

int zk_acls_new(const struct zk_conf *conf, struct zk_acls **acls)
{
	struct zk_acls *a = calloc(1, sizeof(*a));
	int err = 0;

	if (!a)
		return -ENOMEM;
	if (!conf->own) {
		a->all = conf->auth ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
		*acls = a;
		return 0;
	}
	if (!conf->auth || !conf->operator_id || strlen(conf->operator_id) >= ID_MAX)
		err = -EINVAL;
	if (!err)
		err = id_of(conf->auth, a->shared);
	if (!err)
		err = id_of(conf->own, a->own);
	if (err) {
		free(a);
		return err;
	}
	snprintf(a->operators, sizeof(a->operators), "%s", conf->operator_id);
	make_vectors(a);
	*acls = a;
	return 0;
}

void zk_acls_free(struct zk_acls *a)
{
	free(a);
}

const struct ACL_vector *zk_acl_of(const struct zk_acls *a, const char *path)
{
	enum acl_kind kind = ACL_OPERATORS;

	if (a->all)
		return a->all;
	for (size_t i = 0; i < sizeof(tree) / sizeof(tree[0]); i++) {
		size_t len = strlen(tree[i].path);

		if (strncmp(path, tree[i].path, len) || (path[len] && path[len] != '/'))
			continue;
		kind = !path[len]		    ? tree[i].at :
		       !strchr(path + len + 1, '/') ? tree[i].in :
						      tree[i].below;
	}
	return &a->vector[kind];
}

const struct ACL_vector *zk_acl_operators(const struct zk_acls *a)
{
	return a->all ? a->all : &a->vector[ACL_OPERATORS];
}

const struct ACL_vector *zk_acl_of_host(struct zk_acls *a, const char *id)
{
	snprintf(a->host, sizeof(a->host), "%s", id);
	return a->all ? a->all : &a->vector[ACL_HOST];
}

bool zk_acls_has_own(const struct zk_acls *a)
{
	return !a->all;
}

bool zk_acls_is_operator(const struct zk_acls *a)
{
	return a->all || !strcmp(a->own, a->operators);
}

/* Every other scheme than "world" and "ip" asks for credentials. */
bool zk_acl_is_open(const struct ACL_vector *v)
{
	for (int32_t i = 0; i < v->count; i++)
		if (!strcmp(v->data[i].id.scheme, "world") || !strcmp(v->data[i].id.scheme, "ip"))
			return true;
	return false;
}
