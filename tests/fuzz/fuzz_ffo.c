/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffo/server/access.c ffo/base/address.c ffo/base/alloc.c ffo/base/idset.c ffo/server/op_container.c ffo/server/op_host.c ffo/server/op_map.c ffo/server/op_map_watch.c ffo/server/op_mcast.c ffo/server/op_policy.c ffo/server/op_resolve.c ffo/server/op_store.c ffo/server/op_tenant.c ffo/server/owned.c ffo/base/policy.c ffo/base/limits.c ffo/base/proto.c ffo/server/request.c ffo/server/server.c ffo/store/sqlite/db.c ffo/store/sqlite/policy.c ffo/store/sqlite/row.c ffo/store/sqlite/ephemeral.c ffo/store/sqlite/watch.c ffo/store/sqlite/store.c ffo/server/sub.c ffo/store/zk/zks.c ffo/base/tenants.c ffo/tls/tls.c ffo/tls/cert.c ffo/tls/crl.c ffo/tls/stream.c ffo/store/topic.c ffo/store/zk/zk.c ffo/store/zk/acl.c ffo/store/zk/call.c ffo/store/zk/container.c ffo/store/zk/follow.c ffo/store/zk/host.c ffo/store/zk/maps.c ffo/store/zk/policy.c ffo/store/zk/query.c ffo/store/zk/rec.c ffo/store/zk/rows.c ffo/store/zk/ephemeral.c ffo/store/zk/topic.c ffr/lib/accept.c ffr/lib/log.c */
/*
 * fuzz_ffo.c - whatever bytes a client sends to the orchestrator: it answers, or closes the
 * connection, and what it then lists of containers and mappings is sound.
 *
 * The first byte's lowest bit: the client is the router of a host, with two containers. The bytes
 * behind it go over a socket pair in two pieces, cut at a place that the first byte gives, too.
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffo/server/server.h"
#include "ffo/store/sqlite/internal.h"

/*
 * One store for all inputs, emptied after each: opening one takes longer than all the rest. Its
 * books are the current orchestrator's.
 */
static struct ffo_store_ops reused;
static struct ffo_store *the_store;

static int reuse(const struct store_conf *conf, struct ffo_store **s)
{
	int err = the_store ? 0 : store_sqlite.open(conf, &the_store);

	*s = the_store;
	the_store->ops = &reused;
	store_of(the_store)->alloc = conf->alloc;
	conf->state(conf->arg, STORE_READY);
	return err;
}

static void empty(struct ffo_store *s)
{
	struct sqldb *d = &store_of(s)->db;

	assert(!store_of(s)->topics.table); /* nobody watches any more */
	if (sqlite3_exec(d->db,
			 "DELETE FROM containers; DELETE FROM hosts; DELETE FROM policy;"
			 "DELETE FROM tenants; DELETE FROM ephemeral.maps;"
			 "DELETE FROM ephemeral.up; DELETE FROM ephemeral.active;"
			 "DELETE FROM ephemeral.mcast; DELETE FROM sqlite_sequence",
			 NULL, NULL, NULL))
		abort();
}

static const char start_text[] =
	"{\"id\":1,\"op\":\"hello\",\"version\":1}\n"
	"{\"id\":2,\"op\":\"host_register\",\"host\":\"h0\",\"wire\":\"tcp:1.2.3.4:5\"}\n"
	"{\"id\":3,\"op\":\"container_add\",\"name\":\"a\"}\n"
	"{\"id\":4,\"op\":\"container_add\",\"name\":\"b\",\"host\":\"h1\",\"tenant\":\"t\"}\n"
	"{\"id\":5,\"op\":\"map_watch\",\"container\":1}\n"
	"{\"id\":6,\"op\":\"resolve\",\"ip\":\"10.77.0.2\"}\n"
	"{\"id\":7,\"op\":\"policy_watch\"}\n"
	"{\"id\":8,\"op\":\"policy_set\",\"a\":\"t\",\"b\":\"default/a\",\"action\":\"allow\"}\n"
	"{\"id\":12,\"op\":\"tenant_watch\"}\n"
	"{\"id\":13,\"op\":\"tenant_set\",\"tenant\":\"t\",\"limits\":{\"max_qp\":1}}\n"
	"{\"id\":9,\"op\":\"mcast_watch\",\"tenant\":\"t\",\"mgid\":\"ff0e::1\"}\n"
	"{\"id\":10,\"op\":\"mcast_join\",\"tenant\":\"t\",\"mgid\":\"ff0e::1\"}\n"
	"{\"id\":11,\"op\":\"map_publish\",\"maps\":[[1,5,1,0,4096,7,0,5,1]]}\n";

struct checked {
	struct ffo *ffo;
	uint32_t last_id;
	bool more;
	struct ffo_container c;
};

/* Each address and LID of a container is taken, so nobody else can get it. */
static void check_container(struct checked *k, const struct ffo_container *c)
{
	assert(c->id > k->last_id && c->epoch && c->num_ips && c->num_ips <= FFO_ADDR_MAX);
	assert(ffo_name_ok(c->name) && ffo_name_ok(c->tenant) && ffo_name_ok(c->host));
	for (unsigned int i = 0; i < c->num_ips; i++)
		assert(alloc_restore_addr(k->ffo->alloc, c->tenant, &c->ip[i]) == -EADDRINUSE);
	assert(alloc_take_lid(k->ffo->alloc, c->lid) == -EEXIST);
	k->last_id = c->id;
}

static void check_containers(void *arg, int err, const char *why, const struct ffo_container *list,
			     size_t n, bool more)
{
	struct checked *k = arg;

	(void)why;
	assert(!err);
	for (size_t i = 0; i < n; i++)
		check_container(k, &list[i]);
	k->more = more;
}

static void take_container(void *arg, int err, const char *why, const struct ffo_container *c)
{
	struct checked *k = arg;

	(void)why;
	assert(!err);
	k->c = *c;
}

/* Each mapping is of a container that exists, and of its epoch. */
static void check_maps(void *arg, int err, const char *why, const struct ffo_map *list, size_t n,
		       bool more)
{
	struct checked *k = arg;
	struct ffo_store *s = k->ffo->store;

	(void)why, (void)more;
	assert(!err);
	for (size_t i = 0; i < n; i++) {
		const struct store_key key = { .kind = STORE_ID, .id = list[i].container };

		s->ops->container_get(s, &key, take_container, k);
		assert(list[i].rkey && list[i].session && list[i].epoch == k->c.epoch);
	}
}

static void check_state(struct ffo *f)
{
	struct checked k = { .ffo = f };

	do
		f->store->ops->container_list(f->store, NULL, k.last_id, FFO_PAGE_MAX,
					      check_containers, &k);
	while (k.more);
	f->store->ops->map_list(f->store, 0, 0, 0, FFO_BATCH_MAX, check_maps, &k);
}

static void read_answers(int fd)
{
	static char text[65536];

	while (recv(fd, text, sizeof(text), MSG_DONTWAIT) > 0)
		;
}

/* Send it all, the orchestrator's loop running meanwhile. */
static void feed(uv_loop_t *loop, int fd, const char *data, size_t len)
{
	ssize_t n;

	while (len) {
		n = send(fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			return; /* closed */
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
		uv_run(loop, UV_RUN_NOWAIT);
		read_answers(fd);
	}
	for (int turn = 0; turn < 4; turn++) {
		uv_run(loop, UV_RUN_NOWAIT);
		read_answers(fd);
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	signal(SIGPIPE, SIG_IGN);
	log_level = LOG_LEVEL_ERR;
	reused = store_sqlite;
	reused.open = reuse;
	reused.close = empty;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ffo_conf conf = { .store_ops = &reused };
	struct ffo *f;
	uv_loop_t loop;
	size_t cut;
	int fd[2];

	if (!size)
		return 0;
	uv_loop_init(&loop);
	if (ffo_create(&conf, &loop, &f) || socketpair(AF_UNIX, SOCK_STREAM, 0, fd) ||
	    ffo_attach(f, fd[0]))
		abort();
	if (data[0] & 1)
		feed(&loop, fd[1], start_text, sizeof(start_text) - 1);
	cut = (size_t)(data[0] >> 1) * (size - 1) / 128;
	feed(&loop, fd[1], (const char *)data + 1, cut);
	feed(&loop, fd[1], (const char *)data + 1 + cut, size - 1 - cut);

	check_state(f);
	close(fd[1]);
	ffo_destroy(f);
	uv_run(&loop, UV_RUN_DEFAULT);
	if (uv_loop_close(&loop))
		abort();
	return 0;
}
