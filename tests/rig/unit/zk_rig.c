/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* zk_rig.c - see zk_rig.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/zk_rig.h"

uv_loop_t rig_loop;

static char dir[] = "/tmp/test_zk.XXXXXX";
static char servers[128];
static int num_nodes;
static uv_timer_t tick;

/* ---- the node ------------------------------------------------------------------------------- */

static int free_port(void)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001) };
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) ||
	    getsockname(fd, (struct sockaddr *)&sa, &len))
		abort();
	close(fd);
	return ntohs(sa.sin_port);
}

int rig_start(int nodes)
{
	char command[256];
	int status;

	signal(SIGPIPE, SIG_IGN);
	if (access("tests/lab/zk.sh", X_OK)) {
		puts("not started from the top of the tree");
		return 77;
	}
	if (!mkdtemp(dir))
		abort();
	snprintf(command, sizeof(command),
		 "tests/lab/zk.sh up %s --nodes %d --port %d --nosync >%s.out", dir, nodes,
		 free_port(), dir);
	num_nodes = nodes;
	status = system(command);
	snprintf(command, sizeof(command), "%s.out", dir);
	FILE *f = fopen(command, "r");
	if (!f || !fgets(servers, sizeof(servers), f))
		*servers = '\0';
	if (f)
		fclose(f);
	unlink(command);
	servers[strcspn(servers, "\n")] = '\0';
	uv_loop_init(&rig_loop);
	uv_timer_init(&rig_loop, &tick);
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	puts(servers);
	rmdir(dir);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

void rig_stop(void)
{
	char command[128];

	uv_close((uv_handle_t *)&tick, NULL);
	uv_run(&rig_loop, UV_RUN_DEFAULT);
	if (uv_loop_close(&rig_loop))
		abort(); /* something was left behind */
	snprintf(command, sizeof(command), "tests/lab/zk.sh down %s", dir);
	if (system(command))
		abort();
}

const char *rig_servers(void)
{
	return servers;
}

void rig_node(const char *command, int n)
{
	char line[128];

	snprintf(line, sizeof(line), "tests/lab/zk.sh %s %s %d", command, dir, n);
	assert_int_equal(system(line), 0);
}

int rig_leader(void)
{
	char line[128], mode[32];
	FILE *f;

	for (int n = 0; n < num_nodes; n++) {
		snprintf(line, sizeof(line), "tests/lab/zk.sh mode %s %d", dir, n);
		f = popen(line, "r");
		if (!fgets(mode, sizeof(mode), f))
			*mode = '\0';
		pclose(f);
		if (!strncmp(mode, "leader", 6))
			return n;
	}
	return -1;
}

static void ticked(uv_timer_t *t)
{
	(void)t;
}

void rig_turn(void)
{
	uv_timer_start(&tick, ticked, 5, 0);
	uv_run(&rig_loop, UV_RUN_ONCE);
	uv_timer_stop(&tick);
}

/* ---- stores --------------------------------------------------------------------------------- */

static void state_is(void *arg, enum store_state state)
{
	struct rig_store *r = arg;

	r->state = state;
	r->ready += state == STORE_READY;
	r->away += state == STORE_AWAY;
	r->lost += state == STORE_LOST;
}

void rig_begin(struct rig_store *r, const char *root)
{
	char where[512], why[100];
	struct store_conf conf = { .where = where, .loop = &rig_loop, .state = state_is, .arg = r };

	memset(r, 0, sizeof(*r));
	r->state = STORE_AWAY;
	assert_int_equal(alloc_create(&r->alloc), 0);
	assert_int_equal(alloc_set_pool(r->alloc, AF_INET, "small=10.1.0.0/29", why, sizeof(why)),
			 0);
	snprintf(where, sizeof(where), "%s%s", servers, root);
	if (!strstr(root, "auth="))
		snprintf(where + strlen(where), sizeof(where) - strlen(where), "%cauth=%s",
			 strchr(root, '?') ? '&' : '?', ZKS_OPEN_TO_ALL);
	conf.alloc = r->alloc;
	assert_int_equal(store_zk.open(&conf, &r->s), 0);
}

void rig_open(struct rig_store *r, const char *root)
{
	rig_begin(r, root);
	WAIT_FOR(r->state == STORE_READY || zks_of(r->s)->refused);
}

void rig_close(struct rig_store *r)
{
	store_zk.close(r->s);
	alloc_free(r->alloc);
	r->s = NULL;
}

void rig_crash(struct rig_store *r)
{
	struct zks *s = zks_of(r->s);
	struct zk *zk = s->zk;

	/* The store's own close() would end the session. */
	s->zk = NULL;
	s->closing = true;
	zk_abandon(zk);
	rig_close(r);
}

static bool killed;

static void killer_connected(void *arg, bool fresh, bool watches)
{
	(void)arg, (void)fresh, (void)watches;
	killed = true;
}

static void killer_other(void *arg)
{
	(void)arg;
}

static void killer_changed(void *arg, const char *path, enum zk_change what)
{
	(void)arg, (void)path, (void)what;
}

/*
 * Whoever has the session's id and password can take it over, and end it. That runs in a loop of its
 * own: the store under test would take its session back, and the end would come too late.
 */
void rig_expire(struct rig_store *r)
{
	static const struct zk_events events = { .connected = killer_connected,
						 .disconnected = killer_other,
						 .expired = killer_other,
						 .changed = killer_changed };
	struct zk_session session = zks_of(r->s)->session;
	struct zk_conf conf = {
		.servers = servers, .root = "", .timeout = 2000, .session = &session
	};
	struct zk *killer;
	uv_loop_t loop;

	killed = false;
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(zk_open(&loop, &conf, &events, NULL, &killer), 0);
	while (!killed)
		uv_run(&loop, UV_RUN_ONCE);
	zk_close(killer);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
}

static struct rig_end *ended(void *arg, int err, const char *why)
{
	struct rig_end *e = arg;

	assert_false(e->done); /* exactly one callback */
	e->done = true;
	e->err = err;
	snprintf(e->why, sizeof(e->why), "%s", why);
	return e;
}

void rig_done(void *arg, int err, const char *why)
{
	ended(arg, err, why);
}

void rig_counted(void *arg, int err, const char *why, size_t count)
{
	ended(arg, err, why)->count = count;
}

void rig_container(void *arg, int err, const char *why, const struct ffo_container *c)
{
	struct rig_end *e = ended(arg, err, why);

	e->has_c = c;
	if (c)
		e->c = *c;
}

void rig_containers(void *arg, int err, const char *why, const struct ffo_container *list, size_t n,
		    bool more)
{
	struct rig_end *e = ended(arg, err, why);

	e->count = n;
	e->more = more;
	for (size_t i = 0; i < n && i < 16; i++)
		e->list[i] = list[i];
}

void rig_host(void *arg, int err, const char *why, const struct ffo_host *h)
{
	struct rig_end *e = ended(arg, err, why);

	if (h)
		e->h = *h;
}

void rig_hosts(void *arg, int err, const char *why, const struct ffo_host *list, size_t n,
	       bool more)
{
	struct rig_end *e = ended(arg, err, why);

	e->count = n;
	e->more = more;
	for (size_t i = 0; i < n && i < 16; i++)
		e->hosts[i] = list[i];
}

void rig_maps(void *arg, int err, const char *why, const struct ffo_map *list, size_t n, bool more)
{
	struct rig_end *e = ended(arg, err, why);

	e->count = n;
	e->more = more;
	for (size_t i = 0; i < n && i < 1024; i++)
		e->maps[i] = list[i];
}
