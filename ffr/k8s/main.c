/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * main.c - ff-device-plugin: registers freeflow.io/rdma with a node's kubelet, and serves it. See ff-device-plugin(8).
 *
 * The kubelet has a folder with its socket; a plug-in listens on one beside it and tells the kubelet its name. A
 * kubelet that starts removes all sockets there, and knows no plug-in: so the folder is watched, and when the kubelet's
 * socket is a new one, or ours has gone, it begins anew. One loop: epoll, inotify, a tick each second.
 *
 * Devices are healthy while the router answers.
 *
 * Tests: system/kubernetes.sh
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/queue.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "ffr/k8s/plugin.h"
#include "ffr/lib/log.h"
#include "ffr/lib/version.h"

#define KUBELET		"kubelet.sock"
#define OWN		"freeflow.sock"
#define MAX_CONNS	16u
#define HEALTH_S	5  /* between two looks at the router */
#define PATIENCE_S	10 /* for the kubelet's answer to a registration */
#define ANSWER_MS	1000
#define ACCEPT_PAUSE_US 100000

enum source { LISTENER = 1, FOLDER, TICK, SIGNAL, CONN };

struct conn {
	enum source kind; /* first: what epoll points at */
	LIST_ENTRY(conn) entry;
	struct grpc *g;
	bool writes; /* epoll waits for room */
};

struct daemon {
	struct plugin plugin;
	const char *folder, *admin;
	enum source listener, watch, tick, signals;
	int epoll, listen_fd, inotify;
	LIST_HEAD(, conn) conns;
	unsigned num_conns;
	struct conn *client; /* asks the kubelet to register */
	unsigned client_age; /* s */
	bool registered, done;
	bool waits; /* there is no kubelet, and the log says so */
	int done_status;
	unsigned ticks;
};

static int path_to(const struct daemon *d, const char *name, struct sockaddr_un *sa)
{
	*sa = (struct sockaddr_un){ .sun_family = AF_UNIX };
	return snprintf(sa->sun_path, sizeof(sa->sun_path), "%s/%s", d->folder, name) <
			       (int)sizeof(sa->sun_path) ?
		       0 :
		       -ENAMETOOLONG;
}

static int wait_for(const struct daemon *d, int fd, void *what, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = what };

	return epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void conn_end(struct daemon *d, struct conn *c)
{
	if (c == d->client)
		d->client = NULL;
	LIST_REMOVE(c, entry);
	d->num_conns--;
	grpc_free(c->g);
	free(c);
}

/* Takes g. */
static struct conn *conn_add(struct daemon *d, struct grpc *g)
{
	struct conn *c = g ? calloc(1, sizeof(*c)) : NULL;

	if (!c) {
		grpc_free(g);
		return NULL;
	}
	*c = (struct conn){ .kind = CONN, .g = g, .writes = true };
	LIST_INSERT_HEAD(&d->conns, c, entry);
	d->num_conns++;
	if (!wait_for(d, grpc_fd(g), c, EPOLLIN | EPOLLOUT))
		return c;
	conn_end(d, c);
	return NULL;
}

static void conn_io(struct daemon *d, struct conn *c)
{
	struct epoll_event e = { .data.ptr = c };
	int err = grpc_io(c->g);

	if (err) {
		conn_end(d, c);
		return;
	}
	c->writes = grpc_wants_write(c->g);
	e.events = EPOLLIN | (c->writes ? EPOLLOUT : 0);
	epoll_ctl(d->epoll, EPOLL_CTL_MOD, grpc_fd(c->g), &e);
}

static void accept_all(struct daemon *d)
{
	int fd;

	while ((fd = accept4(d->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		if (d->num_conns < MAX_CONNS)
			conn_add(d, grpc_server(fd, plugin_serve, plugin_gone, &d->plugin));
		else
			close(fd);
	}
	if (errno == EMFILE || errno == ENFILE)
		usleep(ACCEPT_PAUSE_US); /* the socket stays readable, and the loop would spin */
}

/* Who watches has been sent something by others than its own connection. */
static void flush_all(struct daemon *d)
{
	struct conn *c, *next;

	for (c = LIST_FIRST(&d->conns); c; c = next) {
		next = LIST_NEXT(c, entry);
		if (grpc_wants_write(c->g))
			conn_io(d, c);
	}
}

/* ---- our socket, and the kubelet's ----------------------------------------------------------- */

static void stop_listening(struct daemon *d)
{
	if (d->listen_fd >= 0)
		close(d->listen_fd);
	d->listen_fd = -1;
}

static int listen_again(struct daemon *d)
{
	struct sockaddr_un sa;
	int err = path_to(d, OWN, &sa), fd;
	mode_t old;

	if (err)
		return err;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	unlink(sa.sun_path);
	old = umask(0177);
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, MAX_CONNS))
		err = -errno;
	umask(old);
	if (!err)
		err = wait_for(d, fd, &d->listener, EPOLLIN);
	if (err) {
		close(fd);
		return err;
	}
	stop_listening(d);
	d->listen_fd = fd;
	return 0;
}

static void registered(void *arg, int status, const char *text)
{
	struct daemon *d = arg;

	d->done = true;
	d->done_status = status;
	if (status)
		log_warn("the kubelet does not take %s: %s", d->plugin.conf.resource,
			 *text ? text : "no answer");
}

static int kubelet_connect(const struct daemon *d)
{
	struct sockaddr_un sa;
	int err = path_to(d, KUBELET, &sa),
	    fd = err ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err ? err : -errno;
	if (!connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static void register_again(struct daemon *d)
{
	int fd = kubelet_connect(d);
	uint8_t *msg;
	size_t len;

	if (fd < 0) { /* the next tick tries again */
		if (!d->waits)
			log_info("no kubelet listens at %s/" KUBELET
				 ": %s: waiting for it, no pod has devices before",
				 d->folder, strerror(-fd));
		d->waits = true;
		return;
	}
	d->waits = false;
	msg = plugin_registration(&d->plugin, OWN, &len);
	d->done = false;
	d->client_age = 0;
	if (msg)
		d->client = conn_add(d, grpc_client(fd, PLUGIN_REGISTER, msg, len, registered, d));
	else
		close(fd);
	free(msg);
}

/* As after the kubelet's start. */
static void begin_anew(struct daemon *d)
{
	int err;

	if (d->client)
		conn_end(d, d->client);
	d->registered = false;
	err = listen_again(d);
	if (err)
		log_err("%s/" OWN ": %s", d->folder, strerror(-err));
	else
		register_again(d);
}

static void look_at_client(struct daemon *d)
{
	if (!d->client || !d->done)
		return;
	conn_end(d, d->client);
	d->registered = !d->done_status;
	if (d->registered)
		log_info("registered: %s, %u of %s", d->plugin.conf.resource, d->plugin.conf.num,
			 d->plugin.conf.device);
}

static void folder_changed(struct daemon *d)
{
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	const struct inotify_event *e;
	bool anew = false;
	ssize_t n;

	while ((n = read(d->inotify, buf, sizeof(buf))) > 0) {
		for (char *p = buf; p < buf + n; p += sizeof(*e) + e->len) {
			e = (const struct inotify_event *)p;
			if (e->mask & IN_Q_OVERFLOW)
				anew = true;
			else if (e->len && !strcmp(e->name, KUBELET))
				anew |= !(e->mask & IN_DELETE);
		}
	}
	if (anew)
		begin_anew(d);
}

/* ---- the router ------------------------------------------------------------------------------ */

static bool router_answers(const char *path)
{
	static const char ask[] = "{\"op\":\"version\"}\n";
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char answer[64];
	bool ok = false;

	if (fd < 0)
		return false;
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	if (!connect(fd, (struct sockaddr *)&sa, sizeof(sa)) &&
	    send(fd, ask, sizeof(ask) - 1, MSG_NOSIGNAL) == sizeof(ask) - 1 &&
	    poll(&p, 1, ANSWER_MS) == 1)
		ok = recv(fd, answer, sizeof(answer), 0) > 0;
	close(fd);
	return ok;
}

static void look_at_router(struct daemon *d)
{
	bool was = d->plugin.healthy;

	plugin_health(&d->plugin, router_answers(d->admin));
	if (was != d->plugin.healthy)
		log_info("the router %s", was ? "does not answer: no device is healthy" :
						"answers: devices are healthy");
}

static bool socket_is_there(const struct daemon *d)
{
	struct sockaddr_un sa;
	struct stat st;

	return d->listen_fd >= 0 && !path_to(d, OWN, &sa) && !stat(sa.sun_path, &st);
}

static void on_tick(struct daemon *d, int fd)
{
	uint64_t times;

	if (read(fd, &times, sizeof(times)) != sizeof(times))
		return;
	if (!(d->ticks++ % HEALTH_S) || !d->plugin.healthy)
		look_at_router(d);
	if (d->client && ++d->client_age > PATIENCE_S)
		conn_end(d, d->client);
	if (!socket_is_there(d))
		begin_anew(d);
	else if (!d->registered && !d->client)
		register_again(d);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static int open_all(struct daemon *d, int *tick, int *signals)
{
	const struct itimerspec each = { { 1, 0 }, { 0, 1 } };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	d->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	*tick = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	*signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (d->epoll < 0 || d->inotify < 0 || *tick < 0 || *signals < 0 ||
	    timerfd_settime(*tick, 0, &each, NULL))
		return -errno;
	if (inotify_add_watch(d->inotify, d->folder, IN_CREATE | IN_MOVED_TO | IN_DELETE) < 0) {
		log_err("%s: %m", d->folder);
		return -errno;
	}
	d->listener = LISTENER;
	d->watch = FOLDER;
	d->tick = TICK;
	d->signals = SIGNAL;
	if (wait_for(d, d->inotify, &d->watch, EPOLLIN) || wait_for(d, *tick, &d->tick, EPOLLIN) ||
	    wait_for(d, *signals, &d->signals, EPOLLIN))
		return -errno;
	return 0;
}

/* One event at a time: what one of them ends may be another's. */
static int run(struct daemon *d)
{
	int tick, signals, n, err = open_all(d, &tick, &signals);
	struct epoll_event e;
	enum source kind;

	while (!err) {
		n = epoll_wait(d->epoll, &e, 1, -1);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n <= 0)
			continue;
		memcpy(&kind, e.data.ptr, sizeof(kind));
		if (kind == LISTENER)
			accept_all(d);
		else if (kind == FOLDER)
			folder_changed(d);
		else if (kind == TICK)
			on_tick(d, tick);
		else if (kind == SIGNAL)
			break;
		else
			conn_io(d, e.data.ptr);
		look_at_client(d);
		flush_all(d);
	}
	return err;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: ff-device-plugin [--kubelet FOLDER] [--admin SOCKET] [--resource NAME] "
		"[--device CDI-DEVICE] [--devices NUMBER]\n");
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "kubelet", required_argument, NULL, 'k' },
		{ "admin", required_argument, NULL, 'a' },
		{ "resource", required_argument, NULL, 'r' },
		{ "device", required_argument, NULL, 'd' },
		{ "devices", required_argument, NULL, 'n' },
		{ "version", no_argument, NULL, 'v' },
		{ 0 },
	};
	struct daemon d = { .folder = "/var/lib/kubelet/device-plugins",
			    .admin = "/run/freeflow/admin.sock",
			    .listen_fd = -1,
			    .plugin.conf = { "freeflow.io/rdma", "freeflow.io/rdma=kubernetes",
					     110 } };
	struct sockaddr_un sa;
	char *end = (char *)"";
	unsigned long num = 110;
	int c, err;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'k')
			d.folder = optarg;
		else if (c == 'a')
			d.admin = optarg;
		else if (c == 'r')
			d.plugin.conf.resource = optarg;
		else if (c == 'd')
			d.plugin.conf.device = optarg;
		else if (c == 'n')
			num = strtoul(optarg, &end, 10);
		else if (c == 'v')
			return puts("ff-device-plugin " FF_VERSION) < 0;
		else
			return usage();
	}
	if (optind != argc || *end || !num || num > PLUGIN_MAX_DEVICES || path_to(&d, OWN, &sa) ||
	    strlen(d.admin) >= sizeof(sa.sun_path))
		return usage();
	d.plugin.conf.num = (uint32_t)num;
	log_never_block();
	LIST_INIT(&d.conns);
	err = run(&d);
	if (err)
		log_err("%s", strerror(-err));
	while (!LIST_EMPTY(&d.conns))
		conn_end(&d, LIST_FIRST(&d.conns));
	stop_listening(&d);
	if (!path_to(&d, OWN, &sa))
		unlink(sa.sun_path);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
