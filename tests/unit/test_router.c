/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_router.c - a whole control thread with its embedded orchestrator: what administrators ask,
 * what is published, what survives a restart.
 * build: tests/rig/unit/router_rig.c
 *
 * threads: yes
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ffo/server/ffo.h"
#include "ffr/admin/admin.h"
#include "ffr/ctl/container.h"
#include "ffr/fast/mw.h"
#include "ffr/orch/orch.h"
#include "ffr/router.h"
#include "tests/rig/unit/router_rig.h"

static void containers_come_and_go(void **state)
{
	json_t *j, *c;

	(void)state;
	assert_false(there("containers/web/ffr.sock"));
	j = ask("{\"op\":\"container_add\",\"name\":\"web\",\"tenant\":\"red\",\"mode\":\"spin\","
		"\"ips\":[\"10.77.1.2\"]}");
	c = json_object_get(j, "container");
	assert_string_equal(json_string_value(json_object_get(c, "name")), "web");
	assert_string_equal(json_string_value(json_object_get(c, "tenant")), "red");
	assert_string_equal(json_string_value(json_object_get(c, "mode")), "spin");
	assert_string_equal(json_string_value(json_array_get(json_object_get(c, "ips"), 0)),
			    "10.77.1.2");
	json_decref(j);
	assert_true(there("containers/web/ffr.sock")); /* by the time of the answer */
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"db\"}"));
	assert_int_equal(count("{\"op\":\"containers\"}", "containers"), 2);
	assert_int_equal(count("{\"op\":\"stats\"}", "containers"), 2);
	assert_int_equal(count("{\"op\":\"stats\",\"name\":\"db\"}", "containers"), 1);
	assert_int_equal(count("{\"op\":\"host_list\"}", "hosts"), 1);

	j = ask("{\"op\":\"container_set\",\"name\":\"web\",\"mode\":\"socket\"}");
	c = json_object_get(j, "container");
	assert_string_equal(json_string_value(json_object_get(c, "mode")), "socket");
	json_decref(j);
	assert_int_equal(container_find(&rt.ctl, "web")->mode, FF_MODE_SOCKET);
	json_decref(ask("{\"op\":\"container_rm\",\"name\":\"web\"}"));
	assert_false(there("containers/web"));
	assert_int_equal(count("{\"op\":\"containers\"}", "containers"), 1);
}

/* It is this host's: the orchestrator is not asked. test_cgroup.c has who is kept out by it. */
static void a_cgroup_is_told(void **state)
{
	static const char *const bad[] = { "\"/\"", "\"a\"", "\"/a/../b\"", "\"\"",
					   "7",	    "[]",    "true",	    "\"/a\\n\"" };
	char text[160];
	json_t *j;

	(void)state;
	j = ask("{\"op\":\"container_add\",\"name\":\"web\",\"cgroup\":\"/docker/abc\"}");
#define CGROUP() json_string_value(json_object_get(json_object_get(j, "container"), "cgroup"))
	assert_string_equal(CGROUP(), "/docker/abc");
	json_decref(j);
	j = ask("{\"op\":\"container_set\",\"name\":\"web\",\"mode\":\"spin\"}");
	assert_string_equal(CGROUP(), "/docker/abc");
	json_decref(j);
	j = ask("{\"op\":\"container_set\",\"name\":\"web\",\"cgroup\":\"/b\",\"mode\":\"socket\"}");
	assert_string_equal(CGROUP(), "/b");
	json_decref(j);
	assert_int_equal(container_find(&rt.ctl, "web")->mode, FF_MODE_SOCKET);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text),
			 "{\"op\":\"container_set\",\"name\":\"web\",\"cgroup\":%s}", bad[i]);
		ask_fails(text, "EINVAL");
		snprintf(text, sizeof(text),
			 "{\"op\":\"container_add\",\"name\":\"x\",\"cgroup\":%s}", bad[i]);
		ask_fails(text, "EINVAL");
	}
	assert_false(there("containers/x"));
	ask_fails(
		"{\"op\":\"container_set\",\"name\":\"web\",\"cgroup\":\"/c\",\"ips\":[\"here\"]}",
		"EINVAL");
	stop();
	start();
	j = ask("{\"op\":\"container_show\",\"name\":\"web\"}");
	assert_string_equal(CGROUP(), "/b");
	json_decref(j);
	j = ask("{\"op\":\"container_set\",\"name\":\"web\",\"cgroup\":null}");
	assert_null(CGROUP());
	json_decref(j);
#undef CGROUP
}

static void a_thread_that_there_is_not(void **state)
{
	static const char *const bad[] = { "-1", "1000", "4294967296", "\"0\"", "null" };
	char text[160];

	(void)state;
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"web\"}"));
	json_decref(ask("{\"op\":\"container_thread\",\"name\":\"web\",\"thread\":0}"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text),
			 "{\"op\":\"container_thread\",\"name\":\"web\",\"thread\":%s}", bad[i]);
		ask_fails(text, "EINVAL");
	}
	ask_fails("{\"op\":\"container_thread\",\"name\":\"none\",\"thread\":0}", "ENOENT");
}

static void why_a_client_was_refused(void **state)
{
	struct container_heard *heard;
	const char *why;
	json_t *j;

	(void)state;
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"web\"}"));
	heard = &((struct container_ctl *)container_find(&rt.ctl, "web")->ctl)->heard;
	heard->refused = 1;
	heard->refused_err = -EACCES;
	j = ask("{\"op\":\"container_show\",\"name\":\"web\"}");
	why = json_string_value(json_object_get(
		json_object_get(json_object_get(j, "container"), "heard"), "refused_why"));
	assert_non_null(why);
	assert_non_null(strstr(why, "cgroup"));
	json_decref(j);
}

static void stats_have_every_counter(void **state)
{
	json_t *j, *counters;

	(void)state;
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"a\"}"));
	container_find(&rt.ctl, "a")->stats.send_ops = 7;
	j = ask("{\"op\":\"stats\"}");
	counters = json_object_get(json_array_get(json_object_get(j, "containers"), 0), "counters");
#define X(name, help) assert_true(json_is_integer(json_object_get(counters, #name)));
	FF_STATS(X)
#undef X
	assert_int_equal(json_integer_value(json_object_get(counters, "send_ops")), 7);
	json_decref(j);
}

static void tenants_are_summed_up(void **state)
{
	json_t *j, *t;

	(void)state;
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"a\",\"tenant\":\"red\"}"));
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"b\",\"tenant\":\"red\"}"));
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"c\",\"tenant\":\"blue\"}"));
	container_find(&rt.ctl, "a")->stats.send_ops = 7;
	container_find(&rt.ctl, "b")->stats.send_ops = 5;
	container_find(&rt.ctl, "c")->stats.send_ops = 1;
	container_find(&rt.ctl, "b")->stats.status[IBV_WC_REM_OP_ERR] = 2;
	lat_count(&container_find(&rt.ctl, "a")->lat, 1000, 3);
	lat_count(&container_find(&rt.ctl, "b")->lat, 100000, 1);
	j = ask("{\"op\":\"stats\",\"tenant\":\"red\",\"latency\":true}");
	t = json_array_get(json_object_get(j, "containers"), 0);
	assert_int_equal(json_integer_value(json_object_get(t, "containers")), 2);
#define OF(obj, key) json_integer_value(json_object_get(json_object_get(t, obj), key))
	assert_int_equal(OF("counters", "send_ops"), 12);
	assert_int_equal(OF("completions", "success"), 12);
	assert_int_equal(OF("completions", "remote_operation"), 2);
	assert_int_equal(OF("latency", "count"), 4);
	assert_int_equal(OF("latency", "p50_ns"), 1024); /* the bucket's bound */
	assert_int_equal(OF("latency", "max_ns"), 100000);
	assert_int_equal(OF("latency", "sum_ns"), 103000);
#undef OF
	json_decref(j);
	ask_fails("{\"op\":\"stats\",\"tenant\":\"green\"}", "ENOENT");
	ask_fails("{\"op\":\"qp_list\",\"name\":\"green\"}", "ENOENT");
	assert_int_equal(count("{\"op\":\"qp_list\",\"name\":\"a\"}", "qps"), 0);
}

static void bad_requests_are_answered(void **state)
{
	(void)state;
	ask_fails("nonsense", "EINVAL");
	ask_fails("[]", "EINVAL");
	ask_fails("{}", "EINVAL");
	ask_fails("{\"op\":5}", "EINVAL");
	ask_fails("{\"op\":\"explode\"}", "EOPNOTSUPP");
	ask_fails("{\"op\":\"container_add\"}", "EINVAL");
	ask_fails("{\"op\":\"container_add\",\"name\":\"../x\"}", "EINVAL");
	ask_fails("{\"op\":\"container_add\",\"name\":\"x\",\"mode\":\"fast\"}", "EINVAL");
	ask_fails("{\"op\":\"container_add\",\"name\":\"x\",\"ips\":[\"here\"]}", "EINVAL");
	ask_fails("{\"op\":\"container_add\",\"name\":\"x\",\"ips\":7}", "EINVAL");
	ask_fails("{\"op\":\"container_add\",\"name\":\"\\u00e4\\n\"}", "EINVAL");
	ask_fails("{\"op\":\"container_show\",\"name\":\"x\"}", "ENOENT");
	ask_fails("{\"op\":\"container_rm\",\"name\":[1]}", "EINVAL");
	ask_fails("{\"op\":\"stats\",\"name\":\"x\"}", "ENOENT");
	ask_fails("{\"op\":\"container_get\",\"name\":\"x\"}", "ENOENT");
	ask_fails("{\"op\":\"map_list\",\"name\":\"x\"}",
		  "EINVAL"); /* by the id that container_get tells */
	assert_false(there("containers/x"));
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"x\"}"));
	ask_fails("{\"op\":\"container_add\",\"name\":\"x\"}", "EEXIST");
}

static void lines_are_bounded_and_served_in_order(void **state)
{
	int s = dial(SOCK_STREAM, "admin.sock");
	const char two[] = "{\"op\":\"version\"}\n{\"op\":\"stats\"}\n";
	const char late[] = "{\"op\":\"host_list\"}\n", quick[] = "{\"op\":\"version\"}\n{\"op\":";
	char *big = calloc(1, ADMIN_LINE_MAX + 10);
	json_t *j;

	(void)state;
	assert_int_equal(write(s, two, sizeof(two) - 1), sizeof(two) - 1);
	j = next_line(s);
	assert_non_null(json_object_get(j, "version"));
	json_decref(j);
	j = next_line(s);
	assert_non_null(json_object_get(j, "containers"));
	json_decref(j);
	/* the orchestrator has to answer the first one, and the second comes meanwhile */
	assert_int_equal(write(s, late, sizeof(late) - 1), sizeof(late) - 1);
	uv_run(&rt.loop, UV_RUN_ONCE);
	assert_int_equal(write(s, quick, sizeof(quick) - 1), sizeof(quick) - 1);
	j = next_line(s);
	assert_non_null(json_object_get(j, "hosts"));
	json_decref(j);
	j = next_line(s);
	assert_non_null(json_object_get(j, "version"));
	json_decref(j);
	memset(big, 'x', ADMIN_LINE_MAX + 9);
	assert_true(send(s, big, ADMIN_LINE_MAX + 9, MSG_NOSIGNAL) > 0);
	assert_null(next_line(s));
	close(s);
	free(big);
	assert_int_equal(count("{\"op\":\"stats\"}", "containers"), 0);
}

static void the_admin_socket_is_roots(void **state)
{
	char path[64];
	struct stat st;

	(void)state;
	snprintf(path, sizeof(path), "%s/run/admin.sock", dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	snprintf(path, sizeof(path), "%s/run/ffo.db", dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 077, 0); /* it has keys in it */
}

#define MAPS "{\"op\":\"map_list\"}"

static const char *maps_of(const char *name, char *text, size_t size)
{
	snprintf(text, size, "{\"op\":\"map_list\",\"container\":%u}",
		 container_find(&rt.ctl, name)->id);
	return text;
}

/* The orchestrator, which was away, answers again. */
static void maps_are_told(void)
{
	json_t *j;
	bool up;

	do {
		uv_run(&rt.loop, UV_RUN_ONCE);
		j = ask_text(MAPS "\n");
		up = json_is_true(json_object_get(j, "ok"));
		json_decref(j);
	} while (!up);
}

static void mappings_are_published_and_withdrawn(void **state)
{
	struct ff_reg_mr_resp mr[20], last;
	char text[64];
	struct ffo_map m;
	uint32_t pd;
	json_t *j;
	int s;

	(void)state;
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"a\"}"));
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"b\"}"));
	s = client("a", &pd);
	for (int i = 0; i < 20; i++)
		mr[i] = reg(s, pd);
	last = reg(s, pd);
	WAIT_FOR(count(MAPS, "maps") == 21);
	for (int i = 0; i < 20; i++)
		dereg(s, mr[i].mr);
	WAIT_FOR(count(MAPS, "maps") == 1);
	j = ask(maps_of("a", text, sizeof(text)));
	assert_int_equal(ffo_map_from_json(json_array_get(json_object_get(j, "maps"), 0), &m), 0);
	assert_int_equal(m.rkey, last.rkey);
	assert_int_equal(m.addr, 0x1000);
	assert_int_equal(m.length, sizeof(memory));
	assert_int_equal(m.access, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(m.container, container_find(&rt.ctl, "a")->id);
	json_decref(j);
	assert_int_equal(count(maps_of("b", text, sizeof(text)), "maps"), 0);
	/* registered and gone again before its batch, and with it a whole session */
	dereg(s, reg(s, pd).mr);
	reg(s, pd);
	close(s);
	WAIT_FOR(LIST_EMPTY(&container_find(&rt.ctl, "a")->sessions));
	WAIT_FOR(count(MAPS, "maps") == 0);
}

/* ---- windows --------------------------------------------------------------------------------- */

static struct mw *window(int s, uint32_t pd, const char *container)
{
	struct ff_alloc_mw_req req = { .pd = pd, .type = IBV_MW_TYPE_1 };
	struct ff_alloc_mw_resp resp;

	CALL(s, ALLOC_MW, &req, &resp);
	return mw_get(LIST_FIRST(&container_find(&rt.ctl, container)->sessions), resp.mw);
}

/* What a WR of a QP of the window's session does. */
static void window_bind(struct mw *mw, uint32_t lkey, uint64_t addr, uint64_t len, uint8_t low)
{
	struct send_wr wr = { .remote_addr = addr, .imm = IBV_ACCESS_REMOTE_READ, .rkey = low };
	struct qp qp = { .o.ses = mw->o.ses, .pd = mw->pd, .wr = &wr };

	wr.bind.length = len;
	wr.bind.lkey = lkey;
	wr.bind.mw = mw->o.handle;
	fast_lock(rt.ctl.host);
	assert_int_equal(mw_bind(&qp), FF_VERR_NONE);
	fast_unlock(rt.ctl.host);
}

/* Is there a mapping of that rkey and length? */
static bool mapped(uint32_t rkey, uint64_t len)
{
	json_t *j = ask(MAPS), *row;
	struct ffo_map m;
	bool found = false;
	size_t i;

	json_array_foreach(json_object_get(j, "maps"), i, row) {
		assert_int_equal(ffo_map_from_json(row, &m), 0);
		found = found || (m.rkey == rkey && m.length == len);
	}
	json_decref(j);
	return found;
}

static void windows_are_published_and_withdrawn(void **state)
{
	struct ff_reg_mr_req req = { (uintptr_t)memory, sizeof(memory), 0x1000, 0,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND };
	struct ff_dealloc_mw_req free_req;
	struct ff_dealloc_mw_resp free_resp;
	struct ff_reg_mr_resp mr;
	struct mw *mw, *more[100];
	uint32_t old;
	int s;

	(void)state;
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"a\"}"));
	s = client("a", &req.pd);
	CALL(s, REG_MR, &req, &mr);
	mw = window(s, req.pd, "a");
	WAIT_FOR(count(MAPS, "maps") == 1); /* one that is bound to nothing is not told */
	window_bind(mw, mr.lkey, 0x1010, 100, 1);
	old = mw->rkey;
	WAIT_FOR(mapped(old, 100));
	window_bind(mw, mr.lkey, 0x1010, 200, 2); /* another rkey */
	WAIT_FOR(mapped(mw->rkey, 200));
	assert_int_equal(count(MAPS, "maps"), 2);
	window_bind(mw, mr.lkey, 0x1010, 300, 2); /* the same rkey */
	WAIT_FOR(mapped(mw->rkey, 300));
	assert_int_equal(count(MAPS, "maps"), 2);
	window_bind(mw, 0, 0, 0, 2);
	WAIT_FOR(count(MAPS, "maps") == 1);
	for (int i = 0; i < 100; i++) {
		more[i] = window(s, req.pd, "a");
		window_bind(more[i], mr.lkey, 0x1010, 1, 2);
	}
	WAIT_FOR(count(MAPS, "maps") == 101);

	ffo_embedded_stop(); /* and when it is back, all of them again */
	window_bind(more[0], mr.lkey, 0x1010, 7, 3);
	maps_are_told();
	WAIT_FOR(count(MAPS, "maps") == 101);
	assert_true(mapped(more[0]->rkey, 7));
	free_req = (struct ff_dealloc_mw_req){ .mw = more[0]->o.handle };
	CALL(s, DEALLOC_MW, &free_req, &free_resp);
	WAIT_FOR(count(MAPS, "maps") == 100);
	close(s);
	WAIT_FOR(count(MAPS, "maps") == 0);
}

/* The orchestrator goes away and comes back: containers are served meanwhile, MRs told again. */
static void a_lost_orchestrator_is_told_everything_again(void **state)
{
	uint32_t pd;
	int s;

	(void)state;
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"a\"}"));
	s = client("a", &pd);
	reg(s, pd);
	WAIT_FOR(count(MAPS, "maps") == 1);
	ffo_embedded_stop();
	reg(s, pd);
	ask_fails(MAPS, NULL); /* the loss may be noticed just then */
	ask_fails("{\"op\":\"container_add\",\"name\":\"b\"}", NULL);
	reg(s, pd);
	json_decref(ask("{\"op\":\"stats\"}"));
	maps_are_told();
	WAIT_FOR(count(MAPS, "maps") == 3);
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"b\"}"));
	close(s);
}

static void a_restart_restores_the_containers(void **state)
{
	char path[64];
	struct stat before, after;
	uint32_t pd;
	int s;

	(void)state;
	json_decref(ask("{\"op\":\"container_add\",\"name\":\"a\",\"mode\":\"socket\"}"));
	s = client("a", &pd);
	reg(s, pd);
	snprintf(path, sizeof(path), "%s/run/containers/a", dir);
	assert_int_equal(stat(path, &before), 0);
	stop();
	close(s);
	assert_false(there("admin.sock"));
	assert_false(there("containers/a/ffr.sock"));
	snprintf(path, sizeof(path), "%s/run/containers/stale", dir);
	assert_int_equal(mkdir(path, 0755), 0);

	start();
	assert_true(there("containers/a/ffr.sock"));
	WAIT_FOR(!there("containers/stale")); /* once it is known that nobody has mounted it */
	assert_int_equal(container_find(&rt.ctl, "a")->mode, FF_MODE_SOCKET);
	/* the very directory that the container has mounted */
	snprintf(path, sizeof(path), "%s/run/containers/a", dir);
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(count(MAPS, "maps"), 0);
	s = client("a", &pd);
	close(s);
}

/* The signals that a thread of that name does not take; 0: there is none. */
static uint64_t blocked_signals(const char *name)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned long long blocked = 0;
	char path[300], line[256];
	struct dirent *e;
	bool is_it;
	FILE *f;

	assert_non_null(tasks);
	while (!blocked && (e = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
		f = fopen(path, "re");
		is_it = false;
		while (f && fgets(line, sizeof(line), f)) {
			char is[64];

			is_it = is_it || (sscanf(line, "Name: %63s", is) == 1 && !strcmp(is, name));
			if (is_it)
				(void)sscanf(line, "SigBlk: %llx", &blocked);
		}
		if (f)
			fclose(f);
	}
	closedir(tasks);
	return blocked;
}

/* The router's signals are for its control thread. */
static void the_orchestrators_thread_takes_faults_only(void **state)
{
	uint64_t blocked = blocked_signals("ffo");

	(void)state;
	assert_true(blocked & 1ull << (SIGTERM - 1));
	assert_true(blocked & 1ull << (SIGINT - 1));
	assert_true(blocked & 1ull << (SIGHUP - 1));
	assert_false(blocked & 1ull << (SIGSEGV - 1));
	assert_false(blocked & 1ull << (SIGBUS - 1));
}

static void there_is_one_router_for_a_directory(void **state)
{
	struct router *second = calloc(1, sizeof(*second));
	const unsigned int wait = router_lock_wait;
	char err[256];

	(void)state;
	second->conf = rt.conf;
	router_devices(second);
	router_lock_wait = 100;
	assert_int_equal(router_init(second, err, sizeof(err)), -EWOULDBLOCK);
	router_lock_wait = wait;
	assert_non_null(strstr(err, "another router"));
	free(second);
}

/* A router that was killed has its lock until its process has ended, which takes a while. */
static void a_router_waits_for_the_one_before(void **state)
{
	char path[64];
	pid_t pid;
	int fd;

	(void)state;
	stop();
	snprintf(path, sizeof(path), "%s/run/ffr.lock", dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	pid = fork();
	if (!pid) {
		usleep(300000);
		_exit(0);
	}
	close(fd);
	start();
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#define T(f) cmocka_unit_test_setup_teardown(f, router_setup, router_teardown)

/* What containers may have together stays below the limit that ends the router, the shipped unit's (50 %) or less. */
static void containers_memory_stays_below_the_limit(void **state)
{
	const uint64_t gb = 1ull << 30;

	(void)state;
	for (uint64_t host = gb; host < 4096 * gb; host *= 2)
		assert_true(router_memory_bound(UINT64_MAX, host) <= host / 2 - host / 10);
	assert_true(router_memory_bound(gb, 64 * gb) < gb);
	assert_true(router_memory_bound(64 * gb, gb) < gb / 2);
	assert_true(router_memory_bound(UINT64_MAX, 3 * gb) > gb);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(containers_memory_stays_below_the_limit),
		T(containers_come_and_go),
		T(a_cgroup_is_told),
		T(a_thread_that_there_is_not),
		T(why_a_client_was_refused),
		T(stats_have_every_counter),
		T(tenants_are_summed_up),
		T(bad_requests_are_answered),
		T(lines_are_bounded_and_served_in_order),
		T(the_admin_socket_is_roots),
		T(mappings_are_published_and_withdrawn),
		T(windows_are_published_and_withdrawn),
		T(a_lost_orchestrator_is_told_everything_again),
		T(a_restart_restores_the_containers),
		T(the_orchestrators_thread_takes_faults_only),
		T(there_is_one_router_for_a_directory),
		T(a_router_waits_for_the_one_before),
	};

	signal(SIGPIPE, SIG_IGN);
	log_level = LOG_LEVEL_ERR;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
