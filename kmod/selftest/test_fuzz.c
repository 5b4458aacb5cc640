// SPDX-License-Identifier: GPL-2.0
/*
 * test_fuzz.c - calls with any arguments by several threads, on several files, while processes come,
 * change and go; and the module loaded and unloaded with users. What is tested is that the kernel and the
 * process that is mapped stay whole; the kernel's own checks and log say the rest.
 */
#include "ft.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWNERS	3
#define N	(32 * PAGE)
#define THREADS 4

static struct owner owners[OWNERS];
static uint64_t region[OWNERS];
static double until;

static uint64_t any(unsigned int *seed)
{
	uint64_t r = rand_r(seed);
	const uint64_t odd[] = { 0,	     1,		 PAGE - 1,	PAGE,
				 1ULL << 31, 1ULL << 32, 1ULL << 47,	(1ULL << 47) - PAGE,
				 1ULL << 48, 1ULL << 62, 1ULL << 63,	~0ULL,
				 -PAGE,	     -2 * PAGE,	 0x7ffffffff000 };

	switch (r % 5) {
	case 0:
		return odd[rand_r(seed) % (sizeof(odd) / sizeof(odd[0]))];
	case 1:
		return rand_r(seed) % 64;
	case 2:
		return region[rand_r(seed) % OWNERS] + rand_r(seed) % (2 * N);
	case 3:
		return rand_r(seed) % N;
	}
	return r << 33 ^ (uint64_t)rand_r(seed) << 13 ^ rand_r(seed);
}

/* Mostly a call that may work, with something wrong in it now and then. */
static void one_call(int fd, unsigned int *seed)
{
	static const unsigned long calls[] = { FFMEM_HELLO, FFMEM_ATTACH, FFMEM_DETACH,
					       FFMEM_MAP,   FFMEM_UNMAP,  FFMEM_POPULATE,
					       FFMEM_STAT,  FFMEM_EVENT };
	unsigned long cmd = calls[rand_r(seed) % 8];
	struct owner *w = &owners[rand_r(seed) % OWNERS];
	uint64_t room[32];
	union {
		uint32_t w[128];
		uint64_t q[64];
		struct ffmem_attach attach;
		struct ffmem_map map;
		struct ffmem_populate populate;
	} a;

	for (int i = 0; i < 32; i++)
		room[i] = a.q[i] = any(seed);
	if (rand_r(seed) % 4) {
		a.w[1] = 0;
		if (cmd == FFMEM_ATTACH)
			a.attach = (struct ffmem_attach){ .pidfd = w->pidfd, .mem_fd = w->mem_fd };
		else if (cmd == FFMEM_MAP)
			a.map = (struct ffmem_map){ .process = rand_r(seed) % 64,
						    .flags = rand_r(seed) % 8,
						    .address = region[rand_r(seed) % OWNERS],
						    .length = rand_r(seed) % N + 1 };
		else if (cmd == FFMEM_POPULATE)
			a.populate = (struct ffmem_populate){ .address = room[0],
							      .length = room[1] % N,
							      .flags = rand_r(seed) % 4 };
		else
			a.w[0] = rand_r(seed) % 64;
	}
	/* A size that isn't the call's, too. */
	if (rand_r(seed) % 16 == 0)
		cmd = _IOC(rand_r(seed) % 4, FFMEM_IOC, rand_r(seed) % 10, rand_r(seed) % 200);
	/* Not our own numbers of files: an eventfd would be any of the program's. */
	if (_IOC_NR(cmd) == _IOC_NR(FFMEM_EVENT))
		a.w[0] = -1;
	ioctl(fd, cmd, rand_r(seed) % 32 ? (void *)&a : (void *)any(seed));
}

struct fuzz {
	int fd;
	unsigned int seed;
	uint8_t *room; /* 64 pages of addresses for views */
};

static void *fuzz_run(void *arg)
{
	struct fuzz *f = arg;
	unsigned long calls = 0;

	while (check_now() < until) {
		uint64_t at = rand_r(&f->seed) % 48 * PAGE, n = (rand_r(&f->seed) % 15 + 1) * PAGE;
		uint64_t offset = (uint64_t)(rand_r(&f->seed) % 64) << 48;
		int prot = rand_r(&f->seed) % 4;

		for (int i = 0; i < 10; i++, calls++)
			one_call(f->fd, &f->seed);
		switch (rand_r(&f->seed) % 6) {
		case 0:
		case 1:
			if (mmap(f->room + at, n, prot, MAP_SHARED | MAP_FIXED, f->fd,
				 rand_r(&f->seed) % 4 ?
					 offset :
					 any(&f->seed) & -PAGE & ~(1ULL << 63)) == MAP_FAILED)
				mmap(f->room + at, n, PROT_READ,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			break;
		case 2:
			mprotect(f->room + at, n, prot);
			break;
		case 3:
			madvise(f->room + at, n, MADV_DONTNEED);
			break;
		case 4: {
			struct ffmem_populate p = { .address = (uint64_t)f->room + at,
						    .length = n,
						    .flags = rand_r(&f->seed) % 4 };

			ioctl(f->fd, FFMEM_POPULATE, &p);
			break;
		}
		}
		for (int i = 0; i < 8; i++)
			ft_sigbus(f->room + rand_r(&f->seed) % 64 * PAGE, rand_r(&f->seed) % 2);
	}
	return (void *)calls;
}

static void on_segv(int signal)
{
	(void)signal;
	if (!ft_bus)
		_exit(98);
	siglongjmp(*ft_bus, 1);
}

/* A router of its own, with two files that its threads share. */
static void fuzz_router(unsigned int seed)
{
	struct sigaction a = { .sa_handler = on_segv, .sa_flags = SA_NODEFER };
	struct fuzz f[THREADS];
	pthread_t thread[THREADS];
	int fds[2] = { ft_open(), ft_open() };
	unsigned long calls = 0;
	void *n;

	sigaction(SIGSEGV, &a, NULL);
	for (int i = 0; i < THREADS; i++) {
		f[i] = (struct fuzz){ fds[i % 2], seed + i,
				      mmap(NULL, 64 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS,
					   -1, 0) };
		CHECK(!pthread_create(&thread[i], NULL, fuzz_run, &f[i]));
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &n);
		calls += (unsigned long)n;
	}
	printf("  router: %lu calls\n", calls);
	_exit(0);
}

void test_fuzz(void)
{
	double seconds = atof(getenv("FT_FUZZ") ?: "15");
	unsigned int seed = getenv("FT_SEED") ? atoi(getenv("FT_SEED")) :
						getpid() ^ (int)(check_now() * 1e3);
	pid_t routers[3];
	int status, turn = 0;

	printf("  seed %u\n", seed);
	for (int i = 0; i < OWNERS; i++) {
		owner_start(&owners[i]);
		region[i] = own_mmap(&owners[i], 2 * N, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, NULL);
	}
	until = check_now() + seconds;
	for (int i = 0; i < 3; i++) {
		routers[i] = fork();
		if (!routers[i])
			fuzz_router(seed + 100 * i);
	}
	/* One owner is unsettled, and one router is killed and begun again, for as long as that lasts. */
	while (check_now() < until) {
		EXPECT(own(&owners[0], OWN_CHURN, region[0], N, 200,
			   CHURN_PROTECT | CHURN_DISCARD | CHURN_REMAP | CHURN_PAGEOUT |
				   CHURN_FORK),
		       0);
		own_sys(&owners[1], SYS_munmap, region[1] + turn % 32 * PAGE, PAGE, 0, 0, 0, 0);
		own_sys(&owners[1], SYS_mmap, region[1] + turn % 32 * PAGE, PAGE,
			PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		if (++turn % 5 == 0) {
			kill(routers[2], SIGKILL);
			waitpid(routers[2], NULL, 0);
			/* The killed router's children and file are gone: a process that it had ends, too. */
			kill(owners[2].pid, SIGKILL);
			routers[2] = fork();
			if (!routers[2])
				fuzz_router(seed + 1000 * turn);
		}
	}
	for (int i = 0; i < 3; i++) {
		CHECK(waitpid(routers[i], &status, 0) == routers[i]);
		CHECK(status == 0);
	}
	for (int i = 0; i < 2; i++)
		CHECK(own_status(&owners[i], "VmPin") == 0);
	for (int i = 0; i < OWNERS; i++)
		owner_stop(&owners[i]);
}

/* ---- load and unload ------------------------------------------------------------------------------ */

/* 1,000 times (FT_LOADS), each with a router that maps, and a refusal to go while it is there. */
void test_load(const char *module)
{
	int loads = atoi(getenv("FT_LOADS") ?: "1000");
	double t = check_now();
	struct owner o;
	uint64_t at;

	owner_start(&o);
	at = own_mmap(&o, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
	own(&o, OWN_FILL, at, 4 * PAGE, 1, 0);
	for (int i = 0; i < loads; i++) {
		int fd = open(module, O_RDONLY | O_CLOEXEC);
		struct view v;

		CHECK(fd >= 0 && !syscall(SYS_finit_module, fd, "", 0));
		close(fd);
		while (access("/dev/ffmem", F_OK))
			usleep(100);
		ft_fd = ft_open();
		view_make(&v, &o, at, 4 * PAGE, FFMEM_WRITE | (i % 2 ? FFMEM_PINNED : 0));
		CHECK(!ft_differ(v.p, 4 * PAGE, 1));
		CHECK(syscall(SYS_delete_module, "ffmem", O_NONBLOCK) && errno == EWOULDBLOCK);
		/* Closed, but a view holds the file, and that the module. */
		close(ft_fd);
		CHECK(syscall(SYS_delete_module, "ffmem", O_NONBLOCK) && errno == EWOULDBLOCK);
		CHECK(!ft_differ(v.p, 4 * PAGE, 1));
		CHECK(!munmap(v.base, v.length));
		/* The file's end is done on the way out of munmap(). */
		CHECK(!syscall(SYS_delete_module, "ffmem", O_NONBLOCK));
		CHECK(own_status(&o, "VmPin") == 0);
	}
	printf("load: ok, %d times in %.1f s\n", loads, check_now() - t);
	owner_stop(&o);
}
