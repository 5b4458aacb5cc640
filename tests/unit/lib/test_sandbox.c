/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_sandbox.c - what each kind of thread can still do, and what becomes of what it cannot. Each
 * case is a child process that enters the sandbox for real.
 */
#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ffr/lib/sandbox.h"
#include "ffr/mem/shadow.h"

/* In a child: a check that fails says which one. */
#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			dprintf(STDERR_FILENO, "line %d: %s: %m\n", __LINE__, #cond);              \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
#define REFUSED(call) MUST((errno = 0, (call) == -1) && errno == EPERM)

static char dir[] = "/tmp/test_sandbox.XXXXXX";
static char said[8192];		 /* the child's standard error */
static enum sandbox_mode mode;	 /* of children */
static bool unix_peers;		 /* likewise */
static char status_before[4096]; /* /proc/PID/status of a child that has entered */
static pid_t parent;
static int ready[2], go[2], report[2]; /* pipes */

static int setup(void **state)
{
	(void)state;
	mode = SANDBOX_ON;
	return 0;
}

static void read_status(pid_t pid)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	n = read(fd, status_before, sizeof(status_before) - 1);
	assert_true(n > 0);
	status_before[n] = '\0';
	close(fd);
}

/* What SANDBOX_OPENER may open, by these addresses. */
static const char by_handle[] = "/proc/self/fd/100", null_path[] = "/dev/null";
static const char *const openable[] = { by_handle, null_path };

/* What a child that entered does; ends with its exit status, or 256 + the signal's number. */
static int child(enum sandbox_kind kind, void (*fn)(void))
{
	struct sandbox_conf conf = { .mode = mode,
				     .keeper = kind == SANDBOX_KEEPER || kind == SANDBOX_OPENER,
				     .paths = openable,
				     .num_paths = 2,
				     .unix_peers = unix_peers,
				     .store = { .dirs = { dir }, .num_dirs = 1 } };
	size_t len = 0;
	ssize_t n;
	int status;
	char c;
	pid_t pid;

	parent = getpid();
	assert_false(pipe(ready) || pipe(go) || pipe(report));
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(report[1], STDERR_FILENO);
		close(report[1]);
		if (sandbox_prepare(&conf) || sandbox_enter(kind))
			_exit(2);
		MUST(write(ready[1], "r", 1) == 1 && read(go[0], &c, 1) == 1);
		fn();
		_exit(0);
	}
	close(report[1]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	read_status(pid);
	assert_int_equal(write(go[1], "g", 1), 1);
	while ((n = read(report[0], said + len, sizeof(said) - 1 - len)) > 0)
		len += (size_t)n;
	said[len] = '\0';
	close(report[0]);
	close(ready[0]);
	close(go[0]);
	close(go[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static void succeeds(enum sandbox_kind kind, void (*fn)(void))
{
	int status = child(kind, fn);

	if (status)
		fail_msg("status %d: %s", status, said);
}

static uint64_t status_hex(const char *field)
{
	const char *at = strstr(status_before, field);

	assert_non_null(at);
	return strtoull(at + strlen(field), NULL, 16);
}

static unsigned lines_with(const char *what)
{
	unsigned n = 0;

	for (const char *at = said; (at = strstr(at, what)); at += strlen(what))
		n++;
	return n;
}

#define BIT(cap) (1ull << (cap))

static void nothing(void)
{
}

static void need_filters(void)
{
#ifdef __SANITIZE_ADDRESS__
	print_message("a sanitizer needs calls of its own: there are no filters\n");
	skip();
#endif
}

/* ---- filters ----------------------------------------------------------------------------------- */

static void *opens(void *arg)
{
	REFUSED(open("/dev/null", O_RDONLY));
	return arg;
}

static void fast_refuses(void)
{
	REFUSED(open("/etc/hostname", O_RDONLY));
	REFUSED(open("/proc/self/mem", O_RDWR));
	REFUSED(socket(AF_INET, SOCK_STREAM, 0));
	REFUSED(socket(AF_UNIX, SOCK_STREAM, 0));
	REFUSED(connect(0, NULL, 0));
	REFUSED(kill(getppid(), 0));
	REFUSED(unlink("/tmp/none"));
	REFUSED(memfd_create("none", 0));
	REFUSED(fork());
	REFUSED(syscall(SYS_sched_setattr, 1, NULL, 0));
	REFUSED(syscall(SYS_tgkill, getppid(), getppid(), SIGTERM));
	REFUSED(syscall(SYS_io_uring_setup, 1, NULL));
	REFUSED(syscall(SYS_userfaultfd, 0));
	REFUSED(ioctl(0, TIOCSTI, ""));
	MUST(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
		     MAP_FAILED &&
	     errno == EPERM);
}

static void fast_works(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int e = epoll_create1(EPOLL_CLOEXEC), bell = eventfd(0, EFD_CLOEXEC);
	uint64_t one = 1;
	cpu_set_t cpus;
	pthread_t t;
	void *p;

	MUST(e >= 0 && bell >= 0 && !epoll_ctl(e, EPOLL_CTL_ADD, bell, &ev));
	MUST(write(bell, &one, sizeof(one)) == sizeof(one) && epoll_wait(e, &ev, 1, 0) == 1);
	p = malloc(64 << 20);
	MUST(p);
	memset(p, 1, 64 << 20);
	free(p);
	MUST(!sched_getaffinity(0, sizeof(cpus), &cpus) &&
	     !sched_setaffinity(0, sizeof(cpus), &cpus));
	/* the control thread's class, as far as the filter is concerned (ffr/fast/rescue.c) */
	MUST(syscall(SYS_sched_setattr, getpid(), NULL, 0) && errno == EINVAL);
	/* threads can be started, and are in the same filter */
	MUST(!pthread_create(&t, NULL, opens, NULL) && !pthread_join(t, NULL));
}

/*
 * In a memory pool of its own, which glibc then makes smaller. Before it first does that it reads
 * /proc/sys/vm/overcommit_memory, on whatever thread that is.
 */
static void *gives_memory_back(void *arg)
{
	void *volatile p[64];

	for (int i = 0; i < 64; i++)
		p[i] = malloc(100000);
	for (int i = 64; i-- > 0;)
		free(p[i]);
	return arg;
}

static void fast_gives_memory_back(void)
{
	pthread_t t;

	MUST(!pthread_create(&t, NULL, gives_memory_back, NULL));
	MUST(!pthread_join(t, NULL));
}

static void fast_thread_opens_nothing(void **state)
{
	(void)state;
	need_filters();
	succeeds(SANDBOX_FAST, fast_gives_memory_back);
	assert_int_equal(lines_with("may not call"), 0);
}

static void fast_thread(void **state)
{
	(void)state;
	need_filters();
	succeeds(SANDBOX_FAST, fast_refuses);
	succeeds(SANDBOX_FAST, fast_works);
	assert_int_equal(lines_with("the fast thread may not call openat"), 1);
}

static void control_thread_body(void)
{
	int fd;

	REFUSED(socket(AF_PACKET, SOCK_RAW, 0));
	REFUSED(socket(AF_VSOCK, SOCK_STREAM, 0));
	REFUSED(fork());
	REFUSED(ioctl(0, TIOCSTI, ""));
#ifdef SYS_rename /* arm64 has neither by that name */
	REFUSED(syscall(SYS_rename, "/tmp/a", "/tmp/b"));
	REFUSED(syscall(SYS_symlink, "/tmp/a", "/tmp/b"));
#endif
	REFUSED(mprotect((void *)((uintptr_t)control_thread_body & ~4095ull), 4096,
			 PROT_READ | PROT_WRITE | PROT_EXEC));
	fd = open("/dev/null", O_RDONLY);
	MUST(fd >= 0);
	close(fd);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	MUST(fd >= 0);
	close(fd);
	fd = memfd_create("rings", MFD_CLOEXEC);
	MUST(fd >= 0 && !ftruncate(fd, 4096));
}

static void control_thread(void **state)
{
	(void)state;
	need_filters();
	succeeds(SANDBOX_CONTROL, control_thread_body);
}

static struct sockaddr_storage unix_addr, ip_addr; /* of sockets that listen */

/* On a socket that this thread could have been handed: one of any family. */
static int connect_to(int family, const struct sockaddr_storage *sa, socklen_t len)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), n, err;

	MUST(fd >= 0);
	n = connect(fd, (const struct sockaddr *)sa, len);
	err = errno;
	close(fd);
	errno = err;
	return n;
}

static void connects_by_ip_only(void)
{
	MUST(!connect_to(AF_INET, &ip_addr, sizeof(ip_addr)));
	REFUSED(connect_to(AF_UNIX, &unix_addr, sizeof(struct sockaddr_un)));
	REFUSED(connect_to(AF_UNIX, &unix_addr, sizeof(struct sockaddr_in)));
	MUST(connect_to(AF_UNIX, &unix_addr, sizeof(unix_addr)) && errno == EINVAL);
}

static void connects(void)
{
	MUST(!connect_to(AF_INET, &ip_addr, sizeof(struct sockaddr_in)));
	MUST(!connect_to(AF_UNIX, &unix_addr, sizeof(struct sockaddr_un)));
}

static int listen_at(struct sockaddr_storage *sa, socklen_t len)
{
	int fd = socket(sa->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)sa, len), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)sa, &len), 0);
	return fd;
}

static void no_unix_socket_of_the_host(void **state)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&unix_addr;
	struct sockaddr_in *in = (struct sockaddr_in *)&ip_addr;
	int a, b;

	(void)state;
	need_filters();
	un->sun_family = AF_UNIX;
	snprintf(un->sun_path, sizeof(un->sun_path), "%s/listens", dir);
	a = listen_at(&unix_addr, sizeof(*un));
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	b = listen_at(&ip_addr, sizeof(*in));
	succeeds(SANDBOX_CONTROL, connects_by_ip_only);
	succeeds(SANDBOX_STORE, connects_by_ip_only);
	succeeds(SANDBOX_FFO, connects);
	unix_peers = true;
	succeeds(SANDBOX_CONTROL, connects);
	succeeds(SANDBOX_STORE, connects);
	unix_peers = false;
	close(a);
	close(b);
	unlink(un->sun_path);
}

static void pool_body(void)
{
	REFUSED(open("/dev/null", O_RDONLY));
	REFUSED(socket(AF_UNIX, SOCK_STREAM, 0));
	REFUSED(syscall(SYS_pread64, 0, NULL, 0, 0));
	REFUSED(accept(0, NULL, NULL));
}

static void pool_thread(void **state)
{
	(void)state;
	need_filters();
	succeeds(SANDBOX_POOL, pool_body);
}

static bool has_landlock;

static void nic_body(void)
{
	MUST(!close(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0)));
	MUST(!close(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)));
	MUST(!close(inotify_init1(IN_CLOEXEC)));
	/* files are Landlock's to refuse: without a folder for devices there is none */
	if (has_landlock)
		MUST(open("/dev/null", O_RDONLY) < 0 && errno == EACCES);
	REFUSED(unlink("/tmp/test_sandbox.none"));
	REFUSED(socket(AF_UNIX, SOCK_STREAM, 0));
	REFUSED(accept(0, NULL, NULL));
	REFUSED(listen(0, 1));
}

/* libibverbs, which it calls, asks for neighbours and looks what devices there are. */
static void nic_thread(void **state)
{
	int fd = landlock_ruleset(NULL);

	(void)state;
	need_filters();
	has_landlock = fd >= 0;
	if (fd >= 0)
		close(fd);
	succeeds(SANDBOX_NIC, nic_body);
}

static void twice(void)
{
	REFUSED(open("/dev/null", O_RDONLY));
	REFUSED(open("/dev/null", O_RDONLY));
	REFUSED(kill(getppid(), 0));
}

static void log_tells_once(void **state)
{
	(void)state;
	need_filters();
	succeeds(SANDBOX_FAST, twice);
	assert_int_equal(lines_with("the fast thread may not call openat ("), 1);
	assert_int_equal(lines_with("the fast thread may not call kill ("), 1);
}

static void future_call(void)
{
	MUST(syscall(999) == -1 && errno == ENOSYS);
	/* its flags are behind a pointer: libc falls back to clone() */
	MUST(syscall(SYS_clone3, NULL, 0) == -1 && errno == ENOSYS);
}

static void sleeps(void)
{
	const struct timespec t = { .tv_nsec = 1 };

	MUST(!clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL));
}

static void every_thread_may_sleep(void **state)
{
	(void)state;
	need_filters();
	for (int kind = 0; kind < SANDBOX_NUM_KINDS; kind++)
		succeeds(kind, sleeps);
}

static void newer_libc_falls_back(void **state)
{
	(void)state;
	need_filters();
	succeeds(SANDBOX_FAST, future_call);
}

static void execs(void)
{
	execl("/bin/true", "true", NULL);
}

static void traces(void)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static void enters(void)
{
	setns(-1, 0);
}

static void becomes(void)
{
	syscall(SYS_setuid, 0);
}

static void intruder_ends_the_process(void **state)
{
	static const struct {
		void (*fn)(void);
		const char *call;
	} cases[] = {
		{ execs, "execve" },
		{ traces, "ptrace" },
		{ enters, "setns" },
		{ becomes, "setuid" },
	};

	(void)state;
	need_filters();
	for (int kind = 0; kind < SANDBOX_NUM_KINDS; kind++) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			char line[64];

			snprintf(line, sizeof(line), "thread called %s: this process was broken",
				 cases[i].call);
			assert_int_equal(child((enum sandbox_kind)kind, cases[i].fn), SANDBOX_EXIT);
			assert_int_equal(lines_with(line), 1);
		}
	}
}

#ifdef __x86_64__
/* Number 20 is getpid() of 32-bit programs, and writev() of others. */
static void calls_as_32_bit(void)
{
	long r;

	signal(SIGSEGV, SIG_DFL); /* cmocka's handler would go on with the next test */
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory");
}

/* The kernel may know no such programs: then it is a fault of the thread's own. */
static void numbers_of_another_architecture(void **state)
{
	(void)state;
	need_filters();
	assert_in_set(child(SANDBOX_FAST, calls_as_32_bit),
		      ((const uintmax_t[]){ 256 + SIGSYS, 256 + SIGSEGV }), 2);
}
#endif

static void aborts(void)
{
	abort();
}

/* As the runner that meets a bad pointer: not again and again, with the lock held. */
static void meets_a_bad_pointer(void)
{
	signal(SIGSEGV, SIG_DFL); /* this test's parent has another */
	MUST(!sigbus_install());
	*(volatile int *)(uintptr_t)getpid() = 1;
}

static void a_fault_of_ones_own_ends_the_process(void **state)
{
	(void)state;
	need_filters();
	assert_int_equal(child(SANDBOX_FAST, meets_a_bad_pointer), 256 + SIGSEGV);
	assert_non_null(strstr(said, "ffr: SIGSEGV at 0x"));
	assert_non_null(strstr(said, ", ffr+0x"));
}

static void abort_works(void **state)
{
	(void)state;
	need_filters();
	assert_int_equal(child(SANDBOX_FAST, aborts), 256 + SIGABRT);
}

/* ---- files ------------------------------------------------------------------------------------- */

static void store_body(void)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/ffo.db", dir);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	MUST(fd >= 0 && write(fd, "x", 1) == 1 && !ftruncate(fd, 0) && !fsync(fd));
	MUST(!unlink(path));
	MUST(open("/etc/hostname", O_RDONLY) < 0 && errno == EACCES);
	MUST(open("/tmp/test_sandbox.elsewhere", O_RDWR | O_CREAT, 0600) < 0 && errno == EACCES);
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)parent);
	MUST(open(path, O_RDONLY) >= 0);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)parent);
	MUST(open(path, O_RDWR) < 0 && errno == EACCES);
}

/* Libraries that try have another way: no trap, and no line. */
static void asks_in_vain(void)
{
	MUST(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0) < 0 && errno == EAFNOSUPPORT);
	MUST(syscall(SYS_io_uring_setup, 1, NULL) < 0 && errno == ENOSYS);
}

static void refused_quietly(void **state)
{
	(void)state;
	need_filters();
	succeeds(SANDBOX_STORE, asks_in_vain);
	assert_int_equal(lines_with("may not call"), 0);
	succeeds(SANDBOX_FFO, asks_in_vain);
	assert_int_equal(lines_with("may not call"), 0);
}

static void store_has_its_folder(void **state)
{
	int fd;

	(void)state;
	need_filters();
	fd = landlock_ruleset(NULL);
	if (fd < 0) {
		print_message("no Landlock in this kernel\n");
		skip();
	}
	close(fd);
	succeeds(SANDBOX_STORE, store_body);
	succeeds(SANDBOX_FFO, store_body);
}

/* ---- a call on the way in --------------------------------------------------------------------------- */

static int called;

/* The rights are what they will be, but for the filter. */
static int on_the_way(void *arg)
{
	int fd;

	MUST(arg == &called);
	called++;
	MUST(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	MUST(!capng_get_caps_process() &&
	     !capng_have_capability(CAPNG_EFFECTIVE, CAP_DAC_OVERRIDE));
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	MUST(fd >= 0 && !close(fd));
	return 0;
}

static int refuses(void *arg)
{
	(void)arg;
	return -ENODEV;
}

/* In a child: its exit status. */
static int enter_with(int (*call)(void *arg))
{
	struct sandbox_conf conf = { .mode = SANDBOX_ON };
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		MUST(!sandbox_prepare(&conf));
		if (sandbox_enter_with(SANDBOX_FAST, call, &called) == -ENODEV)
			_exit(3);
		MUST(called == 1);
		REFUSED(socket(AF_UNIX, SOCK_STREAM, 0));
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static void a_call_before_the_filter(void **state)
{
	(void)state;
	need_filters();
	assert_int_equal(enter_with(on_the_way), 0);
	assert_int_equal(enter_with(refuses), 3);
}

/* Without a sandbox it is called as well. */
static void a_call_without_a_sandbox(void **state)
{
	(void)state;
	assert_int_equal(sandbox_enter_with(SANDBOX_FAST, refuses, NULL), -ENODEV);
}

/* ---- capabilities ------------------------------------------------------------------------------ */

static void capabilities(void **state)
{
	static const uint64_t keeps[SANDBOX_NUM_KINDS] = {
		[SANDBOX_CONTROL] = BIT(CAP_SYS_RESOURCE),
		[SANDBOX_FAST] = BIT(CAP_SYS_NICE),
		[SANDBOX_KEEPER] = BIT(CAP_SYS_PTRACE) | BIT(CAP_DAC_OVERRIDE) |
				   BIT(CAP_CHECKPOINT_RESTORE),
		[SANDBOX_OPENER] = BIT(CAP_DAC_OVERRIDE),
	};
	uint64_t had;

	(void)state;
	read_status(getpid());
	had = status_hex("CapPrm:\t");
	for (int kind = 0; kind < SANDBOX_NUM_KINDS; kind++) {
		succeeds((enum sandbox_kind)kind, nothing);
		assert_int_equal(status_hex("CapEff:\t"), keeps[kind] & had);
		assert_int_equal(status_hex("CapPrm:\t"), keeps[kind] & had);
		assert_int_equal(status_hex("CapInh:\t"), 0);
		assert_int_equal(status_hex("CapAmb:\t"), 0);
		assert_int_equal(status_hex("NoNewPrivs:\t"), 1);
		if (had & BIT(CAP_SETPCAP))
			assert_int_equal(
				status_hex("CapBnd:\t") &
					~(kind == SANDBOX_KEEPER || kind == SANDBOX_OPENER ?
						  keeps[SANDBOX_KEEPER] | BIT(CAP_SYS_ADMIN) :
						  keeps[SANDBOX_CONTROL] | keeps[SANDBOX_FAST]),
				0);
	}
}

/* A process of another user with a file mapped that only that user may open. */
static pid_t other_pid;
static uint8_t *other_map;
#define OTHER_LEN (16 * 4096ul)

static void other_start(void)
{
	int fd, told[2];

	assert_int_equal(pipe(told), 0);
	other_pid = fork();
	assert_true(other_pid >= 0);
	if (!other_pid) {
		MUST(!syscall(SYS_setresgid, 1000, 1000, 1000) &&
		     !syscall(SYS_setresuid, 1000, 1000, 1000));
		fd = memfd_create("other", 0);
		MUST(fd >= 0 && !fchmod(fd, 0600) && !ftruncate(fd, OTHER_LEN));
		other_map = mmap(NULL, OTHER_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
		MUST(other_map != MAP_FAILED && !prctl(PR_SET_DUMPABLE, 1));
		MUST(write(told[1], &other_map, sizeof(other_map)) == sizeof(other_map));
		for (;;)
			pause();
	}
	assert_int_equal(read(told[0], &other_map, sizeof(other_map)), sizeof(other_map));
	close(told[0]);
	close(told[1]);
}

static int open_of_other(const char *name, int flags)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)other_pid, name);
	return open(path, flags);
}

static int open_mapping(int flags)
{
	char name[64];

	snprintf(name, sizeof(name), "map_files/%lx-%lx", (unsigned long)other_map,
		 (unsigned long)other_map + OTHER_LEN);
	return open_of_other(name, flags);
}

static void names_files(void)
{
	MUST(open_mapping(O_PATH | O_CLOEXEC) >= 0);
	MUST(open_of_other("mem", O_PATH | O_CLOEXEC) >= 0);
}

/* Its capabilities would let it. */
static void opens_no_file(void)
{
	char path[128];
	int handle = open("/etc/shadow", O_PATH | O_CLOEXEC);

	MUST(handle >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", handle);
	REFUSED(open(path, O_RDONLY | O_CLOEXEC));
	MUST(read(handle, path, 1) < 0 && errno == EBADF);
	REFUSED(open("/etc/shadow", O_RDONLY | O_CLOEXEC));
	REFUSED(open("/proc/self/mem", O_RDWR | O_CLOEXEC));
	REFUSED(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	REFUSED(open("/dev/null", O_RDWR | O_CLOEXEC));
	REFUSED((int)syscall(SYS_openat2, AT_FDCWD, "/dev/null", NULL, 0));
	REFUSED((int)syscall(SYS_open_by_handle_at, handle, NULL, O_RDONLY));
	snprintf(path, sizeof(path), "%s/keeper", dir);
	REFUSED(open(path, O_RDWR | O_CREAT, 0600));
	REFUSED(open(dir, O_RDWR | O_TMPFILE, 0600));
	REFUSED(unlink(path));
	REFUSED(mkdir(path, 0700));
	REFUSED(truncate("/dev/null", 0));
	REFUSED(chmod("/dev/null", 0666));
}

static void is_refused(const void *p)
{
	MUST(p == MAP_FAILED && errno == EPERM);
}

/* It opens two strings, by their addresses, and cannot change what is there, nor what is mapped. */
static void opens_what_it_was_given(void)
{
	void *page = (void *)((uintptr_t)by_handle & ~4095ul);
	char copy[] = "/dev/null";
	int fd;

	MUST(!close(open(null_path, O_RDWR | O_CLOEXEC)));
	MUST((fd = open(by_handle, O_RDONLY | O_CLOEXEC)) < 0 && errno == ENOENT);
	REFUSED(open(copy, O_RDWR | O_CLOEXEC));
	REFUSED(open(by_handle + 1, O_RDONLY | O_CLOEXEC));
	REFUSED(open("/etc/shadow", O_RDONLY | O_CLOEXEC));
	REFUSED(open("/etc/shadow", O_PATH | O_CLOEXEC));
	REFUSED(open(null_path, O_RDWR | O_TRUNC));
	REFUSED(open(null_path, O_RDWR | O_CREAT, 0600));
	REFUSED((int)syscall(SYS_openat2, AT_FDCWD, null_path, NULL, 0));
	REFUSED((int)syscall(SYS_dup3, 0, 100, 0));
	REFUSED(mprotect(page, 4096, PROT_READ | PROT_WRITE));
	REFUSED(munmap(page, 4096));
	REFUSED(madvise(page, 4096, MADV_DONTNEED));
	is_refused(mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			-1, 0));
	is_refused(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	is_refused(mremap(page, 4096, 8192, MREMAP_MAYMOVE));
	REFUSED((int)syscall(SYS_shmat, 0, page, SHM_REMAP));
	REFUSED((int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
	REFUSED(socket(AF_UNIX, SOCK_STREAM, 0));
	REFUSED(connect(0, NULL, 0));
	REFUSED(kill(getppid(), 0));
	REFUSED(unlink(null_path));
}

static void reaches_nothing(void)
{
	MUST(open_mapping(O_RDWR) < 0 && errno == EACCES);
	MUST(open_of_other("mem", O_RDWR) < 0);
	MUST(open_of_other("maps", O_RDONLY) < 0);
}

static void keeper_alone_reaches_clients_of_other_users(void **state)
{
	(void)state;
	if (geteuid()) {
		print_message("not root\n");
		skip();
	}
	other_start();
	succeeds(SANDBOX_KEEPER, names_files);
	succeeds(SANDBOX_CONTROL, reaches_nothing);
	kill(other_pid, SIGKILL);
	waitpid(other_pid, NULL, 0);
}

static void keeper_opens_no_file(void **state)
{
	(void)state;
	need_filters();
	succeeds(SANDBOX_KEEPER, opens_no_file);
}

static void opener_names_no_file(void **state)
{
	(void)state;
	need_filters();
	succeeds(SANDBOX_OPENER, opens_what_it_was_given);
}

/* ---- modes ------------------------------------------------------------------------------------- */

static void opens_null(void)
{
	MUST(open("/dev/null", O_RDONLY) >= 0);
}

static void mode_log(void **state)
{
	(void)state;
	mode = SANDBOX_LOG;
	succeeds(SANDBOX_FAST, opens_null);
	assert_int_equal(status_hex("NoNewPrivs:\t"), 1);
	assert_int_equal(lines_with("may not call"), 0);
}

static void mode_off(void **state)
{
	uint64_t had;

	(void)state;
	read_status(getpid());
	had = status_hex("CapEff:\t");
	mode = SANDBOX_OFF;
	succeeds(SANDBOX_FAST, opens_null);
	assert_int_equal(status_hex("NoNewPrivs:\t"), 0);
	assert_int_equal(status_hex("Seccomp:\t"), 0);
	assert_int_equal(status_hex("CapEff:\t"), had);
	assert_int_equal(lines_with("sandbox = off"), 1);
}

static void names_of_modes(void **state)
{
	(void)state;
	assert_int_equal(sandbox_mode_parse("on"), SANDBOX_ON);
	assert_int_equal(sandbox_mode_parse("log"), SANDBOX_LOG);
	assert_int_equal(sandbox_mode_parse("off"), SANDBOX_OFF);
	assert_int_equal(sandbox_mode_parse("yes"), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(fast_thread, setup),
		cmocka_unit_test_setup(fast_thread_opens_nothing, setup),
		cmocka_unit_test_setup(control_thread, setup),
		cmocka_unit_test_setup(no_unix_socket_of_the_host, setup),
		cmocka_unit_test_setup(pool_thread, setup),
		cmocka_unit_test_setup(nic_thread, setup),
		cmocka_unit_test_setup(log_tells_once, setup),
		cmocka_unit_test_setup(every_thread_may_sleep, setup),
		cmocka_unit_test_setup(newer_libc_falls_back, setup),
		cmocka_unit_test_setup(intruder_ends_the_process, setup),
		cmocka_unit_test_setup(a_fault_of_ones_own_ends_the_process, setup),
#ifdef __x86_64__
		cmocka_unit_test_setup(numbers_of_another_architecture, setup),
#endif
		cmocka_unit_test_setup(abort_works, setup),
		cmocka_unit_test_setup(refused_quietly, setup),
		cmocka_unit_test_setup(store_has_its_folder, setup),
		cmocka_unit_test_setup(a_call_before_the_filter, setup),
		cmocka_unit_test_setup(a_call_without_a_sandbox, setup),
		cmocka_unit_test_setup(capabilities, setup),
		cmocka_unit_test_setup(keeper_alone_reaches_clients_of_other_users, setup),
		cmocka_unit_test_setup(keeper_opens_no_file, setup),
		cmocka_unit_test_setup(opener_names_no_file, setup),
		cmocka_unit_test_setup(mode_log, setup),
		cmocka_unit_test_setup(mode_off, setup),
		cmocka_unit_test_setup(names_of_modes, setup),
	};
	int failed;

	if (!mkdtemp(dir))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(dir);
	return failed;
}
