/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* test_opener.c - ffr/keeper/opener.c: what is opened, for a keeper and for somebody who has taken one over. */
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/rig/unit/unit.h"

#include "ffr/keeper/opener.c"

static char shm[] = "/dev/shm/test_opener.XXXXXX";
static int shm_fd;

/* In a child: a check that fails says which one. */
#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			dprintf(STDERR_FILENO, "line %d: %s: %m\n", __LINE__, #cond);              \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static int setup(void **state)
{
	const struct sandbox_conf conf = { .mode = SANDBOX_ON, .keeper = true };

	(void)state;
	rio_node_allow();
	rio_node = "/dev/null";
	shm_fd = mkstemp(shm);
	return shm_fd < 0 || opener_start(&conf);
}

static int teardown(void **state)
{
	(void)state;
	return close(shm_fd) || unlink(shm);
}

static int by_path(enum what what, const char *path)
{
	int handle = open(path, O_PATH | O_CLOEXEC), fd;

	assert_true(handle >= 0);
	fd = ask(what, handle, false);
	close(handle);
	return fd;
}

static void files_of_proc(void **state)
{
	static const char *const open_to_it[] = { "/proc/self/status", "/proc/1/cgroup",
						  "/proc/self/mountinfo", "/proc" };
	static const char *const closed[] = {
		"/proc/self/mem",
		"/proc/self/maps",
		"/proc/self/environ",
		"/proc/self",
		"/proc/sys",
		"/proc/cmdline",
		"/etc/passwd",
		"/dev/null",
		"/proc/self/task",
		"/proc/self/map_files",
		"/proc/self/fd",
		"/",
		"/sys/kernel/uevent_helper",
	};
	char text[64];
	int fd;

	(void)state;
	for (size_t i = 0; i < sizeof(open_to_it) / sizeof(open_to_it[0]); i++) {
		fd = opener_proc(open_to_it[i]);
		assert_true(fd >= 0);
		assert_int_equal(fcntl(fd, F_GETFL) & (O_ACCMODE | O_PATH), O_RDONLY);
		assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
		close(fd);
	}
	for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++)
		if (!access(closed[i], F_OK))
			assert_int_equal(by_path(WHAT_PROC, closed[i]), -EACCES);
	assert_int_equal(opener_proc("/proc/self/none"), -ENOENT);
	fd = opener_proc("/proc/self/status");
	assert_true(read(fd, text, 5) == 5 && !memcmp(text, "Name:", 5));
	close(fd);
}

/* A file with such a name that is none of /proc. */
static void a_name_is_not_enough(void **state)
{
	char dir[] = "/dev/shm/test_opener.XXXXXX", path[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/status", dir);
	close(open(path, O_RDWR | O_CREAT, 0600));
	assert_int_equal(opener_proc(path), -EACCES);
	unlink(path);
	rmdir(dir);
}

static int memfd_of(uid_t uid)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, 0600) | ftruncate(fd, 4096), 0);
	if (!geteuid())
		assert_int_equal(fchown(fd, uid, uid), 0);
	return fd;
}

static void shared_memory(void **state)
{
	int mem = memfd_of(1000), fd, handle;
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", mem);
	handle = open(path, O_PATH | O_CLOEXEC);
	fd = opener_shm(handle, true);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDWR);
	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
	fd = opener_shm(handle, false);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	close(fd);
	close(handle);
	close(mem);
	fd = by_path(WHAT_SHM, shm);
	assert_true(fd >= 0);
	close(fd);
}

static void what_is_no_shared_memory(void **state)
{
	static const char *const closed[] = { "/dev/shm",	"/dev/null",	  "/etc/passwd",
					      "/proc/self/mem", "/proc/self/exe", "/" };

	(void)state;
	for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++)
		assert_int_equal(by_path(WHAT_SHM, closed[i]), -EACCES);
}

/* In this process, as where there is no keeper. */
static void the_hosts_own_files(void **state)
{
	int sock = opener, handle = open(shm, O_PATH | O_CLOEXEC), fd;
	struct stat st;

	(void)state;
	assert_int_equal(fstat(shm_fd, &st), 0);
	opener = -1;
	fd = opener_shm(handle, true);
	refused[1] = st.st_dev;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(opener_shm(handle, true), -EACCES);
	refused[1] = 0;
	close(handle);
	assert_true((fd = opener_proc("/proc/self/status")) >= 0);
	close(fd);
	opener = sock;
	/* what would be refused, if it was here */
	refused_find();
	assert_int_equal(stat("/run", &st), 0);
	assert_int_equal(refused[0], st.st_dev);
	refused[0] = refused[1] = 0;
}

static void devices(void **state)
{
	int fd = opener_device(OPENER_RIO);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK), O_RDWR | O_NONBLOCK);
	close(fd);
	fd = opener_device(OPENER_FFMEM);
	assert_true(fd >= 0 || fd == -ENOENT);
	if (fd >= 0)
		close(fd);
}

static int32_t answer_to(const void *bytes, size_t len, const int *fds, unsigned n)
{
	int32_t status;
	int fd;

	assert_int_equal(fds_send(opener, bytes, len, fds, n, 0), len);
	assert_int_equal(fds_recv(opener, &status, sizeof(status), &fd, 1, &n, 0), sizeof(status));
	assert_int_equal(n, 0);
	return status;
}

static void bad_questions(void **state)
{
	const struct question q = { .what = WHAT_SHM }, none = { .what = 99 },
			      device = { .what = WHAT_RIO };
	int fds[3] = { shm_fd, shm_fd, shm_fd }, fd;

	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(answer_to(&q, sizeof(q) - 1, fds, 1), -EINVAL);
		assert_int_equal(answer_to(&q, sizeof(q), NULL, 0), -EINVAL);
		assert_int_equal(answer_to(&device, sizeof(device), fds, 1), -EINVAL);
		assert_int_equal(answer_to(&none, sizeof(none), NULL, 0), -EINVAL);
	}
	/* of several the first one is taken, and none stays open */
	assert_int_equal(fds_send(opener, &q, sizeof(q), fds, 3, 0), sizeof(q));
	assert_int_equal(fds_recv(opener, &(int32_t){ 0 }, 4, &fd, 1, &(unsigned){ 0 }, 0), 4);
	close(fd);
	fd = by_path(WHAT_SHM, shm);
	assert_true(fd >= 0);
	close(fd);
}

static int in_child(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

/* An attacker who runs code in the keeper has the keeper's rights, filter and opener. */
static void taken_over(void)
{
	const struct sandbox_conf conf = { .mode = SANDBOX_ON, .keeper = true };
	static const char *const secrets[] = { "/etc/shadow", "/proc/1/mem", "/proc/1/environ",
					       "/proc/1/root/etc/shadow", "/proc/kcore" };
	int handle, fd;

	MUST(!opener_start(&conf) && !sandbox_prepare(&conf) && !sandbox_enter(SANDBOX_KEEPER));
	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
		handle = open(secrets[i], O_PATH | O_CLOEXEC);
		if (handle < 0)
			continue;
#ifndef __SANITIZE_ADDRESS__ /* no filters */
		MUST(open(secrets[i], O_RDONLY | O_CLOEXEC) < 0);
#endif
		for (int what = WHAT_PROC; what <= WHAT_SHM; what++)
			MUST(ask((enum what)what, handle, false) == -EACCES);
		close(handle);
	}
	fd = opener_proc("/proc/1/status");
	MUST(fd >= 0);
}

static void a_keeper_that_was_taken_over(void **state)
{
	(void)state;
	assert_int_equal(in_child(taken_over), 0);
}

static void loses_its_opener(void)
{
	const struct sandbox_conf conf = { .mode = SANDBOX_ON, .keeper = true };
	pid_t pid;

	char path[64], text[32] = "";
	FILE *f;

	MUST(!opener_start(&conf));
	MUST(ask(WHAT_RIO, -1, false) >= 0);
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(path, "re");
	MUST(f && fgets(text, sizeof(text), f));
	pid = atoi(text); /* the one child that there is */
	MUST(pid > 0 && !kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
	ask(WHAT_RIO, -1, false);
	_exit(2);
}

static void the_keeper_ends_with_it(void **state)
{
	(void)state;
	assert_int_equal(in_child(loses_its_opener), EXIT_FAILURE);
}

int main(void)
{
	return UNIT_RUN_GROUP(setup, teardown, cmocka_unit_test(files_of_proc),
			      cmocka_unit_test(a_name_is_not_enough),
			      cmocka_unit_test(shared_memory),
			      cmocka_unit_test(what_is_no_shared_memory),
			      cmocka_unit_test(the_hosts_own_files), cmocka_unit_test(devices),
			      cmocka_unit_test(bad_questions),
			      cmocka_unit_test(a_keeper_that_was_taken_over),
			      cmocka_unit_test(the_keeper_ends_with_it));
}
