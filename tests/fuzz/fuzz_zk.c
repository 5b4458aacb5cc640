/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffo/base/limits.c ffo/base/proto.c ffo/base/tenants.c ffo/store/zk/rec.c */
/*
 * fuzz_zk.c - whatever a ZooKeeper node holds: a parser refuses it, or what it makes of it is sound
 * and comes out the same when it is written and read again.
 *
 * The first byte says which parser.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ffo/store/zk/rec.h"

static void refused(int err)
{
	assert(err == -EPROTO || err == -EBADMSG || err == -ENOMEM);
}

static bool text_ok(const char *text, size_t size)
{
	return memchr(text, '\0', size);
}

static void container(const char *data, size_t len)
{
	struct ffo_container c, again;
	char *bytes;
	int err = rec_to_container(data, len, &c);

	if (err) {
		refused(err);
		return;
	}
	assert(c.id && c.epoch && c.lid && c.lid <= FFO_LID_MAX && !c.active);
	assert(c.num_ips && c.num_ips <= FFO_ADDR_MAX && c.mode < FFO_NUM_MODES);
	assert(ffo_name_ok(c.name) && ffo_name_ok(c.tenant) && ffo_name_ok(c.host));
	bytes = rec_container(&c, &len);
	assert(bytes && !rec_to_container(bytes, len, &again));
	assert(!memcmp(&c, &again, sizeof(c)));
	free(bytes);
}

static void policy(const char *data, size_t len)
{
	static struct ffo_rule rules[FFO_RULES_MAX], again[FFO_RULES_MAX];
	size_t n, m;
	char *bytes;
	int err = rec_to_policy(data, len, rules, &n);

	if (err) {
		refused(err);
		assert(!n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		assert(ffo_party_ok(rules[i].a) && ffo_party_ok(rules[i].b) &&
		       strcmp(rules[i].a, rules[i].b) <= 0);
	bytes = rec_policy(rules, n, &len);
	assert(bytes && !rec_to_policy(bytes, len, again, &m) && m == n);
	assert(!memcmp(rules, again, n * sizeof(*rules)));
	free(bytes);
}

static void tenants(const char *data, size_t len)
{
	static struct ffo_tenant list[FFO_TENANTS_MAX], again[FFO_TENANTS_MAX];
	size_t n, m;
	char *bytes;
	int err = rec_to_tenants(data, len, list, &n);

	if (err) {
		refused(err);
		assert(!n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		assert(ffo_name_ok(list[i].name) &&
		       (!i || strcmp(list[i - 1].name, list[i].name) < 0));
	bytes = rec_tenants(list, n, &len);
	assert(bytes && !rec_to_tenants(bytes, len, again, &m) && m == n);
	assert(!memcmp(list, again, n * sizeof(*list)));
	free(bytes);
}

static void up(const char *data, size_t len)
{
	struct rec_up u, again;
	char *bytes;
	int err = rec_to_up(data, len, &u);

	if (err) {
		refused(err);
		return;
	}
	assert(ffo_name_ok(u.host.name) && text_ok(u.host.instance, sizeof(u.host.instance)) &&
	       text_ok(u.host.wire, sizeof(u.host.wire)) && text_ok(u.process, sizeof(u.process)));
	rec_process_dead(u.process);
	bytes = rec_up(&u, &len);
	if (!bytes) /* a process that is no UTF-8 */
		return;
	assert(!rec_to_up(bytes, len, &again));
	assert(again.session.id == u.session.id && again.host.up == u.host.up &&
	       again.host.last_seen == u.host.last_seen);
	free(bytes);
}

static void number(const char *data, size_t len)
{
	char bytes[REC_NUMBER_MAX];
	uint32_t n, again;
	int err = rec_to_number(data, len, &n);

	if (err)
		refused(err);
	else
		assert(!rec_to_number(bytes, rec_number(n, bytes), &again) && again == n);
}

static void segment(const uint8_t *data, size_t len)
{
	static uint8_t bytes[SEG_MAX];
	struct ffo_map m;
	int n = seg_parse(data, len, 5, 1);

	if (n < 0) {
		refused(n);
		return;
	}
	assert((unsigned int)n <= SEG_ROWS && len <= sizeof(bytes));
	seg_head(bytes, 5, 1, (uint32_t)n);
	for (int i = 0; i < n; i++) {
		seg_to_row(data, (unsigned int)i, &m);
		assert(m.container == 5 && m.epoch == 1 && m.rkey && m.session &&
		       m.addr + m.length >= m.addr);
		seg_row(bytes, (unsigned int)i, &m);
	}
	assert(!memcmp(bytes, data, len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;

	if (!size)
		return 0;
	switch (data[0] % 6) {
	case 0:
		container(text, size - 1);
		break;
	case 1:
		policy(text, size - 1);
		break;
	case 2:
		up(text, size - 1);
		break;
	case 3:
		number(text, size - 1);
		break;
	case 4:
		segment(data + 1, size - 1);
		break;
	case 5:
		tenants(text, size - 1);
		break;
	}
	return 0;
}
