/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/lib/log.c */
/*
 * test_rec.c - what ZooKeeper nodes hold: written and read again, refused when it is damaged or
 * newer; which processes are dead.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffo/store/zk/rec.h"

static struct ffo_container web(void)
{
	struct ffo_container c = { .id = 7,
				   .epoch = 3,
				   .lid = 9,
				   .num_ips = 2,
				   .name = "web",
				   .tenant = "red",
				   .host = "h0" };

	ffo_addr_parse("10.77.0.2", &c.ip[0]);
	ffo_addr_parse("fd77::2", &c.ip[1]);
	return c;
}

static void records_come_back(void **state)
{
	struct ffo_container c = web(), c2;
	struct ffo_rule rules[2], rules2[FFO_RULES_MAX];
	struct ffo_tenant tenants[2] = { { .name = "a" }, { .name = "b" } };
	struct ffo_tenant tenants2[FFO_TENANTS_MAX];
	struct rec_up u = { .host = { .name = "h0",
				      .instance = "i",
				      .wire = "tcp:1.2.3.4:5",
				      .last_seen = 99,
				      .up = true },
			    .session = { .id = -5, .passwd = "\x01\xff 34567890123" },
			    .process = "p" };
	struct rec_up u2;
	size_t len, n;
	uint32_t v;
	char *data, number[REC_NUMBER_MAX];

	(void)state;
	data = rec_container(&c, &len);
	assert_int_equal(rec_to_container(data, len, &c2), 0); /* without limits */
	assert_memory_equal(&c, &c2, sizeof(c));
	free(data);
	c.limits.tx_rate = 7;
	strcpy(c.device_name, "mlx5_0");
	c.devices = 4;
	data = rec_container(&c, &len);
	assert_int_equal(data[0], REC_VERSION);
	assert_int_equal(rec_to_container(data, len, &c2), 0);
	assert_memory_equal(&c, &c2, sizeof(c));
	/* Cut anywhere, it is damaged. */
	for (size_t i = 0; i < len; i++)
		assert_int_equal(rec_to_container(data, i, &c2), -EBADMSG);
	data[0]++;
	assert_int_equal(rec_to_container(data, len, &c2), -EPROTO);
	free(data);

	ffo_rule_make(&rules[0], "a", "b", true);
	ffo_rule_make(&rules[1], "a", "c", false);
	data = rec_policy(rules, 2, &len);
	assert_int_equal(rec_to_policy(data, len, rules2, &n), 0);
	assert_int_equal(n, 2);
	assert_memory_equal(rules, rules2, sizeof(rules));
	free(data);
	data = rec_policy(rules + 1, 1, &len);
	free(data);
	struct ffo_rule swapped[2] = { rules[1], rules[0] };
	data = rec_policy(swapped, 2, &len);
	assert_int_equal(rec_to_policy(data, len, rules2, &n), -EBADMSG);
	free(data);

	tenants[0].limits.max_qp = 1;
	tenants[1].limits.max_mr = 2;
	data = rec_tenants(tenants, 2, &len);
	assert_int_equal(rec_to_tenants(data, len, tenants2, &n), 0);
	assert_int_equal(n, 2);
	assert_memory_equal(tenants, tenants2, sizeof(tenants));
	assert_int_equal(rec_to_tenants(data, len - 1, tenants2, &n), -EBADMSG);
	free(data);

	data = rec_up(&u, &len);
	assert_int_equal(rec_to_up(data, len, &u2), 0);
	assert_memory_equal(&u, &u2, sizeof(u));
	free(data);

	len = rec_number(UINT32_MAX, number);
	assert_int_equal(rec_to_number(number, len, &v), 0);
	assert_int_equal(v, UINT32_MAX);
	assert_int_equal(rec_to_number("14294967296", 11, &v), -EBADMSG);
	assert_int_equal(rec_to_number("1", 1, &v), -EBADMSG);
	assert_int_equal(rec_to_number("1-1", 3, &v), -EBADMSG);
	assert_int_equal(rec_to_number("", 0, &v), -EBADMSG);
}

static void segments_come_back(void **state)
{
	struct ffo_map m = { .container = 5,
			     .rkey = 8,
			     .session = 1,
			     .addr = 1ull << 63,
			     .length = 4096,
			     .access = 7,
			     .shadow = UINT64_MAX,
			     .key = 6,
			     .epoch = 2 };
	static uint8_t buf[SEG_MAX + 1];
	struct ffo_map back;

	(void)state;
	seg_head(buf, 5, 2, 2);
	seg_row(buf, 0, &m);
	m.rkey = 9;
	seg_row(buf, 1, &m);
	assert_int_equal(seg_parse(buf, SEG_HEAD + 2 * SEG_ROW, 5, 2), 2);
	seg_to_row(buf, 1, &back);
#define X(ctype, name) assert_true(back.name == m.name);
	FFO_MAP_FIELDS(X)
#undef X
	/* Another container's, another epoch's, of another length. */
	assert_int_equal(seg_parse(buf, SEG_HEAD + 2 * SEG_ROW, 6, 2), -EBADMSG);
	assert_int_equal(seg_parse(buf, SEG_HEAD + 2 * SEG_ROW, 5, 1), -EBADMSG);
	assert_int_equal(seg_parse(buf, SEG_HEAD + 2 * SEG_ROW + 1, 5, 2), -EBADMSG);
	assert_int_equal(seg_parse(buf, SEG_HEAD + 2 * SEG_ROW - 1, 5, 2), -EBADMSG);
	assert_int_equal(seg_parse(buf, 3, 5, 2), -EBADMSG);
	assert_int_equal(seg_parse(buf, 0, 5, 2), -EBADMSG);
	/* No rkey; a range that wraps; more rows than there can be; a newer version. */
	m.rkey = 0;
	seg_row(buf, 1, &m);
	assert_int_equal(seg_parse(buf, SEG_HEAD + 2 * SEG_ROW, 5, 2), -EBADMSG);
	m.rkey = 9;
	m.addr = UINT64_MAX;
	seg_row(buf, 1, &m);
	assert_int_equal(seg_parse(buf, SEG_HEAD + 2 * SEG_ROW, 5, 2), -EBADMSG);
	seg_head(buf, 5, 2, SEG_ROWS + 1);
	assert_int_equal(seg_parse(buf, SEG_HEAD + (SEG_ROWS + 1) * SEG_ROW, 5, 2), -EBADMSG);
	buf[0]++;
	assert_int_equal(seg_parse(buf, SEG_HEAD, 5, 2), -EPROTO);
}

static void the_dead_are_known(void **state)
{
	char text[FFO_TEXT_MAX], *at;
	int fd[2];
	pid_t pid;

	(void)state;
	rec_process(text);
	assert_false(rec_process_dead(text));
	assert_int_equal(pipe(fd), 0);
	pid = fork();
	if (!pid) {
		rec_process(text);
		_exit(write(fd[1], text, sizeof(text)) != sizeof(text));
	}
	assert_int_equal(read(fd[0], text, sizeof(text)), sizeof(text));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(rec_process_dead(text));
	close(fd[0]);
	close(fd[1]);

	/* Of another machine, or nonsense: nothing is known of it. */
	at = strchr(text, ':');
	at[-1] = at[-1] == '0' ? '1' : '0';
	assert_false(rec_process_dead(text));
	assert_false(rec_process_dead(""));
	assert_false(rec_process_dead("x:1:2:3"));
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(records_come_back), cmocka_unit_test(segments_come_back),
			cmocka_unit_test(the_dead_are_known));
}
