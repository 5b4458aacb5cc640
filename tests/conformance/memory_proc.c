/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * memory_proc.c - operations of processes: children of each sort, other processes' access, core
 * files.
 */
#include "tests/conformance/memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>

/* ---- children -------------------------------------------------------------------------------- */

enum how { FORK, CLONE, FORK_FUNCTION };

static pid_t make_child(int how)
{
	switch (how) {
	case CLONE:
		return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	case FORK_FUNCTION:
		return _Fork();
	default:
		return fork();
	}
}

static void op_child_reads(struct area *a, int how)
{
	pid_t pid = make_child(how);

	if (!pid) {
		look(a, "reads", false);
		_exit(0);
	}
	say_end("child", pid);
}

static void op_child_writes(struct area *a, int how)
{
	pid_t pid = make_child(how);

	if (!pid) {
		if (CAUGHT(fill_quarters(a, 1, 3, CHILD)))
			say(" child-writes=signal");
		look(a, "wrote", false);
		_exit(0);
	}
	say_end("child", pid);
}

/* The child looks after its parent has written. */
static void op_parent_writes(struct area *a, int how)
{
	char byte;
	int pipes[2];
	pid_t pid;

	if (pipe(pipes)) {
		say(" pipe=%s", err_name(errno));
		return;
	}
	pid = make_child(how);
	if (!pid) {
		close(pipes[1]);
		(void)!read(pipes[0], &byte, 1);
		look(a, "reads", false);
		_exit(0);
	}
	if (CAUGHT(fill_quarters(a, 1, 3, NEW)))
		say(" parent-writes=signal");
	(void)!write(pipes[1], "", 1);
	say_end("child", pid);
	close(pipes[0]);
	close(pipes[1]);
}

static int living[2];
static pid_t living_child;

/* A child that lives on while its parent registers no more. It looks at the end, and writes. */
static void op_child_lives(struct area *a, int how)
{
	if (!say_ret("pipe", pipe(living)))
		return;
	living_child = make_child(how);
	if (!living_child) {
		char byte;

		close(living[1]);
		(void)!read(living[0], &byte, 1);
		look(a, "reads", false);
		if (CAUGHT(fill_quarters(a, 1, 3, CHILD)))
			say(" child-writes=signal");
		_exit(0);
	}
}

static void late_child_lives(struct area *a, int how)
{
	(void)how;
	if (CAUGHT(fill_quarters(a, 2, 3, NEW)))
		say(" parent-writes=signal");
	(void)!write(living[1], "", 1);
	say_end("child", living_child);
}

/* A child of a child. */
static void op_grandchild(struct area *a, int how)
{
	pid_t pid = make_child(how);

	if (!pid) {
		pid = make_child(how);
		if (!pid) {
			look(a, "grandchild", false);
			_exit(0);
		}
		say_end("grandchild", pid);
		_exit(0);
	}
	say_end("child", pid);
}

/* A child that opens the device itself, and registers what was its parent's. */
static void op_child_registers(struct area *a, int how)
{
	pid_t pid = make_child(how);
	uint8_t page[PAGE];

	if (pid) {
		say_end("child", pid);
		return;
	}
	if (dev) {
		const char *word = dev->open();
		int err = dev->reg(a->p, a->len, true);

		fill(page, CHILD, TOUCH_PAGE);
		say_rdma(" child-open=%s child-reg=%s", word, err_name(err));
		if (!err)
			say_rdma(" child-write=%s", dev->write(TOUCH_PAGE * PAGE, page));
		say_rdma(" child-seen=%s", content_of(a->p + TOUCH_PAGE * PAGE, TOUCH_PAGE));
	}
	look(a, "reads", false);
	_exit(0);
}

static int writes_in_vfork(void *arg)
{
	return CAUGHT(fill_quarters(arg, 1, 2, CHILD)) ? 3 : 0;
}

/* The child has its parent's memory, and its own stack. */
static void op_vfork_writes(struct area *a, int arg)
{
	static uint8_t stack[64 << 10] __attribute__((aligned(16)));

	(void)arg;
	say_end("child",
		clone(writes_in_vfork, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, a));
}

static void op_vfork_exec(struct area *a, int arg)
{
	pid_t pid = vfork();

	(void)a;
	(void)arg;
	if (!pid) {
		execl("/bin/true", "true", NULL);
		_exit(127);
	}
	say_end("child", pid);
}

static void op_fork_exec(struct area *a, int how)
{
	pid_t pid = make_child(how);

	(void)a;
	if (!pid) {
		execl("/bin/true", "true", NULL);
		_exit(127);
	}
	say_end("child", pid);
}

static void op_spawn(struct area *a, int arg)
{
	char *const argv[] = { (char *)"true", NULL };
	pid_t pid = -1;
	int err = posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ);

	(void)a;
	(void)arg;
	if (err)
		say(" spawn=%s", err_name(err));
	else
		say_end("child", pid);
}

static void op_system(struct area *a, int arg)
{
	(void)a;
	(void)arg;
	say(" system=%d", system("exit 3") >> 8);
}

/* ---- access by other processes --------------------------------------------------------------- */

/* In a child, which has buffers of its own. The parent lets it: see ptrace(2), Yama. */
static void op_vm_access(struct area *a, int write)
{
	static uint8_t buf[IO_LEN];
	struct iovec local = { buf, IO_LEN }, remote = { IO(a), IO_LEN };
	pid_t parent = getpid(), pid;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	pid = fork();
	if (!pid) {
		ssize_t n;

		fill_io(buf, a, write ? KERNEL : CHILD);
		n = write ? process_vm_writev(parent, &local, 1, &remote, 1, 0) :
			    process_vm_readv(parent, &local, 1, &remote, 1, 0);
		say(" process_vm=%s", n == (ssize_t)IO_LEN ? "ok" :
				      n < 0		   ? err_name(errno) :
							     "partly");
		if (!write)
			say(" got=%s", io_content(buf, a));
		_exit(0);
	}
	say_end("child", pid);
}

static void op_proc_mem(struct area *a, int write)
{
	static uint8_t buf[IO_LEN];
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	off_t at = (off_t)(uintptr_t)IO(a);
	ssize_t n;

	fill_io(buf, a, write ? KERNEL : CHILD);
	n = write ? pwrite(fd, buf, IO_LEN, at) : pread(fd, buf, IO_LEN, at);
	say(" mem=%s", n == (ssize_t)IO_LEN ? "ok" : n < 0 ? err_name(errno) : "partly");
	if (!write)
		say(" got=%s", io_content(buf, a));
	close(fd);
}

/* What a debugger does: it also writes where the program may only read. */
static void op_ptrace(struct area *a, int readonly)
{
	pid_t parent = getpid(), pid;
	uint64_t *word = (void *)IO(a);

	if (readonly)
		say_ret("mprotect", mprotect(MIDDLE(a), MIDDLE_LEN(a), PROT_READ));
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	pid = fork();
	if (!pid) {
		int status;
		long got;

		if (!say_ret("seize", ptrace(PTRACE_SEIZE, parent, NULL, NULL)))
			_exit(0);
		ptrace(PTRACE_INTERRUPT, parent, NULL, NULL);
		waitpid(parent, &status, __WALL);
		errno = 0;
		got = ptrace(PTRACE_PEEKDATA, parent, word, NULL);
		say(" peek=%s", errno ? err_name(errno) : "ok");
		say_ret("poke", ptrace(PTRACE_POKEDATA, parent, word, (void *)(got + 1)));
		ptrace(PTRACE_DETACH, parent, NULL, NULL);
		_exit(0);
	}
	say_end("child", pid);
	say(" word=%s", content_of(word, (unsigned)(a->q / PAGE) + FIRST_PAGE));
}

/* ---- core files ------------------------------------------------------------------------------ */

/* The middle is left out with `advice`. */
static void op_core(struct area *a, int advice)
{
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

	if (advice)
		say_ret("madvise", m_madvise(MIDDLE(a), MIDDLE_LEN(a), advice));
	say_ret("rlimit", setrlimit(RLIMIT_CORE, &unlimited));
	say_ret("chdir", chdir(case_dir));
	if (CAUGHT(fill_quarters(a, 0, 4, NEW)))
		say(" write=signal");
	abort();
}

/* How many of the memory's pages are in the file. */
static unsigned pages_in(int fd)
{
	static uint8_t page[4096];
	unsigned found = 0;
	uint64_t word;

	for (off_t at = 0; pread(fd, page, PAGE, at) == (ssize_t)PAGE; at += (off_t)PAGE) {
		memcpy(&word, page, 8);
		found += !strcmp(content_of_copy(page, (unsigned)word), "new");
	}
	return found;
}

void say_core(void)
{
	char path[512], pattern[64] = "";
	struct dirent *e;
	bool any = false;
	DIR *d;
	int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		(void)!read(fd, pattern, sizeof(pattern) - 1);
		close(fd);
	}
	d = opendir(case_dir);
	while (d && (e = readdir(d))) {
		if (strncmp(e->d_name, "core", 4))
			continue;
		snprintf(path, sizeof(path), "%s/%s", case_dir, e->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		say(" core-pages=%u", pages_in(fd));
		close(fd);
		unlink(path);
		any = true;
	}
	if (d)
		closedir(d);
	if (!any)
		say(" %s", strncmp(pattern, "core", 4) ? "skipped" : "no-core");
}

OPS(ops_proc, { "fork-reads", op_child_reads, FORK, 0, NULL }, //
    { "fork-writes", op_child_writes, FORK, AGAIN, NULL },
    { "fork-parent-writes", op_parent_writes, FORK, AGAIN, NULL },
    { "fork-fork", op_grandchild, FORK, ONE_KIND, NULL },
    { "fork-lives", op_child_lives, FORK, 0, late_child_lives },
    { "clone-lives", op_child_lives, CLONE, 0, late_child_lives },
    { "fork-registers", op_child_registers, FORK, 0, NULL },
    { "_Fork-reads", op_child_reads, FORK_FUNCTION, 0, NULL },
    { "_Fork-writes", op_child_writes, FORK_FUNCTION, ONE_KIND, NULL },
    { "clone-reads", op_child_reads, CLONE, AGAIN, NULL },
    { "clone-writes", op_child_writes, CLONE, 0, NULL },
    { "clone-parent-writes", op_parent_writes, CLONE, 0, NULL },
    { "clone-clone", op_grandchild, CLONE, ONE_KIND, NULL },
    { "vfork-writes", op_vfork_writes, 0, 0, NULL },
    { "vfork-exec", op_vfork_exec, 0, ONE_KIND, NULL },
    { "fork-exec", op_fork_exec, FORK, ONE_KIND, NULL },
    { "clone-exec", op_fork_exec, CLONE, ONE_KIND, NULL },
    { "posix-spawn", op_spawn, 0, ONE_KIND, NULL }, { "system", op_system, 0, ONE_KIND, NULL },
    { "process-vm-readv", op_vm_access, 0, 0, NULL },
    { "process-vm-writev", op_vm_access, 1, AGAIN, NULL },
    { "proc-mem-read", op_proc_mem, 0, AGAIN, NULL },
    { "proc-mem-write", op_proc_mem, 1, AGAIN, NULL }, { "ptrace", op_ptrace, 0, 0, NULL },
    { "ptrace-readonly", op_ptrace, 1, 0, NULL }, { "core", op_core, 0, FINAL, NULL },
    { "core-dontdump", op_core, MADV_DONTDUMP, FINAL, NULL })
