/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fuzz_keeper.c - libFuzzer target: a router that was taken over asks the keeper for whatever it likes,
 * with descriptors of any kind. Nothing may be opened but what the client, this process, has mapped
 * itself, shared and writable; nothing is held that does not listen; no descriptor may be left behind.
 * build: ffr/keeper/clients.c ffr/keeper/held.c ffr/keeper/saved.c ffr/keeper/keeper.c ffr/keeper/rio.c ffr/keeper/look.c ffr/keeper/runs.c ffr/keeper/map_file.c ffr/keeper/opener.c ffr/keeper/hello.c ffr/keeper/mounts.c ffr/lib/log.c ffr/lib/fds.c ffr/lib/sandbox.c ffr/lib/landlock.c ffr/lib/cgroup.c
 *
 * The input is a list of requests: a byte for the descriptors that come along, one for the length, and
 * the bytes, of which those that are 0xaa are a good request's. A question about a cgroup is as long as it must be if
 * 0x40 of the first byte says so. And it is a text that /proc/PID/cgroup might have: names there are anybody's.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "ffr/keeper/keeper.h"
#include "ffr/lib/fds.h"

#define LEN 8192u

static int kinds[10];
static int looked[2]; /* what KEEPER_LOOK finds */
static struct ff_vma vma;
static ino_t listener;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	void *shared = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct stat st;
	int p[2];

	(void)argc;
	(void)argv;
	if (pipe(p))
		abort();
	kinds[0] = (int)syscall(SYS_pidfd_open, getpid(), 0);
	kinds[1] = open("/proc/self/mem", O_RDWR);
	kinds[2] = open("/proc/self/maps", O_RDONLY);
	kinds[3] = p[0];
	kinds[4] = memfd_create("mem", 0);
	kinds[5] = open("/proc/self", O_PATH);
	kinds[6] = eventfd(0, 0);
	kinds[7] = open("/proc/self/mem", O_RDONLY);
	kinds[8] = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, looked))
		abort();
	kinds[9] = looked[0];
	if (bind(kinds[8], (struct sockaddr *)&sa, sizeof(sa.sun_family)) || listen(kinds[8], 1))
		abort();
	(void)ff_vma_ask(kinds[2], (uintptr_t)shared, &vma);
	if (fstat(kinds[8], &st))
		abort();
	listener = st.st_ino;
	return 0;
}

static unsigned open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Of this process: what comes with the answer to KEEPER_ADD. */
static bool is_status(int fd)
{
	char link[64], path[64], want[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	snprintf(want, sizeof(want), "/proc/%d/status", (int)getpid());
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return false;
	path[n] = '\0';
	return !strcmp(path, want);
}

/* Of files only the one that is mapped is found. */
static void take_looked(void)
{
	struct keeper_found found;
	struct stat st;
	unsigned n_fds;
	ssize_t n;
	int in;

	look_settle();
	runs_settle();
	clients_settle();
	while (recv(looked[0], &found, sizeof(found), 0) >= 0)
		; /* what nobody has asked for */
	while ((n = fds_recv(looked[1], &found, sizeof(found), &in, 1, &n_fds, 0)) >= 0) {
		if (!n_fds)
			continue;
		if (is_status(in)) {
			close(in);
			continue;
		}
		if (n != sizeof(found) || fstat(in, &st) || st.st_ino != vma.inode ||
		    found.start < vma.start || found.end > vma.end || found.start >= found.end)
			abort();
		close(in);
	}
}

static void request(const uint8_t *data, size_t size, uint8_t with, uint32_t *id)
{
	struct keeper_req req = { .op = KEEPER_ADD, .pid = getpid() };
	union {
		struct keeper_cgroup_req r;
		struct keeper_look_req look;
		uint8_t bytes[sizeof(struct keeper_look_req)];
	} u = { .r = { .cgroup = "" } };
	uint8_t *const bytes = u.bytes;
	struct keeper_resp resp;
	int fds[3], fd;
	unsigned n = 0;
	struct stat st;

	memcpy(bytes, &req, sizeof(req));
	for (size_t i = 0; i < size; i++)
		if (data[i] != 0xaa || i >= sizeof(req))
			bytes[i] = data[i];
	if (with & 0x80) /* the last client's name */
		memcpy(bytes + offsetof(struct keeper_req, id), id, sizeof(*id));
	if (with & 0x40 && size >= sizeof(req) && u.r.req.op == KEEPER_ADD) {
		size = sizeof(u.r);
		fds[n++] = dup(kinds[0]);
		fds[n++] = dup(looked[0]);
		with = 0;
		if (fds_send(looked[1], "", 1, kinds + 1, 2, 0) != 1)
			abort();
	}
	if (with & 0x40 && size >= sizeof(req) && u.r.req.op == KEEPER_LOOK) {
		u.look.req.num = 1;
		u.look.range[0] = (struct keeper_range){ vma.start, vma.end };
		size = sizeof(req) + sizeof(u.look.range[0]);
	}
	for (; n < (with & 3u); n++)
		fds[n] = dup(kinds[(n + (with >> 2)) % 10]);
	fd = keeper_serve(bytes, size, fds, n, &resp);
	if (!resp.status && resp.id)
		*id = resp.id;
	take_looked();
	if (fd < 0)
		return;
	/* what was mapped, or the socket that was to be held */
	if (fstat(fd, &st) ||
	    (S_ISSOCK(st.st_mode) ? st.st_ino != listener : st.st_ino != vma.inode))
		abort();
	close(fd);
}

/* What is found is a path that was there. */
static void parse(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	const char *path;

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	path = cgroup_parse(text);
	if (path && (*path != '/' || strlen(path) >= CGROUP_MAX || strchr(path, '\n') ||
		     cgroup_within(path, "/freeflow/x") !=
			     (!strcmp(path, "/freeflow/x") || !strncmp(path, "/freeflow/x/", 12))))
		abort();
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct keeper_req begin = { .op = KEEPER_BEGIN };
	unsigned before = open_fds();
	struct keeper_resp resp;
	uint32_t id = 0;

	parse(data, size);
	while (size > 2) {
		size_t len = data[1] < size - 2 ? data[1] : size - 2;

		request(data + 2, len, data[0], &id);
		data += 2 + len;
		size -= 2 + len;
	}
	keeper_serve(&begin, sizeof(begin), NULL, 0, &resp);
	held_clear();
	if (open_fds() != before)
		abort();
	return 0;
}
