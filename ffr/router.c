/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * router.c - puts the router together and takes it apart. Control thread.
 */
#include "ffr/router.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ffr/admin/admin.h"
#include "ffr/cm/cm.h"
#include "ffr/ctl/container.h"
#include "ffr/ctl/ctl.h"
#include "ffr/ctl/record.h"
#include "ffr/dir/ctl.h"
#include "ffr/lib/cgroup.h"
#include "ffr/lib/log.h"
#include "ffr/admin/metrics.h"
#include "ffr/orch/orch.h"
#include "ffr/peer/peer.h"
#include "ffr/lib/sd.h"
#include "ffr/mem/shadow.h"
#include "ffr/mem/view.h"
#include "ffr/lib/user.h"
#include "ffr/soft/soft.h"

/* The directory and its parents. 0 or -errno. */
static int make_dirs(const char *path)
{
	char part[4096];

	for (const char *p = path; p;) {
		p = strchr(p + 1, '/');
		snprintf(part, sizeof(part), "%.*s", (int)(p ? p - path : (long)strlen(path)),
			 path);
		if (mkdir(part, 0755) && errno != EEXIST)
			return -errno;
	}
	return 0;
}

void router_devices(struct router *r)
{
	r->ctl.uffd_fd = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (r->ctl.uffd_fd < 0)
		log_info("/dev/userfaultfd: %m: private memory is not shared with the router");
}

/* A file that a router which was root has left, if there is one. */
static int file_give(const struct user *u, int dir_fd, const char *path)
{
	int err, fd = openat(dir_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	err = user_own(u, fd);
	close(fd);
	return err;
}

/* The store, with what SQLite has beside it, in a folder that is made if it is not there. */
static int store_give(const struct ffr_conf *conf, const struct user *u)
{
	static const char *const suffix[] = { "", "-wal", "-shm", "-journal" };
	char path[4096], *end;
	int fd, err = 0;

	if (strcmp(conf->orchestrator, "embedded") || conf->store[0] != '/')
		return 0;
	snprintf(path, sizeof(path), "%s", conf->store);
	end = strrchr(path, '/');
	*end = '\0';
	if (*path && !mkdir(path, 0700)) {
		fd = open(path, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_RDONLY);
		err = fd < 0 ? -errno : user_own(u, fd);
		if (fd >= 0)
			close(fd);
	}
	for (size_t i = 0; i < sizeof(suffix) / sizeof(suffix[0]) && !err; i++) {
		snprintf(path, sizeof(path), "%s%s", conf->store, suffix[i]);
		err = file_give(u, AT_FDCWD, path);
	}
	return err;
}

int router_give(const struct ffr_conf *conf, const struct user *u)
{
	const char *what = conf->runtime_dir;
	int fd, err = make_dirs(conf->runtime_dir);

	if (err)
		goto err_log;
	fd = open(conf->runtime_dir, O_DIRECTORY | O_CLOEXEC | O_RDONLY);
	if (fd < 0) {
		err = -errno;
		goto err_log;
	}
	err = user_own(u, fd);
	if (!err)
		err = file_give(u, fd, "ffr.lock");
	if (!err)
		err = containers_give(conf->engine_group, u, fd);
	close(fd);
	if (!err) {
		what = conf->store;
		err = store_give(conf, u);
	}
	if (!err)
		return 0;
err_log:
	log_err("%s: cannot be given to user %u: %s", what, u->uid, strerror(-err));
	return err;
}

/* ms between two looks at a lock that another router has. */
#define LOCK_LOOK 20u

unsigned int router_lock_wait = 5000;

/*
 * One router for each runtime directory. The lock goes with the process, which may take a while to end after it was
 * killed: the kernel frees the memory of all its containers first.
 */
static int runtime_lock(struct router *r)
{
	const struct timespec look = { .tv_nsec = LOCK_LOOK * 1000000L };
	char path[4096];

	snprintf(path, sizeof(path), "%s/ffr.lock", r->conf.runtime_dir);
	r->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (r->lock_fd < 0)
		return -errno;
	for (unsigned int ms = 0; flock(r->lock_fd, LOCK_EX | LOCK_NB); ms += LOCK_LOOK) {
		if (errno != EWOULDBLOCK || ms >= router_lock_wait)
			return -errno;
		if (!ms)
			log_info("%s: another router has it: waiting %u ms for it to end", path,
				 router_lock_wait);
		nanosleep(&look, NULL);
	}
	return 0;
}

/* What programs see as the device's limits are those of their session. */
void router_limits(struct router *r)
{
	const struct ffr_limits *lim = &r->conf.limits;
	struct ff_query_device_resp *d = &r->ctl.dev;

	*d = r->can;

#define AT_MOST(field)                                                                             \
	do {                                                                                       \
		if (d->field > lim->field)                                                         \
			d->field = lim->field;                                                     \
	} while (0)
	AT_MOST(max_qp);
	AT_MOST(max_cq);
	AT_MOST(max_mr);
	AT_MOST(max_pd);
	AT_MOST(max_srq);
	AT_MOST(max_ah);
	AT_MOST(max_mw);
#undef AT_MOST
	d->max_res_rd_atom = d->max_qp_rd_atom * d->max_qp;
	if (d->max_dm_size > (uint64_t)lim->max_dm_mb << 20)
		d->max_dm_size = (uint64_t)lim->max_dm_mb << 20;
	if (!d->num_comp_vectors) /* a device without interrupts: any number is the same to it */
		d->num_comp_vectors = 1;
}

/* Without wire_listen it is a single host. */
static int peers_start(struct router *r, char *err, size_t size)
{
	const struct tls_files files = conf_tls_files(&r->conf);
	const struct peers_conf conf = {
		.loop = &r->loop,
		.fast = r->ctl.host,
		.host = r->conf.hostname,
		.instance = r->instance,
		.cluster = r->conf.cluster,
		.listen = r->conf.wire_listen,
		.advertise = r->conf.wire_advertise,
		.check_addr = r->conf.wire_check_addr,
		.tls = r->conf.wire_tls ? &files : NULL,
	};

	return conf.listen ? peers_create(&r->peers, &conf, err, size) : 0;
}

void router_look(struct router *r)
{
	soft_describe(&r->can);
	CARRIERS_DO(describe, r->ctl.host->threads[0], &r->can);
	router_limits(r);
}

int router_metrics(struct router *r, const char *where, struct metrics **m)
{
	return metrics_start(m, &(struct metrics_conf){ .where = where,
							.host = r->conf.hostname,
							.loop = &r->loop,
							.ctl = &r->ctl,
							.peers = r->peers });
}

/*
 * A quarter of the limit is the router's own: what nobody is charged with, such as page tables, and what the allocator
 * keeps. Without a limit, as without systemd, it is that of the shipped unit, MemoryMax=50%.
 */
uint64_t router_memory_bound(uint64_t limit, uint64_t host)
{
	if (limit > host / 2)
		limit = host / 2;
	return limit - limit / 4;
}

static void memory_bound(void)
{
	uint64_t host = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t bound = router_memory_bound(cgroup_memory_limit_own(), host);

	quota_memory_bound(bound);
	log_info("containers share %llu MB of the router's memory",
		 (unsigned long long)(bound >> 20));
}

int router_init(struct router *r, char *err, size_t size)
{
	const char *what = "event loop";
	int rc;

	r->ctl.containers_fd = r->lock_fd = -1;
	r->alone = r->conf.sandbox != SANDBOX_OFF && conf_is_alone(&r->conf);
	r->ctl.conf = (struct ctl_conf){ .runtime_dir = r->conf.runtime_dir,
					 .engine_group = r->conf.engine_group,
					 .limits = r->conf.limits,
					 .defaults = r->conf.defaults };
	snprintf(r->instance, sizeof(r->instance), "%d-%llx", (int)getpid(),
		 (unsigned long long)uv_hrtime());
	rc = uv_loop_init(&r->loop);
	if (rc)
		goto err;
	rc = ctl_open(&r->ctl, &r->loop);
	if (rc) {
		uv_loop_close(&r->loop);
		goto err;
	}
	sigbus_tell(ctl_memory_gone, &r->ctl);
	r->loop_ready = true;
	memory_bound();

	what = r->conf.runtime_dir;
	rc = make_dirs(r->conf.runtime_dir);
	if (!rc)
		rc = runtime_lock(r);
	if (rc == -EWOULDBLOCK)
		what = "another router uses this runtime_dir";
	if (!rc)
		rc = containers_init(&r->ctl);
	if (rc)
		goto err;
	rc = classes_make(r->conf.runtime_dir, "/sys/class");
	if (rc)
		log_warn("%s/class: containers get no /sys/class/infiniband by flags: %s",
			 r->conf.runtime_dir, strerror(-rc));

	what = "SIGBUS handler";
	rc = sigbus_install();
	if (rc)
		goto err;
	rc = guard_init();
	if (rc)
		log_warn("userfaultfd: %s: clients' memory is not mapped, it is reached by copying",
			 strerror(-rc));
	what = "carriers";
	carriers_choose(&r->conf, r->carriers);
	r->backend.ops = &soft_ops;
	r->backend.carriers = r->carriers;
	rc = ctl_threads_init(&r->ctl, &r->backend,
			      &(struct ctl_threads_conf){ .fast = &r->conf.fast,
							  .cpu = r->conf.fast_cpu,
							  .num = r->conf.fast_threads });
	if (rc)
		goto err;
	r->ctl.host->session_bad = ctl_session_bad;
	rc = peers_start(r, err, size);
	if (rc) {
		router_fini(r);
		return rc;
	}
	what = "directory";
	rc = dir_create(&(struct dir_conf){ .loop = &r->loop,
					    .fast = r->ctl.host,
					    .host = r->conf.hostname,
					    .peers = r->peers });
	if (rc)
		goto err;
	what = "connection manager";
	r->ctl.cm = cm_create(&r->ctl);
	if (!r->ctl.cm) {
		rc = -ENOMEM;
		goto err;
	}
	router_look(r);
	what = r->conf.metrics;
	if (what)
		rc = router_metrics(r, what, &r->metrics);
	if (rc)
		goto err;
	return 0;

err:
	snprintf(err, size, "%s: %s", what, strerror(-rc));
	router_fini(r);
	return rc;
}

/* The admin socket opens after all containers. It must open also where these took the last descriptors. */
#define ADMIN_ROOM 8
static int admin_room[ADMIN_ROOM];

static void room_keep(void)
{
	for (int i = 0; i < ADMIN_ROOM; i++)
		admin_room[i] = dup(STDERR_FILENO);
}

static void room_give(void)
{
	for (int i = 0; i < ADMIN_ROOM; i++)
		if (admin_room[i] >= 0)
			close(admin_room[i]);
}

/* The orchestrator has answered, or cannot be reached: administrators may come. */
static void on_ready(void *arg)
{
	struct router *r = arg;
	struct orch_state o;
	int err;

	room_give();
	err = admin_start(&r->admin, &(struct admin_conf){ .ctl = &r->ctl,
							   .peers = r->peers,
							   .socket = r->conf.admin_socket,
							   .host = r->conf.hostname,
							   .mode = r->conf.mode });
	if (err) {
		log_err("%s: %s", r->conf.admin_socket, strerror(-err));
		return;
	}
	orch_state(r->ctl.orch, &o);
	if (!o.known)
		log_warn(
			"containers are not known, and have no device, until the orchestrator answers");
	log_info("ready: host %s, %s", r->conf.hostname, r->conf.runtime_dir);
	sd_notify("READY=1");
}

int router_start(struct router *r)
{
	const struct tls_files files = conf_tls_files(&r->conf);
	const struct orch_conf conf = {
		.where = r->conf.orchestrator,
		.host = r->conf.hostname,
		.instance = r->instance,
		.wire = peers_wire(r->peers),
		.peers = r->peers,
		.fence_after = r->conf.fence_after,
		.store = r->conf.store,
		.pools = (const char *const *)r->conf.pools,
		.num_pools = r->conf.num_pools,
		.tls = &files,
		.ready = on_ready,
		.arg = r,
	};

	room_keep();
	return orch_start(&r->ctl, &conf);
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void router_fini(struct router *r)
{
	sessions_restore_stop(&r->ctl);
	containers_sweep_stop(&r->ctl);
	container_runs_stop(&r->ctl);
	orch_stop(r->ctl.orch);
	r->ctl.orch = NULL;
	metrics_stop(r->metrics);
	r->metrics = NULL;
	admin_stop(r->admin);
	r->admin = NULL;
	if (r->ctl.host)
		while (!LIST_EMPTY(&r->ctl.host->containers))
			container_stop(LIST_FIRST(&r->ctl.host->containers));
	cm_free(r->ctl.cm);
	r->ctl.cm = NULL;
	dir_free(r->ctl.host ? r->ctl.host->dir : NULL);
	peers_free(r->peers);
	r->peers = NULL;
	if (r->loop_ready) {
		sigbus_tell(NULL, NULL);
		ctl_close(&r->ctl);
		uv_run(&r->loop, UV_RUN_DEFAULT);
		if (uv_loop_close(&r->loop))
			log_err("event loop: handles were left open");
		r->loop_ready = false;
	}
	view_fini();
	fast_free(r->ctl.host);
	r->ctl.host = NULL;
	close_fd(&r->ctl.containers_fd);
	close_fd(&r->ctl.uffd_fd);
	close_fd(&r->lock_fd);
}
