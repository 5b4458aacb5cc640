/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_container.c - ffr/ctl/container.c: the directory and the socket of a container, and how many may
 * come there.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/obj/cpu.h"
#include "ffr/ctl/sysfile.h"
#include "ffr/ctl/sysfs.h"
#include "tests/rig/unit/ctl_calls.h"

static struct ctl_rig *const g = &call_rig;

static int dial(int container)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/containers/%c/ffr.sock", g->dir,
		 'a' + container);
	return connect(s, (struct sockaddr *)&sa, sizeof(sa)) ? -1 : s;
}

static const char *link_at(const char *dir, const char *name)
{
	static char target[256];
	char path[192];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	n = readlink(path, target, sizeof(target) - 1);
	target[n < 0 ? 0 : n] = '\0';
	return target;
}

static void make(int link, const char *dir, const char *name, const char *target)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(link ? symlink(target, path) : mkdir(path, 0755), 0);
}

/* What flags mount over a container's /sys/class: the host's classes but RDMA's, links only, and no interface. */
static void classes_are_the_hosts(void **state)
{
	char host[64] = "/tmp/classes.XXXXXX", own[96], path[128];
	struct stat st, again;
	int fd;

	(void)state;
	assert_non_null(mkdtemp(host));
	snprintf(own, sizeof(own), "%s/class", g->dir);
	make(0, host, "tty", NULL);
	make(1, host, "tty/tty0", "../../devices/virtual/tty/tty0");
	make(1, host, "tty/gone", "../../devices/virtual/tty/gone");
	make(0, host, "zram-control", NULL);
	snprintf(path, sizeof(path), "%s/zram-control/hot_add", host);
	assert_int_equal(mkfifo(path, 0600), 0); /* to open it would take for ever */
	make(0, host, "net", NULL);
	make(1, host, "net/eno1", "../../devices/pci0/net/eno1");
	make(0, host, "infiniband", NULL);
	make(1, host, "infiniband/mlx5_0", "../../devices/pci0/infiniband/mlx5_0");
	assert_int_equal(classes_make(g->dir, host), 0);
	assert_string_equal(link_at(own, "tty/tty0"), "../../devices/virtual/tty/tty0");
	assert_string_equal(link_at(own, "net"), "../devices/virtual/net");
	assert_string_equal(link_at(own, "infiniband/mlx5_0"), "");
	snprintf(path, sizeof(path), "%s/zram-control/hot_add", own);
	assert_int_equal(lstat(path, &st), -1);
	snprintf(path, sizeof(path), "%s/infiniband_verbs", own);
	assert_int_equal(stat(path, &st), 0);

	/* the next router's: what has gone from the host goes, and the folder stays the one that is mounted */
	assert_int_equal(stat(own, &st), 0);
	snprintf(path, sizeof(path), "%s/tty/gone", host);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/zram-control/hot_add", host);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/zram-control", host);
	assert_int_equal(rmdir(path), 0);
	make(0, host, "dmi", NULL);
	make(1, host, "dmi/id", "../../devices/virtual/dmi/id");
	assert_int_equal(classes_make(g->dir, host), 0);
	assert_int_equal(stat(own, &again), 0);
	assert_int_equal(again.st_ino, st.st_ino);
	assert_string_equal(link_at(own, "tty/gone"), "");
	assert_string_equal(link_at(own, "tty/tty0"), "../../devices/virtual/tty/tty0");
	assert_string_equal(link_at(own, "dmi/id"), "../../devices/virtual/dmi/id");
	snprintf(path, sizeof(path), "%s/zram-control", own);
	assert_int_equal(lstat(path, &st), -1);
	assert_string_equal(link_at(own, "net"), "../devices/virtual/net");

	/* somebody's link in its place is not followed */
	fd = open(g->dir, O_DIRECTORY | O_CLOEXEC | O_RDONLY);
	sysfile_remove(fd, "class");
	assert_int_equal(symlinkat(host, fd, "class"), 0);
	assert_int_equal(classes_make(g->dir, host), -ENOTDIR);
	assert_int_equal(unlinkat(fd, "class", 0), 0);
	close(fd);
	assert_int_equal(classes_make(g->dir, "/tmp/classes.is-not-there"), -ENOENT);
	fd = open("/tmp", O_DIRECTORY | O_CLOEXEC | O_RDONLY);
	sysfile_remove(fd, host + strlen("/tmp/"));
	close(fd);
}

/* Who reaches a socket is that container: no other user of the host may, whatever was there before. */
static void the_folder_is_closed(void **state)
{
	struct group *mine = getgrgid(getegid());
	char path[96];
	struct stat st;

	(void)state;
	snprintf(path, sizeof(path), "%s/containers", g->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(chmod(path, 0755), 0); /* as another configuration left it */
	close(g->ctl.containers_fd);
	assert_int_equal(containers_init(&g->ctl), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	close(g->ctl.containers_fd);
	g->ctl.conf.engine_group = mine->gr_name;
	assert_int_equal(containers_init(&g->ctl), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0710);
	assert_int_equal(st.st_gid, mine->gr_gid);
	close(g->ctl.containers_fd);
	g->ctl.conf.engine_group = (char *)"no-such-group-here";
	assert_true(containers_init(&g->ctl) < 0);
	g->ctl.conf.engine_group = NULL;
}

static void sockets_are_for_any_user(void **state)
{
	char path[96];
	struct stat st;
	int s;

	(void)state;
	snprintf(path, sizeof(path), "%s/containers/a/ffr.sock", g->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0666);
	snprintf(path, sizeof(path), "%s/containers/a", g->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	s = dial(1);
	assert_true(s >= 0);
	rig_pump(g);
	assert_int_equal(rig_hello(g, s), 0);
	assert_false(LIST_EMPTY(&g->c[1]->sessions));
	assert_true(LIST_EMPTY(&g->c[0]->sessions));
	assert_int_equal(LIST_FIRST(&g->c[1]->sessions)->pid, getpid());
	close(s);
}

/* Of a host with two, which the test makes up: the one that the fewest have, or the operator's choice. */
static void a_container_has_a_nic(void **state)
{
	struct fast_host *h = g->ctl.host;
	struct ffo_container info = { .id = 90, .epoch = 1, .name = "n", .tenant = "t" };
	struct container *c;
	int s;

	(void)state;
	h->num_nics = 2;
	h->nic_direct = true;
	h->nic[0].gid.raw[0] = 0xa0;
	h->nic[1].gid.raw[0] = 0xa1;
	assert_int_equal(container_attach(&g->ctl, &info), 0);
	c = container_find(&g->ctl, "n");
	assert_int_equal(c->nic, 1); /* the others were there when there was one */
	assert_true(c->has_nic_gid);
	assert_int_equal(c->nic_gid.raw[0], 0xa1);

	s = dial(0);
	assert_true(s >= 0);
	rig_pump(g);
	assert_int_equal(rig_hello(g, s), 0);
	assert_int_equal(container_set_nic(g->c[0], 1), -EBUSY);
	assert_int_equal(container_set_nic(g->c[0], 0), 0); /* as it is */
	assert_int_equal(g->c[0]->nic, 0);
	close(s);
	rig_pump(g);
	assert_int_equal(container_set_nic(g->c[0], 1), 0);
	assert_int_equal(g->c[0]->nic, 1);
	assert_int_equal(g->c[0]->nic_gid.raw[0], 0xa1);
	assert_int_equal(container_set_nic(c, 0), 0);
	assert_int_equal(c->nic_gid.raw[0], 0xa0);
	info.epoch++; /* it is another one, with the NIC that it had */
	container_update(c, &info);
	assert_int_equal(c->nic, 0);
	assert_int_equal(c->nic_gid.raw[0], 0xa0);
	container_detach(c);
	g->c[0]->nic = 0;
	h->num_nics = 0;
	h->nic_direct = false;
}

static void on_late(uv_timer_t *t)
{
	(void)t;
	abort();
}

/* Runs the loop until the container has so many connections; aborts after 10 seconds. */
static void wait_for_conns(struct container_ctl *ct, uint32_t num)
{
	uv_timer_t watchdog;

	uv_timer_init(&g->loop, &watchdog);
	uv_timer_start(&watchdog, on_late, 10000, 0);
	while (rig_conns(ct) != num)
		uv_run(&g->loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&watchdog, NULL);
	rig_pump(g); /* closed before this function's frame goes */
}

/* Who connects and says nothing is closed after a while; who has a session is not. */
static void silent_connections_end(void **state)
{
	struct ff_hello_req req = { FF_PROTO_VERSION + 1, FF_PROTO_VERSION + 2, "new", { 0 } };
	struct container_ctl *ct = g->c[0]->ctl;
	uint64_t patience = ctl_hello_patience;
	struct ff_hello_resp resp;
	int talks, silent, refused;

	(void)state;
	talks = dial(0);
	rig_pump(g);
	assert_int_equal(rig_hello(g, talks), 0);
	assert_int_equal(ct->num_silent, 0);
	refused = dial(0);
	rig_pump(g);
	assert_int_equal(rig_hello_with(g, refused, &req, &resp, NULL, NULL, NULL),
			 -EPROTONOSUPPORT);
	assert_int_equal(ct->num_silent, 1); /* it may try again, but not for ever */
	close(refused);
	wait_for_conns(ct, 1);
	ctl_hello_patience = 1;
	silent = dial(0);
	while (!rig_is_closed(g, silent))
		uv_run(&g->loop, UV_RUN_ONCE);
	assert_int_equal(ct->num_silent, 0);
	assert_int_equal(rig_conns(ct), 1);
	assert_int_equal(rig_hello(g, talks), RIG_CLOSED); /* a second HELLO: it was there */
	ctl_hello_patience = patience;
	close(talks);
	close(silent);
}

/* So many of them are taken in; the next ones wait, and have their turn. */
static void silent_connections_are_bounded(void **state)
{
	enum { MANY = 100 };
	struct container_ctl *ct = g->c[0]->ctl;
	int s[MANY], other;
	uint32_t most;

	(void)state;
	for (int i = 0; i < MANY; i++) {
		s[i] = dial(0);
		assert_true(s[i] >= 0);
	}
	for (int i = 0; i < 10; i++)
		rig_pump(g);
	most = ct->num_silent;
	assert_true(most >= 16 && most < MANY);
	assert_int_equal(rig_conns(ct), most);
	other = dial(1); /* another container's affair */
	rig_pump(g);
	assert_int_equal(rig_hello(g, other), 0);
	assert_int_equal(rig_hello(g, s[0]), 0);
	close(s[1]);
	rig_pump(g);
	assert_int_equal(ct->num_silent, most);
	assert_int_equal(rig_conns(ct), most + 1);
	for (int i = 2; i < MANY; i++)
		close(s[i]);
	wait_for_conns(ct, 1);
	close(s[0]);
	close(other);
}

/* The process dies; its child keeps the socket. */
static void limit_cpu(int container, uint64_t max_cpu)
{
	fast_lock(g->ctl.host);
	fast_container_limits(g->c[container], &(struct ffo_limits){ .max_cpu = max_cpu });
	fast_unlock(g->ctl.host);
}

/* Who has used its CPU time by coming and going is not let in for a while; others are. */
static void comers_use_cpu_time(void **state)
{
	struct container_ctl *ct = g->c[0]->ctl;
	uint32_t before;
	int s, other;

	(void)state;
	limit_cpu(0, 1);
	g->c[0]->cpu.ctl_ns = 0;
	do {
		before = rig_conns(ct);
		s = dial(0);
		rig_pump(g);
		assert_true(s >= 0);
		if (rig_conns(ct) != before) {
			close(s);
			rig_pump(g);
		}
	} while (!cpu_wait(g->c[0], uv_hrtime()));
	assert_true(g->c[0]->cpu.ctl_ns >= CPU_BURST_NS);
	wait_for_conns(ct, 0);
	s = dial(0);
	assert_true(s >= 0);
	other = dial(1);
	rig_pump(g);
	assert_int_equal(rig_hello(g, other), 0);
	assert_int_equal(rig_conns(ct), 0);
	limit_cpu(0, 0);
	wait_for_conns(ct, 1);
	assert_int_equal(rig_hello(g, s), 0);
	close(s);
	close(other);
}

static void a_dead_process_ends_its_session(void **state)
{
	struct container_ctl *ct = g->c[0]->ctl;
	uv_timer_t watchdog;
	int pipes[2];
	pid_t child, grandchild;
	uint64_t patience = ctl_hello_patience;
	bool seen = false;

	(void)state;
	ctl_hello_patience = 60000; /* or that would end it */
	assert_int_equal(pipe(pipes), 0);
	child = fork();
	if (!child) {
		dial(0);
		grandchild = fork();
		if (!grandchild) {
			pause();
			_exit(0);
		}
		_exit(write(pipes[1], &grandchild, sizeof(grandchild)) < 0);
	}
	assert_true(child > 0);
	uv_timer_init(&g->loop, &watchdog);
	uv_timer_start(&watchdog, on_late, 10000, 0);
	while (!seen || rig_conns(ct)) {
		uv_run(&g->loop, UV_RUN_ONCE);
		seen = seen || rig_conns(ct);
	}
	uv_close((uv_handle_t *)&watchdog, NULL);
	rig_pump(g); /* closed before this function's frame goes */
	assert_int_equal(read(pipes[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
	assert_int_equal(kill(grandchild, 0), 0); /* it still lives, with the socket */
	kill(grandchild, SIGKILL);
	waitpid(child, NULL, 0);
	ctl_hello_patience = patience;
	close(pipes[0]);
	close(pipes[1]);
}

#define DEVICE "sys/class/infiniband/ff0"

static void text_is(const char *file, const char *want)
{
	char path[192], text[128] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/containers/%s", g->dir, file);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	fclose(f);
	assert_string_equal(text, want);
}

static void the_devices_files_are_there(void **state)
{
	char path[192];
	struct stat st;

	(void)state;
	text_is("a/" DEVICE "/node_type", "1: CA\n");
	text_is("a/" DEVICE "/node_guid", "0266:66ff:fe00:0001\n");
	text_is("b/" DEVICE "/ports/1/lid", "0x2\n");
	text_is("a/" DEVICE "/ports/1/counters/port_xmit_data", "0\n");
	g->c[0]->stats.tx_bytes = 4001;
	g->c[0]->stats.rnr = 3;
	sysfs_close(g->c[0]);
	text_is("a/" DEVICE "/ports/1/counters/port_xmit_data", "1000\n");
	text_is("a/" DEVICE "/ports/1/hw_counters/rcvd_rnr_err", "3\n");
	g->c[0]->stats = (struct ff_stats){ 0 };
	sysfs_open(g->c[0]); /* as the next router */
	text_is("a/" DEVICE "/ports/1/counters/port_xmit_data", "0\n");
	container_detach(g->c[1]);
	g->c[1] = NULL;
	snprintf(path, sizeof(path), "%s/containers/b", g->dir);
	assert_int_not_equal(stat(path, &st), 0);
}

static int tell(int s, const struct ff_ndev *d, unsigned n)
{
	struct ff_tell_ndevs_req req = { 0 };
	struct ff_tell_ndevs_resp resp;

	return rig_call(g, s, FF_MSG_TELL_NDEVS, &req, sizeof(req), d, sizeof(*d) * n, n, &resp,
			sizeof(resp), NULL, NULL);
}

#define NDEV_IS(index, name) text_is("a/" DEVICE "/ports/1/gid_attrs/ndevs/" #index, name "\n")

/* The interfaces that a client tells of are those of its container's addresses, until another one tells something else. */
static void interfaces_are_told(void **state)
{
	struct ff_ndev told[] = { { .addr = { 9 }, .name = "lo" }, { .name = "net1" } };
	int s = call_client(g, 0), other = call_client(g, 1);

	(void)state;
	NDEV_IS(0, "eth0");
	memcpy(told[1].addr, g->c[0]->gid[0].raw, 16);
	assert_int_equal(tell(other, told, 2), 0); /* of another container: not its address */
	NDEV_IS(0, "eth0");
	assert_int_equal(tell(s, told, 2), 0);
	NDEV_IS(0, "net1");
	NDEV_IS(1, "net1");
	NDEV_IS(2, "net1");		       /* link-local: on no interface */
	assert_int_equal(tell(s, told, 1), 0); /* a process with another network */
	assert_int_equal(tell(s, NULL, 0), 0);
	NDEV_IS(0, "net1");
	sysfs_identity(g->c[0]);
	NDEV_IS(0, "net1");
	strcpy(told[1].name, "a-longer-name.4");
	assert_int_equal(tell(s, told, 2), 0);
	NDEV_IS(3, "a-longer-name.4");
	strcpy(told[1].name, "x");
	assert_int_equal(tell(s, told, 2), 0);
	NDEV_IS(3, "x");
}

/* What is no name of an interface changes nothing, whichever address it is for. */
static void false_interfaces(void **state)
{
	static const char *const bad[] = { "", ".", "..", "a/b", "a b", "a\n", "a:1", "\x7f" };
	struct ff_ndev told[FF_NDEVS_MAX + 1];
	int s = call_client(g, 0);

	(void)state;
	memset(told, 0, sizeof(told));
	for (unsigned i = 0; i <= FF_NDEVS_MAX; i++)
		strcpy(told[i].name, "net1");
	memcpy(told[0].addr, g->c[0]->gid[0].raw, 16);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		strcpy(told[1].name, bad[i]);
		assert_int_equal(tell(s, told, 2), -EINVAL);
	}
	memset(told[1].name, 'x', sizeof(told[1].name)); /* without an end */
	assert_int_equal(tell(s, told, 2), -EINVAL);
	strcpy(told[1].name, "lo");
	assert_int_equal(tell(s, told, FF_NDEVS_MAX + 1), -EINVAL);
	NDEV_IS(0, "eth0");
	assert_int_equal(tell(s, told, FF_NDEVS_MAX), 0);
	NDEV_IS(0, "net1");
}

/* Another container in b's place, with two addresses, and devices of that name. */
static struct container *attach_again(const char *first, uint8_t devices)
{
	struct ffo_container info = {
		.id = 9, .epoch = 1, .lid = 9, .num_ips = 2, .devices = devices
	};

	if (g->c[1])
		container_detach(g->c[1]);
	strcpy(info.name, "b");
	strcpy(info.tenant, "default");
	strcpy(info.device_name, first);
	assert_int_equal(ffo_addr_parse("10.0.0.7", &info.ip[0]), 0);
	assert_int_equal(ffo_addr_parse("10.0.0.8", &info.ip[1]), 0);
	assert_int_equal(container_attach(&g->ctl, &info), 0);
	return g->c[1] = container_find(&g->ctl, "b");
}

/* A reader that has a container's files open goes on reading them after the container has ended. */
static void readers_stay(void **state)
{
	static const char *const files[] = { DEVICE "/node_guid", DEVICE "/ports/1/gids/0",
					     DEVICE "/ports/1/counters/port_xmit_data",
					     "sys/class/infiniband", DEVICE "/ports/1/counters" };
	char path[256], text[64];
	int fd[sizeof(files) / sizeof(files[0])], s = call_client(g, 1);
	struct stat st;

	(void)state;
	for (size_t i = 0; i < sizeof(fd) / sizeof(fd[0]); i++) {
		snprintf(path, sizeof(path), "%s/containers/b/%s", g->dir, files[i]);
		fd[i] = open(path, O_RDONLY | O_CLOEXEC);
		assert_true(fd[i] >= 0);
	}
	container_detach(g->c[1]);
	snprintf(path, sizeof(path), "%s/containers/b", g->dir);
	assert_int_equal(stat(path, &st), -1);
	assert_int_equal(read(fd[0], text, sizeof(text)), 20);
	assert_memory_equal(text, "0266:66ff:fe00:0002\n", 20);
	g->c[1] = NULL;
	attach_again("", 0); /* its successor has other files */
	assert_int_equal(pread(fd[0], text, sizeof(text), 0), 20);
	assert_memory_equal(text, "0266:66ff:fe00:0002\n", 20);
	text_is("b/" DEVICE "/node_guid", "0266:66ff:fe00:0009\n");
	close(s);
	for (size_t i = 0; i < sizeof(fd) / sizeof(fd[0]); i++)
		close(fd[i]);
}

static int device_call(int s, uint32_t index, struct ff_device_resp *resp)
{
	struct ff_device_req req = { .index = index };

	return rig_call(g, s, FF_MSG_DEVICE, &req, sizeof(req), NULL, 0, 0, resp, sizeof(*resp),
			NULL, NULL);
}

static void gid_is(int s, uint32_t index, const union ibv_gid *want)
{
	struct ff_query_gid_req req = { .port = 1, .index = index };
	struct ff_query_gid_resp resp;

	assert_int_equal(rig_call(g, s, FF_MSG_QUERY_GID, &req, sizeof(req), NULL, 0, 0, &resp,
				  sizeof(resp), NULL, NULL),
			 0);
	assert_memory_equal(resp.gid, want->raw, 16);
}

#define RAIL "b/sys/class/infiniband/mlx5_"

/* Each has a name, a GUID, a PCI address, a node and a first GID of its own; the counters are those of its sessions. */
static void several_devices(void **state)
{
	struct container *c = attach_again("mlx5_0", 3);
	struct ff_device_resp d;
	char path[256];
	int s = call_client(g, 1);

	(void)state;
	text_is(RAIL "0/node_guid", "0266:66ff:fe00:0009\n");
	text_is(RAIL "2/node_guid", "0266:66ff:fe02:0009\n");
	text_is(RAIL "0/ports/1/gids/0", "0000:0000:0000:0000:0000:ffff:0a00:0007\n");
	text_is(RAIL "1/ports/1/gids/0", "0000:0000:0000:0000:0000:ffff:0a00:0008\n");
	text_is(RAIL "1/ports/1/gids/4", "0000:0000:0000:0000:0000:ffff:0a00:0007\n");
	text_is(RAIL "2/ports/1/gids/0", "0000:0000:0000:0000:0000:ffff:0a00:0007\n");
	text_is(RAIL "1/device/infiniband_verbs/uverbs_ff1/ibdev", "mlx5_1\n");
	text_is("b/sys/class/infiniband_verbs/uverbs_ff2/ibdev", "mlx5_2\n");
	text_is("b/sys/class/infiniband/.ff0/ff00:02:00.0/infiniband/mlx5_2/node_type", "1: CA\n");

	assert_int_equal(device_call(s, FF_DEVICE_AS_IS, &d), 0);
	assert_int_equal(d.index, 0);
	assert_string_equal(d.name, "mlx5_0");
	gid_is(s, 0, &c->gid[0]);
	assert_int_equal(device_call(s, 3, &d), -ENODEV);
	assert_int_equal(device_call(s, 1, &d), 0);
	assert_string_equal(d.name, "mlx5_1");
	assert_int_equal(be64toh(d.node_guid), 0x026666fffe010009);
	gid_is(s, 0, &c->gid[1]);
	gid_is(s, 4, &c->gid[0]);

	c->stats.tx_bytes = 4000;
	LIST_FIRST(&c->sessions)->stats.tx_bytes = 400;
	close(s);
	rig_pump(g);
	assert_true(LIST_EMPTY(&c->sessions));
	assert_int_equal(c->stats.tx_bytes, 4400);
	sysfs_close(c);
	text_is(RAIL "0/ports/1/counters/port_xmit_data", "1000\n");
	text_is(RAIL "1/ports/1/counters/port_xmit_data", "100\n");
	text_is(RAIL "2/ports/1/counters/port_xmit_data", "0\n");

	/* one of that name, of other devices, that was here when there was no router */
	strcpy(((struct container_ctl *)c->ctl)->device_name, "roce");
	c->stats = (struct ff_stats){ 0 };
	sysfs_open(c);
	text_is("b/sys/class/infiniband/roce2/node_guid", "0266:66ff:fe02:0009\n");
	snprintf(path, sizeof(path), "%s/containers/" RAIL "0", g->dir);
	assert_int_equal(access(path, F_OK), -1);
}

/* A link in a container's place would have the router's files made, and modes set, anywhere. */
static void a_link_is_no_folder(void **state)
{
	struct ffo_container info = {
		.id = 3, .epoch = 1, .lid = 3, .name = "c", .tenant = "default"
	};
	char target[64], link[96], sock[96];
	struct stat st;

	(void)state;
	snprintf(target, sizeof(target), "%s/elsewhere", g->dir);
	snprintf(link, sizeof(link), "%s/containers/c", g->dir);
	snprintf(sock, sizeof(sock), "%s/ffr.sock", target);
	assert_int_equal(mkdir(target, 0700), 0);
	assert_int_equal(symlink(target, link), 0);
	assert_true(container_attach(&g->ctl, &info) < 0);
	assert_null(container_find(&g->ctl, "c"));
	assert_int_equal(stat(target, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(access(sock, F_OK), -1);
	unlink(link);
	assert_int_equal(rmdir(target), 0);
}

/* What a container with a writable directory puts there is neither followed nor waited for. */
static void what_is_in_the_way_is_left_alone(void **state)
{
	char target[192], file[192], other[192];
	struct stat st;

	(void)state;
	snprintf(target, sizeof(target), "%s/secret", g->dir);
	snprintf(file, sizeof(file), "%s/containers/a/" DEVICE "/ports/1/counters/port_rcv_data",
		 g->dir);
	snprintf(other, sizeof(other), "%s/containers/a/" DEVICE "/ports/1/counters/port_xmit_data",
		 g->dir);
	assert_int_equal(close(creat(target, 0600)), 0);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(symlink(target, file), 0);
	assert_int_equal(unlink(other), 0);
	assert_int_equal(mkfifo(other, 0600), 0);
	g->c[0]->stats.tx_bytes = g->c[0]->stats.rx_bytes = 400;
	g->c[0]->stats.rnr = 5;
	sysfs_close(g->c[0]);
	assert_int_equal(stat(target, &st), 0);
	assert_int_equal(st.st_size, 0);
	text_is("a/" DEVICE "/ports/1/hw_counters/rcvd_rnr_err", "5\n");
	assert_int_equal(unlink(target), 0);
}

static void names_are_checked(void **state)
{
	static const char *const good[] = { "a", "web-1", "A.b_c-9" };
	static const char *const bad[] = { "", ".", "..", "-a", "_a", "a/b", "a b", "ä", "a\n" };
	char name[CONTAINER_NAME_MAX + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(container_name_ok(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(container_name_ok(bad[i]));
	memset(name, 'x', sizeof(name));
	name[63] = '\0';
	assert_true(container_name_ok(name));
	name[63] = 'x';
	name[64] = '\0';
	assert_false(container_name_ok(name));
}

int main(void)
{
	log_level = LOG_LEVEL_ERR;
	return UNIT_RUN(CALL_TEST(the_folder_is_closed), CALL_TEST(classes_are_the_hosts),
			CALL_TEST(sockets_are_for_any_user), CALL_TEST(a_container_has_a_nic),
			CALL_TEST(silent_connections_end),
			CALL_TEST(silent_connections_are_bounded), CALL_TEST(comers_use_cpu_time),
			CALL_TEST(a_dead_process_ends_its_session),
			CALL_TEST(the_devices_files_are_there), CALL_TEST(interfaces_are_told),
			CALL_TEST(false_interfaces), CALL_TEST(a_link_is_no_folder),
			CALL_TEST(what_is_in_the_way_is_left_alone), CALL_TEST(several_devices),
			CALL_TEST(readers_stay), CALL_TEST(names_are_checked));
}
