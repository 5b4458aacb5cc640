/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sweep.c - folders of containers that the orchestrator does not know. Control thread; called by
 * orch/orch.c when it has the orchestrator's list.
 *
 * Most of them are left over from containers that were removed while the router was away. But the
 * orchestrator may have lost its store, and a router that was started anew knows of no container by
 * itself. A folder that a running container has mounted cannot be given to it a second time, so a
 * folder stays while another mount namespace has it, with what is kept beside it. The container has
 * a device again when the store is back, or when the operator adds it once more.
 *
 * The keeper looks for mounts (runs.c), at one folder after the other.
 *
 * Tests: unit/ctl/test_sweep.c, system/store_lost.sh
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffr/ctl/container.h"
#include "ffr/ctl/ctl.h"
#include "ffr/ctl/record.h"
#include "ffr/keeper/keeper.h"

struct leftover {
	LIST_ENTRY(leftover) entry; /* ctl->leftovers: the first one is the one that is looked at */
	char name[CONTAINER_NAME_MAX];
};

static void leftover_end(struct leftover *l)
{
	LIST_REMOVE(l, entry);
	free(l);
}

static void leftover_remove(struct ctl *ctl, const char *name)
{
	container_dir_remove(ctl, name);
	container_cgroup_forget(ctl, name);
	kept_forget_all(ctl, name);
}

static void look_at_first(struct ctl *ctl);

static void looked(void *arg, enum container_runs runs, bool stale)
{
	struct ctl *ctl = arg;
	struct leftover *l = LIST_FIRST(&ctl->leftovers);
	bool is_attached;

	(void)stale;
	if (!l) /* the router ends */
		return;
	is_attached = container_find(ctl, l->name); /* added meanwhile */
	if (!is_attached && runs == RUNS_NO)
		leftover_remove(ctl, l->name);
	else if (!is_attached)
		log_warn(
			"container %s: the orchestrator does not know it, and its folder %s: the folder stays. Bring the orchestrator's store back, run `ffctl container add` with all that the container had, or stop it",
			l->name, runs == RUNS_YES ? "is mounted" : "may be mounted");
	leftover_end(l);
	look_at_first(ctl);
}

static void look_at_first(struct ctl *ctl)
{
	struct leftover *l;
	int fd;

	while ((l = LIST_FIRST(&ctl->leftovers))) {
		fd = openat(ctl->containers_fd, l->name,
			    O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_RDONLY);
		if (fd >= 0) {
			folder_runs_ask(ctl, fd, looked, ctl);
			close(fd);
			return;
		}
		leftover_end(l);
	}
}

/* Of a container that is not attached: who connects is refused, and waits for nobody. */
static void leftover_add(struct ctl *ctl, const char *name)
{
	struct leftover *l, *first = LIST_FIRST(&ctl->leftovers);
	int held = keeper_held(name);

	if (held >= 0)
		container_socket_let_go(name, held);
	LIST_FOREACH(l, &ctl->leftovers, entry)
		if (!strcmp(l->name, name))
			return;
	l = calloc(1, sizeof(*l));
	if (!l)
		return;
	strcpy(l->name, name);
	if (first)
		LIST_INSERT_AFTER(first, l, entry);
	else
		LIST_INSERT_HEAD(&ctl->leftovers, l, entry);
}

/* Its folder says what becomes of what is kept beside it. */
static bool is_gone(struct ctl *ctl, const char *name)
{
	return !container_find(ctl, name) && faccessat(ctl->containers_fd, name, F_OK, 0);
}

void containers_sweep(struct ctl *ctl)
{
	int fd = openat(ctl->containers_fd, ".", O_DIRECTORY | O_CLOEXEC | O_RDONLY);
	bool is_idle = LIST_EMPTY(&ctl->leftovers);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	sessions_restore(ctl);
	if (!d)
		return;
	while ((e = readdir(d))) {
		char name[CONTAINER_NAME_MAX];

		if (container_cgroup_file(e->d_name, name) && is_gone(ctl, name))
			container_cgroup_forget(ctl, name);
		if (kept_file(e->d_name, name) && is_gone(ctl, name))
			kept_forget_all(ctl, name);
		if (container_name_ok(e->d_name) && !container_find(ctl, e->d_name))
			leftover_add(ctl, e->d_name);
	}
	closedir(d);
	if (is_idle)
		look_at_first(ctl);
}

void containers_sweep_stop(struct ctl *ctl)
{
	while (!LIST_EMPTY(&ctl->leftovers))
		leftover_end(LIST_FIRST(&ctl->leftovers));
}
