/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rec.h - what the ZooKeeper nodes of zks.c hold. Every payload begins with its version, one
 * byte, and is checked field by field when it is read: who can write there may have written anything.
 *
 *	'1' and a JSON object	containers (also below names/, lids/ and addrs/), hosts, the policy, the
 *			tenants' limits
 *	'1' and a number	version
 *	1 and little-endian integers	segments of mappings (SEG_*)
 *
 * Parsers return 0, -EPROTO (a version that we do not know) or -EBADMSG (damaged), and -ENOMEM. Any
 * thread.
 */
#ifndef FFO_STORE_ZK_REC_H
#define FFO_STORE_ZK_REC_H

#include "ffo/base/proto.h"
#include "ffo/store/zk/zk.h"

#define REC_VERSION '1'
#define REC_MAX	    (256u << 10) /* bytes; the policy and the tenants at their limits fit */

/* Records to bytes: from malloc(), *len of them, or NULL without memory. */
char *rec_container(const struct ffo_container *c, size_t *len);
char *rec_policy(const struct ffo_rule *rules, size_t n, size_t *len);
char *rec_tenants(const struct ffo_tenant *list, size_t n, size_t *len);
/* id, epoch and addresses are checked against nothing: that is the caller's. */
int rec_to_container(const char *data, size_t len, struct ffo_container *c);
/* rules: room for FFO_RULES_MAX. */
int rec_to_policy(const char *data, size_t len, struct ffo_rule *rules, size_t *n);
/* list: room for FFO_TENANTS_MAX. */
int rec_to_tenants(const char *data, size_t len, struct ffo_tenant *list, size_t *n);

/* A host that is up: who says so. Kept nodes of hosts have the host only, up as false. */
struct rec_up {
	struct ffo_host host;
	struct zk_session session;  /* whose node it is, to end it when its process is dead */
	char process[FFO_TEXT_MAX]; /* see rec_process() */
};
char *rec_up(const struct rec_up *u, size_t *len);
int rec_to_up(const char *data, size_t len, struct rec_up *u);

/* '1' and a number. buf: REC_NUMBER_MAX bytes. Its length. */
#define REC_NUMBER_MAX 16u
size_t rec_number(uint32_t n, char *buf);
int rec_to_number(const char *data, size_t len, uint32_t *n);

/* ---- segments of mappings ---- */

#define SEG_ROWS 512u
#define SEG_HEAD 16u /* version, 3 bytes 0, container, epoch, number of rows */
#define SEG_ROW	 40u /* rkey, session, access, key, addr, length, shadow */
#define SEG_MAX	 (SEG_HEAD + SEG_ROWS * SEG_ROW)

void seg_head(uint8_t *buf, uint32_t container, uint32_t epoch, uint32_t rows);
void seg_row(uint8_t *buf, unsigned int i, const struct ffo_map *m);
/* The number of rows, or -errno: the whole is checked, so that seg_to_row() cannot fail. */
int seg_parse(const uint8_t *data, size_t len, uint32_t container, uint32_t epoch);
void seg_to_row(const uint8_t *data, unsigned int i, struct ffo_map *m);

/* ---- names of nodes ---- */

/* A name that is a number and nothing else: 0 or -EINVAL. */
int rec_name_number(const char *name, uint32_t *n);

/*
 * Who we are, so that others on this machine can tell when we are dead: boot, PID namespace, PID and
 * when it started. And is the process of that text on this machine, and dead? (false: or unknown)
 */
void rec_process(char *buf);
bool rec_process_dead(const char *text);

#endif
