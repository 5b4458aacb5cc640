/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * acl.h - who may do what with a node that we make: from the credentials, and where it is in the
 * tree. For zk.c and call.c.
 */
#ifndef FFO_STORE_ZK_ACL_H
#define FFO_STORE_ZK_ACL_H

#include <stdbool.h>
#include <zookeeper/zookeeper.h>

struct zk_acls;
struct zk_conf;

/* Read from conf->auth, own and operator_id. 0, -EINVAL (no digest:USER:PASSWORD) or -ENOMEM. */
int zk_acls_new(const struct zk_conf *conf, struct zk_acls **acls);
void zk_acls_free(struct zk_acls *a);
/* Of a node at that path, below the root. */
const struct ACL_vector *zk_acl_of(const struct zk_acls *a, const char *path);
/* Of one that is for operators to change, and of the folder of the host with these credentials. */
const struct ACL_vector *zk_acl_operators(const struct zk_acls *a);
const struct ACL_vector *zk_acl_of_host(struct zk_acls *a, const char *id);
/* Do these rights let clients without credentials do anything? */
bool zk_acl_is_open(const struct ACL_vector *v);
/* Are there credentials of our own, and are they an operator's? */
bool zk_acls_has_own(const struct zk_acls *a);
bool zk_acls_is_operator(const struct zk_acls *a);

#endif
