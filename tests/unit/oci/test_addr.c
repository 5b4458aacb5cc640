/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/oci/addr.c */
/*
 * test_addr.c - addresses of a network namespace, seen from outside it; in what order the router gets them, and what
 * becomes of those that somebody else has. The router is a list here.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/oci/oci.h"

static char why[WHY_SZ];

/* ---- the router ---- */

static json_t *routers;	   /* what the container has */
static const char *others; /* an address of somebody else's */
static int changes, fails;

json_t *ask(const char *socket, json_t *request, int *err, char text[WHY_SZ])
{
	json_t *ips = json_object_get(request, "ips"), *ip, *answer = NULL;
	size_t i;

	assert_string_equal(socket, "sock");
	*err = fails;
	json_array_foreach(ips, i, ip)
		if (others && !strcmp(json_string_value(ip), others))
			*err = -EADDRINUSE;
	if (*err)
		snprintf(text, WHY_SZ, "in use");
	if (!*err && ips) {
		json_decref(routers);
		routers = json_incref(ips);
		changes++;
	}
	if (!*err)
		answer = json_pack("{s:{s:O}}", "container", "ips", routers);
	json_decref(request);
	return answer;
}

static struct addrs list(const char *text)
{
	char copy[256], *save, *ip;
	struct addrs a = { 0 };

	snprintf(copy, sizeof(copy), "%s", text);
	for (ip = strtok_r(copy, " ", &save); ip; ip = strtok_r(NULL, " ", &save))
		assert_int_equal(ffo_addr_parse(ip, &a.ip[a.num++]), 0);
	return a;
}

static void assert_text(const struct addrs *a, const char *want)
{
	char text[512] = "", ip[INET6_ADDRSTRLEN];

	for (unsigned i = 0; i < a->num; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "",
			 ffo_addr_text(&a->ip[i], ip));
	assert_string_equal(text, want);
}

static void has_now(const char *text)
{
	const struct addrs a = list(text);

	json_decref(routers);
	routers = addrs_json(&a);
	changes = 0;
}

static int tell(const char *found)
{
	const struct addrs a = list(found);

	return addrs_tell("sock", "web", &a, why);
}

static void assert_routers(const char *text, int num_changes)
{
	const struct addrs a = list(text);
	json_t *want = addrs_json(&a);

	assert_true(json_equal(routers, want));
	assert_int_equal(changes, num_changes);
	json_decref(want);
}

static void what_stays_keeps_its_place(void **state)
{
	static const struct {
		const char *now, *found, *next;
	} cases[] = {
		{ "10.0.0.2", "10.0.0.2", "10.0.0.2" },
		{ "10.0.0.2", "10.0.0.2 10.0.1.2", "10.0.0.2 10.0.1.2" },
		{ "10.0.1.2", "10.0.0.2 fd00::2 10.0.1.2", "10.0.1.2 10.0.0.2 fd00::2" },
		{ "10.0.0.2 10.0.1.2 fd00::2", "fd00::2 10.0.1.2", "10.0.1.2 fd00::2" },
		{ "10.77.0.2 fd77::2", "172.17.0.2", "172.17.0.2" },
		{ "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.7 10.0.0.8",
		  "10.0.0.9 10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.7",
		  "10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.7 10.0.0.9" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct addrs now = list(cases[i].now), found = list(cases[i].found);
		struct addrs next;

		addrs_order(&now, &found, &next);
		assert_text(&next, cases[i].next);
	}
}

static void the_router_is_told_of_changes(void **state)
{
	(void)state;
	others = NULL;
	has_now("10.0.0.2");
	assert_int_equal(tell("10.0.0.2"), 0);
	assert_routers("10.0.0.2", 0);
	assert_int_equal(tell("10.0.0.2 10.1.0.2"), 0);
	assert_routers("10.0.0.2 10.1.0.2", 1);
	/* none: it keeps what it has */
	assert_int_equal(tell(""), 0);
	assert_routers("10.0.0.2 10.1.0.2", 1);
	fails = -ECONNREFUSED;
	assert_int_equal(tell("10.0.0.2"), -ECONNREFUSED);
	fails = 0;
}

static void what_others_have_is_left_out(void **state)
{
	(void)state;
	has_now("10.0.0.2 10.9.0.2");
	others = "10.1.0.2";
	assert_int_equal(tell("10.0.0.2 10.1.0.2 fd00::2"), 0);
	assert_routers("10.0.0.2 fd00::2", 2);
	assert_string_equal(why, "in use");
	has_now("10.77.0.2");
	assert_int_equal(tell("10.1.0.2"), 0);
	assert_routers("10.77.0.2", 0);
	assert_string_equal(why, "in use");
	others = NULL;
}

/* ---- a namespace ---- */

static pid_t child;
static int go[2], done[2];

static void in_there(const char *command)
{
	char byte;

	assert_int_equal(write(go[1], command, strlen(command) + 1), strlen(command) + 1);
	assert_int_equal(read(done[0], &byte, 1), 1);
	assert_int_equal(byte, 0);
}

static void serve_commands(void)
{
	char command[1024];
	uint8_t status = unshare(CLONE_NEWNET) ? 1 : 0;

	close(go[1]);
	if (write(done[1], &status, 1) != 1 || status)
		_exit(1);
	while (read(go[0], command, sizeof(command)) > 0) {
		status = system(command) != 0;
		if (write(done[1], &status, 1) != 1)
			break;
	}
	_exit(0);
}

static bool make_namespace(void)
{
	uint8_t status = 1;

	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(done), 0);
	child = fork();
	if (!child)
		serve_commands();
	close(go[0]);
	return read(done[0], &status, 1) == 1 && !status;
}

static void addresses_are_found(void **state)
{
	struct addrs_socks s;
	struct addrs a;

	(void)state;
	if (!make_namespace())
		skip(); /* not root */
	assert_int_equal(addrs_open(getpid(), &s), -EXDEV);
	assert_int_equal(addrs_open(child, &s), 0);
	assert_int_equal(addrs_read(&s, &a), 0);
	assert_text(&a, "");
	assert_false(addrs_heard(&s));
	in_there(
		"ip link set lo up && ip addr add 10.5.5.5/32 dev lo && "
		"ip link add v0 type veth peer name v1 && ip link set v0 up && ip link set v1 up && "
		"ip addr add fd01::1/64 dev v1 nodad && ip addr add 10.2.0.1/24 dev v0 && "
		"ip addr add 10.1.0.1/24 dev v1 && ip addr add 169.254.1.1/16 dev v0 scope link && "
		/* on a link that is down nobody can say whether others have it */
		"ip link add v2 type veth peer name v3 && ip addr add fd02::1/64 dev v2 && "
		"ip addr add fd01::2/64 dev v1 nodad preferred_lft 0");
	assert_true(addrs_heard(&s));
	assert_false(addrs_heard(&s));
	assert_int_equal(addrs_read(&s, &a), 0);
	/* v1 has the smaller number: a pair's other end is made first */
	assert_text(&a, "10.1.0.1 fd01::1 10.2.0.1");
	in_there("ip addr del 10.1.0.1/24 dev v1");
	assert_true(addrs_heard(&s));
	assert_int_equal(addrs_read(&s, &a), 0);
	assert_text(&a, "fd01::1 10.2.0.1");
	in_there("for i in 2 3 4 5 6 7 8 9; do ip addr add 10.2.0.$i/24 dev v0 || exit 1; done");
	assert_int_equal(addrs_read(&s, &a), 0);
	assert_int_equal(a.num, FFO_ADDR_MAX);
	addrs_close(&s);
	close(go[1]);
	waitpid(child, NULL, 0);
	/* it has gone: there is nothing to open */
	assert_true(addrs_open(child, &s) < 0);
	assert_int_equal(s.ear, -1);
}

/* A process that shares the namespace with the child: its number, when it is what it is to be. */
static pid_t share(int spaces, bool net_admin)
{
	pid_t pid;
	int ready[2];
	char path[64], byte;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		snprintf(path, sizeof(path), "/proc/%d/ns/net", child);
		if (setns(open(path, O_RDONLY), CLONE_NEWNET) || unshare(spaces) ||
		    (!net_admin && prctl(PR_CAPBSET_DROP, CAP_NET_ADMIN)) ||
		    write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static bool anyones_with(int spaces, bool net_admin)
{
	pid_t pid = share(spaces, net_admin);
	bool is = addrs_anyones(child);

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return is;
}

static void another_may_choose_them(void **state)
{
	(void)state;
	if (!make_namespace())
		skip(); /* not root */
	assert_false(addrs_anyones(child));
	assert_true(anyones_with(CLONE_NEWNS, true));
	assert_false(anyones_with(CLONE_NEWNS, false));
	/* whose capabilities are of a user namespace that the network is not of */
	assert_false(anyones_with(CLONE_NEWUSER | CLONE_NEWNS, true));
	close(go[1]);
	waitpid(child, NULL, 0);
	/* it has gone: nobody can tell */
	assert_true(addrs_anyones(child));
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	return UNIT_RUN(cmocka_unit_test(what_stays_keeps_its_place),
			cmocka_unit_test(the_router_is_told_of_changes),
			cmocka_unit_test(what_others_have_is_left_out),
			cmocka_unit_test(addresses_are_found),
			cmocka_unit_test(another_may_choose_them));
}
