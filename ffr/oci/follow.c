/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * follow.c - ff-hook follow: a container's GIDs are the addresses that its engine gave it, also
 * when those change: `docker network connect` while it runs, or an engine that makes the network
 * after the hook (Docker after 26).
 *
 * A process of its own, root, which serves nobody: the notes of containers that run (note.c) tell
 * whose network namespaces to look into, inotify when there are others. In each it has a socket
 * that the kernel tells of addresses (addr.c), and of what it finds it tells the router by the
 * admin socket. So the router needs no right on networks, and neither a router nor this process
 * that starts again loses anything: what counts is what is there now.
 *
 * It also ends containers whose processes are gone while the router was away or their engine was
 * killed (ended.c): when it starts, when a hook could not tell the router, and a while after a
 * process that it follows has ended.
 *
 * Addresses that another container's programs may have chosen are not told: a container that is
 * seen to share its network with such a process twice, LOOK apart, is not followed any more. Seen
 * once, the process may be a runtime's that makes a container there.
 *
 * Addresses come in groups: a container is looked at SETTLE after the first of them, and at most
 * once in that time.
 *
 * Tests: system/runtime_docker_cdi.sh, system/addresses.sh
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

#include "ffr/lib/log.h"
#include "ffr/oci/oci.h"

#define SETTLE 20   /* ms */
#define RETRY  1000 /* ms: the router is away */
#define ENDED  5000 /* ms: for the hook of a process that has ended, and between tries */
#define LOOK   5000 /* ms */
#define BATCH  16

enum { EAR, PROCESS, NUM_SOURCES };

struct follower {
	UT_hash_handle hh;
	char id[OCI_ID_MAX];
	struct note note;
	struct addrs_socks socks;
	int pidfd;
	uint64_t due;	  /* ms; 0: nothing to be told */
	uint64_t anyones; /* ms: when addresses were somebody else's choice first; 0: they are not */
	char said[WHY_SZ]; /* the last complaint, which is not repeated */
	struct source {
		struct follower *f;
		int kind;
	} source[NUM_SOURCES];
};

struct follow {
	const char *admin;
	int epoll, inotify;
	struct follower *all; /* by id */
	uint64_t sweep;	      /* ms: when to look for containers that have ended; 0: never */
};

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void drop(struct follow *w, struct follower *f)
{
	HASH_DEL(w->all, f);
	addrs_close(&f->socks);
	if (f->pidfd >= 0)
		close(f->pidfd);
	free(f);
}

static int listen_to(struct follow *w, struct follower *f, int kind, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = &f->source[kind] };

	f->source[kind] = (struct source){ f, kind };
	return epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

/*
 * Its namespace is opened between two looks at who the process is: the number may be another's by
 * then.
 */
static int open_all(struct follow *w, struct follower *f)
{
	struct note again;
	int err;

	f->pidfd = (int)syscall(SYS_pidfd_open, f->note.pid, 0);
	err = f->pidfd < 0 ? -errno : addrs_open(f->note.pid, &f->socks);
	if (!err && (note_read(f->id, &again) || !again.runs || again.pid != f->note.pid))
		err = -ESRCH;
	err = err ? err : listen_to(w, f, EAR, f->socks.ear);
	return err ? err : listen_to(w, f, PROCESS, f->pidfd);
}

static void sweep_soon(struct follow *w)
{
	if (!w->sweep)
		w->sweep = now_ms() + ENDED;
}

static void look_at_note(struct follow *w, const char *file)
{
	struct follower *f;
	char id[OCI_ID_MAX];
	struct note n;
	int err;

	if (!note_id(file, id))
		return;
	HASH_FIND_STR(w->all, id, f);
	if (f)
		drop(w, f);
	if (note_read(id, &n) || strcmp(n.admin, w->admin))
		return;
	if (!n.runs)
		sweep_soon(w);
	if (!n.follow || !n.runs)
		return;
	f = calloc(1, sizeof(*f));
	if (!f) {
		log_err("out of memory");
		return;
	}
	*f = (struct follower){ .note = n, .socks = { -1, -1 }, .pidfd = -1, .due = now_ms() };
	memcpy(f->id, id, sizeof(id));
	HASH_ADD_STR(w->all, id, f);
	err = open_all(w, f);
	if (!err)
		return;
	if (err != -ESRCH && err != -ENOENT)
		log_warn("container %s: its network cannot be looked at: %s", n.name,
			 strerror(-err));
	drop(w, f);
}

static void look_at_all(struct follow *w)
{
	struct follower *f, *next;
	DIR *d = opendir(NOTES);
	struct dirent *e;

	HASH_ITER(hh, w->all, f, next)
		drop(w, f);
	while (d && (e = readdir(d)))
		look_at_note(w, e->d_name);
	if (d)
		closedir(d);
}

static void notes_changed(struct follow *w)
{
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	const struct inotify_event *e;
	ssize_t n;

	while ((n = read(w->inotify, buf, sizeof(buf))) > 0) {
		for (char *p = buf; p < buf + n; p += sizeof(*e) + e->len) {
			e = (const struct inotify_event *)p;
			if (e->mask & IN_Q_OVERFLOW)
				look_at_all(w);
			else if (e->len)
				look_at_note(w, e->name);
		}
	}
}

/* Another container's programs may have chosen the addresses. */
static void not_told(struct follow *w, struct follower *f)
{
	uint64_t now = now_ms();

	if (!f->anyones)
		f->anyones = now;
	f->due = f->anyones + LOOK;
	if (now < f->due)
		return;
	log_warn(
		"container %s: a process with CAP_NET_ADMIN shares its network: it keeps the addresses that it has",
		f->note.name);
	drop(w, f);
}

static void tell(struct follow *w, struct follower *f)
{
	char why[WHY_SZ] = "";
	struct addrs found;
	int err = addrs_read(&f->socks, &found);

	if (addrs_anyones(
		    f->note.pid)) { /* after they were read: who has chosen them is there still */
		not_told(w, f);
		return;
	}
	f->due = f->anyones = 0;
	if (err)
		snprintf(why, sizeof(why), "its addresses cannot be read: %s", strerror(-err));
	else
		err = addrs_tell(w->admin, f->note.name, &found, why);
	if (*why && err != -ENOENT && strcmp(why, f->said))
		log_warn("container %s: %s", f->note.name, why);
	memcpy(f->said, why, sizeof(why));
	if (err == -ECONNREFUSED || err == -EIO || err == -EAGAIN || err == -ENOTCONN)
		f->due = now_ms() + RETRY;
}

/* How long to sleep, in ms; -1: until something happens. */
static int tell_all(struct follow *w)
{
	struct follower *f, *next;
	uint64_t now = now_ms(), first = UINT64_MAX;

	HASH_ITER(hh, w->all, f, next) {
		if (f->due && f->due <= now)
			tell(w, f);
	}
	for (f = w->all; f; f = f->hh.next)
		if (f->due && f->due < first)
			first = f->due;
	if (w->sweep && w->sweep <= now)
		w->sweep = end_all_gone(w->admin) ? 0 : now_ms() + ENDED;
	if (w->sweep && w->sweep < first)
		first = w->sweep;
	if (first == UINT64_MAX)
		return -1;
	now = now_ms();
	return first > now ? (int)(first - now) : 0;
}

static void on_source(struct follow *w, struct source *s)
{
	if (s->kind == PROCESS) {
		drop(w, s->f);
		sweep_soon(w);
	} else if (addrs_heard(&s->f->socks) && !s->f->due)
		s->f->due = now_ms() + SETTLE;
}

/* One event at a time: a follower that is dropped may have another. */
static int serve(struct follow *w)
{
	struct epoll_event e;
	int n, wait = 0;

	for (int i = 0; (n = epoll_wait(w->epoll, &e, 1, wait)) >= 0 || errno == EINTR; i++) {
		if (n > 0 && e.data.ptr)
			on_source(w, e.data.ptr);
		else if (n > 0)
			notes_changed(w);
		wait = n > 0 && i % BATCH ? 0 : tell_all(w);
	}
	return -errno;
}

int follow_main(const char *admin)
{
	struct follow w = { .admin = admin };
	struct epoll_event e = { .events = EPOLLIN };
	int err;

	if (mkdir(NOTES, 0700) && errno != EEXIST) {
		log_err(NOTES ": %m");
		return EXIT_FAILURE;
	}
	w.epoll = epoll_create1(EPOLL_CLOEXEC);
	w.inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w.epoll < 0 || w.inotify < 0 ||
	    inotify_add_watch(w.inotify, NOTES, IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE) < 0 ||
	    epoll_ctl(w.epoll, EPOLL_CTL_ADD, w.inotify, &e)) {
		log_err("notes of containers: %m");
		return EXIT_FAILURE;
	}
	look_at_all(&w);
	w.sweep = now_ms();
	log_info("addresses of containers are followed");
	err = serve(&w);
	log_err("epoll: %s", strerror(-err));
	return EXIT_FAILURE;
}
