/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_kept.c - ffr/ctl/kept.c, and what container.c keeps with it: the NIC that an operator chose for a container, which
 * the next router gives it again.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/rig/unit/ctl_calls.h"

static struct ctl_rig *const g = &call_rig;

/* The host has NICs of these names; none of them is used. */
static void nics(const char *first, const char *second, const char *third)
{
	const char *const name[] = { first, second, third };
	struct fast_host *h = g->ctl.host;

	for (int i = 0; i < 3; i++)
		snprintf(h->nic[i].name, sizeof(h->nic[i].name), "%s", name[i]);
	h->num_nics = 3;
}

static int setup(void **state)
{
	int err = call_setup(state);

	nics("mlx5_0:1", "mlx5_0:2", "mlx5_1:1");
	return err;
}

static int teardown(void **state)
{
	g->ctl.host->num_nics = 0;
	return call_teardown(state);
}

/* The router ends, and the next one finds container a, or another of that name. */
static void again(uint32_t id)
{
	struct ffo_container info = { .id = id, .epoch = 1, .lid = 1, .num_ips = 1, .name = "a" };

	snprintf(info.tenant, sizeof(info.tenant), "default");
	info.ip[0].s6_addr[10] = info.ip[0].s6_addr[11] = 0xff;
	info.ip[0].s6_addr[15] = 1;
	container_stop(g->c[0]);
	assert_int_equal(container_attach(&g->ctl, &info), 0);
	g->c[0] = container_find(&g->ctl, "a");
}

static bool is_kept(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/containers/.a.nic", g->dir);
	return !access(path, F_OK);
}

static void a_choice_is_kept(void **state)
{
	(void)state;
	again(1);
	assert_int_equal(g->c[0]->nic, 1); /* b has the first */
	assert_false(is_kept());
	assert_int_equal(container_set_nic(g->c[0], 0), 0);
	again(1);
	assert_int_equal(g->c[0]->nic, 0);
	assert_int_equal(container_set_nic(g->c[0], 2), 0);
	again(1);
	again(1);
	assert_int_equal(g->c[0]->nic, 2);
	/* it is the name that counts: their order is another one */
	nics("mlx5_1:1", "mlx5_0:1", "mlx5_0:2");
	again(1);
	assert_int_equal(g->c[0]->nic, 0);
}

/* Also the one that it has, which it might not be given again. */
static void so_is_that_of_what_it_has(void **state)
{
	(void)state;
	again(1);
	assert_int_equal(container_set_nic(g->c[0], 1), 0);
	g->c[1]->nic = 1;
	again(1);
	assert_int_equal(g->c[0]->nic, 1);
}

static void not_one_that_is_refused(void **state)
{
	int sock = call_client(g, 0);
	uint8_t had = g->c[0]->nic;

	(void)state;
	assert_int_equal(container_set_nic(g->c[0], (uint8_t)(had + 1)), -EBUSY);
	assert_false(is_kept());
	assert_int_equal(container_set_nic(g->c[0], had), 0);
	assert_true(is_kept());
	close(sock);
	rig_pump(g);
}

static void a_nic_that_is_not_there_any_more(void **state)
{
	(void)state;
	assert_int_equal(container_set_nic(g->c[0], 2), 0);
	nics("mlx5_0:1", "mlx5_0:2", "mlx5_2:1");
	again(1);
	assert_int_equal(g->c[0]->nic, 1); /* as if nobody had chosen */
	nics("mlx5_0:1", "mlx5_0:2", "mlx5_1:1");
	again(1);
	assert_int_equal(g->c[0]->nic, 2);
}

static void it_goes_with_the_container(void **state)
{
	(void)state;
	assert_int_equal(container_set_nic(g->c[0], 2), 0);
	again(7);
	assert_int_equal(g->c[0]->nic, 1);
	assert_false(is_kept());
	assert_int_equal(container_set_nic(g->c[0], 2), 0);
	assert_true(is_kept());
	container_detach(g->c[0]);
	g->c[0] = NULL;
	assert_false(is_kept());
}

/* ---- files ----------------------------------------------------------------------------------------------- */

static void put(const char *file, const char *text)
{
	char path[160];
	int fd;

	snprintf(path, sizeof(path), "%s/containers/%s", g->dir, file);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void damage(void **state)
{
	static const char *const bad[] = { "",	   "x\n",	"1",	       "1\n",	    "1 ",
					   "1 \n", "1mlx5_1:1", "-1 mlx5_1:1", "2 mlx5_1:1" };
	char word[KEPT_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put(".a.nic", bad[i]);
		assert_int_equal(kept_read(g->c[0], KEPT_NIC, word), -ENOENT);
		assert_false(is_kept());
	}
	put(".a.nic", "1 mlx5_1:1"); /* without the end of its line */
	assert_int_equal(kept_read(g->c[0], KEPT_NIC, word), 0);
	assert_string_equal(word, "mlx5_1:1");
}

static void the_longest(void **state)
{
	char word[KEPT_MAX], text[KEPT_MAX];

	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(kept_write(g->c[0], KEPT_NIC, text), 0);
	assert_int_equal(kept_read(g->c[0], KEPT_NIC, word), 0);
	assert_string_equal(word, text);
	/* a shorter one after it */
	assert_int_equal(kept_write(g->c[0], KEPT_NIC, "y:1"), 0);
	assert_int_equal(kept_read(g->c[0], KEPT_NIC, word), 0);
	assert_string_equal(word, "y:1");
}

static void leftovers(void **state)
{
	char word[KEPT_MAX], path[160];

	(void)state;
	assert_int_equal(container_set_nic(g->c[0], 2), 0);
	put(".old.nic", "9 mlx5_1:1\n");
	containers_sweep(&g->ctl);
	snprintf(path, sizeof(path), "%s/containers/.old.nic", g->dir);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_equal(kept_read(g->c[0], KEPT_NIC, word), 0);
}

static void names_of_its_files(void **state)
{
	static const char *const no[] = { "web.runs", ".runs", "..runs",  ".web.cgroup",
					  ".-x.runs", ".a",    "web.nic", "..nic" };
	char name[CONTAINER_NAME_MAX], longest[CONTAINER_NAME_MAX + 8];

	(void)state;
	assert_true(kept_file(".web-1.x.runs", name));
	assert_string_equal(name, "web-1.x");
	assert_true(kept_file(".web.runs.nic", name));
	assert_string_equal(name, "web.runs");
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(kept_file(no[i], name));
	snprintf(longest, sizeof(longest), ".%0*d.nic", CONTAINER_NAME_MAX - 1, 7);
	assert_true(kept_file(longest, name));
	snprintf(longest, sizeof(longest), ".%0*d.nic", CONTAINER_NAME_MAX, 7);
	assert_false(kept_file(longest, name));
}

#define NIC_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		NIC_TEST(a_choice_is_kept),
		NIC_TEST(so_is_that_of_what_it_has),
		NIC_TEST(not_one_that_is_refused),
		NIC_TEST(a_nic_that_is_not_there_any_more),
		NIC_TEST(it_goes_with_the_container),
		NIC_TEST(damage),
		NIC_TEST(the_longest),
		NIC_TEST(leftovers),
		NIC_TEST(names_of_its_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
