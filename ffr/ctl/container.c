/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * container.c - a directory and a listening socket for each container. Control thread.
 *
 * <runtime_dir>/containers/<name>/ is what a container mounts; it holds ffr.sock and sys/ (sysfs.c). Who a
 * client is follows from the socket that it reached, never from what it says. So nobody else may reach
 * it: the folder of all of them is the router's alone, and that of engine_group, whose members mount from
 * it without being root. (Where the container's cgroup is known, its processes must be in it as well: cgroup.c.) A
 * mounted folder is reached without passing through that one. The directory outlives the router, so that the mounts
 * of running containers find the next router's socket; it is removed when its container is, or when the orchestrator
 * no longer knows the container, and the container does not run (sweep.c). The socket outlives a router that dies,
 * too (keeper/held.c).
 *
 * A container may be able to write in that directory. Nothing there is followed or trusted: names
 * are created and removed relative to its descriptor, and what is in the way makes only this
 * container fail.
 */
#include "ffr/ctl/container.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ffo/base/limits.h"
#include "ffr/obj/cpu.h"
#include "ffr/obj/events.h"
#include "ffr/ctl/ctl.h"
#include "ffr/ctl/discard.h"
#include "ffr/ctl/sysfs.h"
#include "ffr/dir/dir.h"
#include "ffr/keeper/keeper.h"
#include "ffr/lib/user.h"
#include "ffr/wire/wire.h"

#define SOCKET_NAME  "ffr.sock"
#define ACCEPT_BATCH 16
#define ACCEPT_RETRY 100 /* ms */
#define BACKLOG	     1024
#define MAX_SILENT   64u /* connections without HELLO; further ones wait in the backlog */

bool container_name_ok(const char *name)
{
	return strlen(name) < CONTAINER_NAME_MAX && ffo_name_ok(name);
}

struct container *container_find(struct ctl *ctl, const char *name)
{
	struct container *c;

	LIST_FOREACH(c, &ctl->host->containers, entry)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}

struct container *container_by_id(struct ctl *ctl, uint32_t id)
{
	struct container *c;

	LIST_FOREACH(c, &ctl->host->containers, entry)
		if (c->id == id)
			return c;
	return NULL;
}

/* ---- accepting ----------------------------------------------------------------------------- */

static void on_connect(uv_poll_t *h, int status, int events);

static void on_retry(uv_timer_t *t)
{
	struct container_ctl *ct = t->data;

	if (ct->num_silent < MAX_SILENT)
		uv_poll_start(&ct->poll, UV_READABLE, on_connect);
}

void container_heard(struct container *c)
{
	struct container_ctl *ct = c->ctl;

	if (ct->num_silent-- == MAX_SILENT && !uv_is_active((uv_handle_t *)&ct->retry))
		uv_poll_start(&ct->poll, UV_READABLE, on_connect);
}

/* Connections stay in the queue, for so many ms. */
static void accept_later(struct container_ctl *ct, uint64_t ms)
{
	uv_poll_stop(&ct->poll);
	uv_timer_start(&ct->retry, on_retry, ms, 0);
}

/* One connection. False: no more now. */
static bool accept_one(struct container_ctl *ct)
{
	int err, fd;

	if (discard_full(ct->discard, false)) {
		accept_later(ct, ACCEPT_RETRY);
		return false;
	}
	fd = accept4(ct->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
		log_client(&ct->c->log, LOG_LEVEL_WARN, "container %s: accept: %m", ct->c->name);
		accept_later(ct, ACCEPT_RETRY);
	}
	if (fd < 0)
		return false;
	err = ctl_conn_create(ct->c, fd);
	if (err)
		log_client(&ct->c->log, LOG_LEVEL_WARN, "container %s: new client: %s", ct->c->name,
			   strerror(-err));
	return true;
}

/* It has used the CPU time that it may: nobody new is let in until it has some again. */
static bool must_rest(struct container_ctl *ct)
{
	uint64_t ns = cpu_limited(ct->c) ? cpu_wait(ct->c, uv_hrtime()) : 0;

	if (!ns)
		return false;
	accept_later(ct, ns / 1000000 < ACCEPT_RETRY ? ns / 1000000 + 1 : ACCEPT_RETRY);
	return true;
}

static void on_connect(uv_poll_t *h, int status, int events)
{
	struct container_ctl *ct = h->data;
	bool more = true;
	uint64_t from;

	(void)status;
	(void)events;
	for (int i = 0; i < ACCEPT_BATCH && more; i++) {
		if (ct->num_silent >= MAX_SILENT) {
			uv_poll_stop(h);
			return;
		}
		if (must_rest(ct))
			return;
		from = cpu_of_thread();
		more = accept_one(ct);
		ctl_charge(ct->c, from);
	}
}

/* ---- the socket and its directory ---------------------------------------------------------- */

static int dir_open(struct ctl *ctl, const char *name)
{
	int fd;

	if (mkdirat(ctl->containers_fd, name, 0755) && errno != EEXIST)
		return -errno;
	fd = openat(ctl->containers_fd, name, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_RDONLY);
	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0755)) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

/* The keeper's descriptor must not be the last one: see held.c. */
void container_socket_let_go(const char *name, int fd)
{
	struct discard *d = NULL;

	keeper_let_go(name);
	discard_fd(&d, fd);
	discard_end(d);
}

/* Paths of sockets are short (108 bytes); /proc/self/fd makes any directory's so. */
static int socket_listen(int dir_fd)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd, err;

	if (unlinkat(dir_fd, SOCKET_NAME, 0) && errno != ENOENT)
		return -errno;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/" SOCKET_NAME, dir_fd);
	/*
	 * Users in a container may have any number. chmod() comes last, because programs that wait for a router watch
	 * the folder (ffl/cm/watch.c) and must find it listening.
	 */
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) || listen(fd, BACKLOG) ||
	    chmod(sa.sun_path, 0666)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

/*
 * The socket that the router before this one had, if it died, with who waits there; or a new one, in
 * place of whatever the container has put there.
 */
static int socket_get(int dir_fd, const char *name)
{
	struct stat st;
	int err, fd = keeper_held(name);

	if (fd >= 0) {
		if (!fstatat(dir_fd, SOCKET_NAME, &st, AT_SYMLINK_NOFOLLOW) && S_ISSOCK(st.st_mode))
			return fd;
		container_socket_let_go(name, fd);
	}
	fd = socket_listen(dir_fd);
	if (fd < 0)
		return fd;
	err = keeper_hold(name, fd);
	if (err)
		log_warn("container %s: its socket does not outlive the router: %s", name,
			 strerror(-err));
	return fd;
}

void container_dir_remove(struct ctl *ctl, const char *name)
{
	int fd = openat(ctl->containers_fd, name, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_RDONLY);

	if (fd >= 0) {
		unlinkat(fd, SOCKET_NAME, 0);
		sysfs_remove(fd);
		close(fd);
	}
	if (unlinkat(ctl->containers_fd, name, AT_REMOVEDIR) && errno != ENOENT)
		log_warn("container %s: remove %s/containers/%s: %m", name, ctl->conf.runtime_dir,
			 name);
}

/* The folder of containers is closed to others, also where another configuration made it. */
static int containers_close(struct ctl *ctl)
{
	const char *name = ctl->conf.engine_group;
	struct group *group = NULL;

	if (name) {
		errno = 0;
		group = getgrnam(name);
		if (!group) {
			log_err("engine_group: no group %s", name);
			return errno ? -errno : -ENOENT;
		}
	}
	/* the owner may leave a group that he is not in as root has set it (containers_give()) */
	if (fchown(ctl->containers_fd, geteuid(), group ? group->gr_gid : getegid()) ||
	    fchmod(ctl->containers_fd, group ? 0710 : 0700))
		return -errno;
	return 0;
}

int containers_init(struct ctl *ctl)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/containers", ctl->conf.runtime_dir);
	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	ctl->containers_fd = open(path, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_RDONLY);
	return ctl->containers_fd < 0 ? -errno : containers_close(ctl);
}

/* The folders of a router that was root are this one's. */
static int all_give(const struct user *u, int fd)
{
	DIR *d = fdopendir(fd);
	struct dirent *e;

	if (!d)
		return -errno;
	while ((e = readdir(d))) {
		const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_RDONLY;
		char name[CONTAINER_NAME_MAX];
		int one = -1;

		if (container_name_ok(e->d_name))
			one = openat(fd, e->d_name, O_DIRECTORY | flags);
		else if (container_cgroup_file(e->d_name, name) || kept_file(e->d_name, name))
			one = openat(fd, e->d_name, flags);
		if (one < 0)
			continue;
		if (user_own(u, one))
			log_warn("%s of the containers' folder is somebody else's", e->d_name);
		close(one);
	}
	closedir(d);
	return 0;
}

int containers_give(const char *engine_group, const struct user *u, int runtime_fd)
{
	struct group *group = engine_group ? getgrnam(engine_group) : NULL;
	int err, fd;

	if (mkdirat(runtime_fd, "containers", 0700) && errno != EEXIST)
		return -errno;
	fd = openat(runtime_fd, "containers", O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_RDONLY);
	if (fd < 0)
		return -errno;
	err = user_own(u, fd);
	/* containers_close() says who may in, and that there is such a group */
	if (!err && fchown(fd, (uid_t)-1, group ? group->gr_gid : u->gid))
		err = -errno;
	if (!err)
		return all_give(u, fd);
	close(fd);
	return err;
}

/* ---- attach and detach --------------------------------------------------------------------- */

static void info_copy(struct container *c, const struct ffo_container *info)
{
	const struct container_ctl *ct = c->ctl;

	static_assert(CONTAINER_MAX_GIDS >= FFO_ADDR_MAX, "gid");

	c->limits = ffo_limits_in_force(&info->limits, &ct->ctl->conf.defaults);
	c->mode = (enum ff_mode)info->mode;
	c->lid = info->lid;
	c->num_gids = info->num_ips;
	c->has_nic_gid = ct->ctl->host->nic_direct;
	c->nic_gid = ct->ctl->host->nic[c->nic].gid;
	for (unsigned i = 0; i < info->num_ips; i++)
		memcpy(&c->gid[i], &info->ip[i], sizeof(c->gid[i]));
}

static void on_handle_closed(uv_handle_t *h)
{
	struct container_ctl *ct = h->data;

	if (--ct->open_handles)
		return;
	discard_fd(&ct->discard, ct->listen_fd); /* with what waits to be accepted */
	discard_end(ct->discard);
	close(ct->dir_fd);
	free(ct->cgroup);
	free(ct->runs);
	free(ct);
}

/* ct and its socket go with the last one. */
static void handles_close(struct container_ctl *ct)
{
	uv_close((uv_handle_t *)&ct->poll, on_handle_closed);
	uv_close((uv_handle_t *)&ct->retry, on_handle_closed);
	uv_close((uv_handle_t *)&ct->trace, on_handle_closed);
}

/* The one that an operator chose, or one that few have. */
static void nic_choose(struct container *c, const struct fast_host *h)
{
	char name[KEPT_MAX];

	c->nic = fast_nic_choose(h);
	if (!h->num_nics || kept_read(c, KEPT_NIC, name))
		return;
	for (uint8_t i = 0; i < h->num_nics; i++)
		if (!strcmp(h->nic[i].name, name)) {
			c->nic = i;
			return;
		}
	log_warn("container %s: the router has no NIC %s, which was chosen for it: it has %s",
		 c->name, name, h->nic[c->nic].name);
}

int container_attach(struct ctl *ctl, const struct ffo_container *info)
{
	struct container *c;
	struct container_ctl *ct;
	int err;

	if (!container_name_ok(info->name))
		return -EINVAL;
	if (container_find(ctl, info->name))
		return -EEXIST;
	c = calloc(1, sizeof(*c));
	ct = calloc(1, sizeof(*ct));
	if (!c || !ct) {
		err = -ENOMEM;
		goto err_free;
	}
	*ct = (struct container_ctl){ .ctl = ctl, .c = c };
	ct->heard.since = uv_hrtime() / 1000000000;
	c->ctl = ct;
	TAILQ_INIT(&c->mw.changed);
	c->id = info->id;
	c->epoch = info->epoch;
	snprintf(c->name, sizeof(c->name), "%s", info->name);
	snprintf(c->tenant, sizeof(c->tenant), "%s", info->tenant);
	nic_choose(c, ctl->host);
	info_copy(c, info);
	ct->told = info->limits;
	snprintf(ct->device_name, sizeof(ct->device_name), "%s", info->device_name);
	ct->devices = info->devices ? info->devices : 1;
	err = container_cgroup_recall(c);
	if (!err)
		err = container_runs_recall(c);
	if (err)
		goto err_free;
	ct->dir_fd = err = dir_open(ctl, c->name);
	if (err < 0)
		goto err_free;
	ct->listen_fd = err = socket_get(ct->dir_fd, c->name);
	if (err < 0)
		goto err_dir;
	err = uv_poll_init(ctl->loop, &ct->poll, ct->listen_fd);
	if (err)
		goto err_listen;
	uv_timer_init(ctl->loop, &ct->retry);
	uv_timer_init(ctl->loop, &ct->trace);
	ct->poll.data = ct->retry.data = ct->trace.data = ct;
	ct->open_handles = 3;
	fast_lock(ctl->host);
	err = fast_container_add(ctl->host, c);
	if (!err)
		dir_container_added(ctl->host, c);
	fast_unlock(ctl->host);
	if (err) {
		handles_close(ct);
		container_dir_remove(ctl, c->name);
		free(c);
		return err;
	}
	sysfs_open(c);
	uv_poll_start(&ct->poll, UV_READABLE, on_connect);
	event_add(EVENT_ATTACHED, c, "tenant %s, epoch %u", c->tenant, c->epoch);
	return 0;

err_listen:
	keeper_let_go(c->name);
	close(ct->listen_fd);
err_dir:
	close(ct->dir_fd);
	container_dir_remove(ctl, c->name);
err_free:
	if (ct) {
		free(ct->cgroup);
		free(ct->runs);
	}
	free(ct);
	free(c);
	return err;
}

static void sessions_close(struct container *c, const char *why)
{
	struct ctl *ctl = ((struct container_ctl *)c->ctl)->ctl;
	struct ctl_conn *conn, *next;

	for (conn = TAILQ_FIRST(&ctl->conns); conn; conn = next) {
		next = TAILQ_NEXT(conn, entry);
		if (conn->cont != c)
			continue;
		ctl_conn_close(conn, why);
		if (conn->ending || conn->later) /* now, not in parts: the container goes */
			ctl_conn_close(conn, why);
	}
}

/*
 * As when an address of a NIC's network device comes or goes: programs are told and ask for the table, connections
 * that are there go on, and only who looks for an address finds another answer.
 */
static void gids_change(struct container *c, const struct ffo_container *info)
{
	struct fast_host *h = ((struct container_ctl *)c->ctl)->ctl->host;
	struct session *s;

	fast_lock(h);
	info_copy(c, info);
	dir_container_added(h, c);
	LIST_FOREACH(s, &c->sessions, entry)
		comp_async(c->fast, s, IBV_EVENT_GID_CHANGE, FF_ASYNC_PORT, 1);
	fast_unlock(h);
	sysfs_identity(c);
}

void container_update(struct container *c, const struct ffo_container *info)
{
	struct container_ctl *ct = c->ctl;
	struct fast_host *h = ct->ctl->host;
	struct container n = *c;
	struct tenant *t = c->of;

	info_copy(&n, info);
	ct->told = info->limits;
	if (memcmp(&n.limits, &c->limits, sizeof(c->limits))) {
		fast_lock(h);
		fast_container_limits(c, &n.limits);
		fast_unlock(h);
	}
	if (info->epoch == c->epoch && n.mode == c->mode && n.lid == c->lid) {
		if (n.num_gids != c->num_gids ||
		    memcmp(n.gid, c->gid, sizeof(n.gid[0]) * n.num_gids))
			gids_change(c, info);
		return;
	}
	sessions_close(c, "its container was changed");
	fast_lock(h);
	t->num_containers++;	  /* it stays */
	fast_container_del(h, c); /* peers forget the old address */
	dir_container_gone(h, c);
	info_copy(c, info);
	c->epoch = info->epoch;
	fast_container_add(h, c); /* cannot fail: the tenant is there */
	dir_container_added(h, c);
	t->num_containers--;
	fast_unlock(h);
	sysfs_identity(c);
}

void containers_bound(struct ctl *ctl, const struct ffr_limits *limits,
		      const struct ffo_limits *defaults)
{
	struct container *c;

	ctl->conf.limits = *limits;
	ctl->conf.defaults = *defaults;
	fast_lock(ctl->host);
	LIST_FOREACH(c, &ctl->host->containers, entry) {
		const struct container_ctl *ct = c->ctl;
		struct ffo_limits l = ffo_limits_in_force(&ct->told, defaults);

		if (memcmp(&l, &c->limits, sizeof(l)))
			fast_container_limits(c, &l);
	}
	fast_unlock(ctl->host);
}

int container_set_nic(struct container *c, uint8_t nic)
{
	struct fast_host *h = ((struct container_ctl *)c->ctl)->ctl->host;
	int err;

	if (nic != c->nic && !LIST_EMPTY(&c->sessions))
		return -EBUSY;
	err = kept_write(c, KEPT_NIC, h->nic[nic].name);
	if (err || nic == c->nic)
		return err;
	fast_lock(h);
	c->nic = nic;
	c->nic_gid = h->nic[nic].gid;
	wire_tell_nic_of(h->threads[0], c);
	fast_unlock(h);
	sysfs_identity(c);
	return 0;
}

void container_stop(struct container *c)
{
	struct container_ctl *ct = c->ctl;
	struct ctl *ctl = ct->ctl;

	fast_lock(ctl->host);
	c->dying = true;
	fast_unlock(ctl->host);
	sessions_close(c, NULL);
	fast_lock(ctl->host);
	fast_container_del(ctl->host, c);
	dir_container_gone(ctl->host, c);
	fast_unlock(ctl->host);
	keeper_let_go(c->name);
	mem_container_gone(&ctl->mem, c);
	unlinkat(ct->dir_fd, SOCKET_NAME, 0);
	sysfs_close(c);
	handles_close(ct);
	free(c->keys.slot);
	free(c->windows.slot);
	free(c);
}

void containers_fence(struct ctl *ctl, bool fenced)
{
	struct container *c;

	ctl->fenced = fenced;
	if (!fenced)
		return;
	LIST_FOREACH(c, &ctl->host->containers, entry)
		sessions_close(c, "this host is cut off");
}

void container_detach(struct container *c)
{
	struct ctl *ctl = ((struct container_ctl *)c->ctl)->ctl;
	char name[CONTAINER_NAME_MAX];

	memcpy(name, c->name, sizeof(name));
	container_stop(c);
	container_dir_remove(ctl, name);
	container_cgroup_forget(ctl, name);
	kept_forget_all(ctl, name);
}

void container_leave(struct container *c, const char *why)
{
	event_add(EVENT_DETACHED, c, "%s", why);
	container_detach(c);
}
