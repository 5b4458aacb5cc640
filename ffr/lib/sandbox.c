/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sandbox.c - capabilities, seccomp filters and Landlock domains, for each kind of thread its own.
 * sandbox_prepare(): the main thread, before there are others; sandbox_enter(): the thread that it is
 * about. ffr(8) tells what is left to whom and why.
 *
 * A thread inherits what its creator has entered, and a further filter only takes away. So the
 * runner enters before it starts watchers, which need nothing of their own; and the control thread,
 * which starts the store's and libuv's threads, may call whatever these do.
 *
 * A call that no list has does not end the process at once: a new version of a library may make it,
 * and all tenants' traffic depends on this process. It is trapped, SIGSYS's handler tells the log once
 * which it was, and it fails with EPERM (with ENOSYS if libseccomp has never heard of it: libc then
 * does without). What only an intruder calls ends the process, since its memory is no longer to be
 * trusted. The handler runs on any thread, so SIGSYS must be blocked on none (roles.c, ffo/server/embed.c);
 * where libc or libuv block all signals for a moment, as around clone(), the kernel ends the process
 * for a call that is trapped, and its own log tells.
 *
 * The lists were found by running all tests; one in which a router refuses a call fails (tests/run).
 * With `sandbox = log` such calls are carried out and the kernel logs them.
 */
#include "ffr/lib/sandbox.h"

#include <cap-ng.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <ucontext.h>
#include <unistd.h>
#include <linux/sockios.h>
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif

#include "ffr/abi/ff_vma.h"
#include "ffr/lib/log.h"
#include "ffr/lib/user.h"
#include "kmod/ffmem.h"
#include "kmod/ffrio.h"

#ifndef RUNNING_ON_VALGRIND
#define RUNNING_ON_VALGRIND 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WITH_SANITIZER true
#else
#define WITH_SANITIZER false
#endif

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MAX_NR	     1024
#define SI_SECCOMP   1 /* SYS_SECCOMP of <asm-generic/siginfo.h>, which glibc does not have */

const char *const sandbox_mode_name[SANDBOX_NUM_MODES] = {
	[SANDBOX_ON] = "on",
	[SANDBOX_LOG] = "log",
	[SANDBOX_OFF] = "off",
};

int sandbox_mode_parse(const char *name)
{
	for (int i = 0; i < SANDBOX_NUM_MODES; i++)
		if (!strcmp(name, sandbox_mode_name[i]))
			return i;
	return -EINVAL;
}

/* ---- what may be called ---------------------------------------------------------------------- */

struct rule {
	int nr;
	unsigned num_args;
	struct scmp_arg_cmp arg;
};

#define ANY(name)                                                                                  \
	{                                                                                          \
		SCMP_SYS(name), 0,                                                                 \
		{                                                                                  \
			0                                                                          \
		}                                                                                  \
	}
#define WHEN(name, ...)                                                                            \
	{                                                                                          \
		SCMP_SYS(name), 1,                                                                 \
		{                                                                                  \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}
#define IS(arg, value)	       (arg), SCMP_CMP_EQ, (value), 0
#define BITS(arg, mask, value) (arg), SCMP_CMP_MASKED_EQ, (mask), (value)
#define WORD(arg, value)       BITS(arg, 0xffffffffu, value)

/* Every thread: memory that is not executable, descriptors that it has, time, locks, its end. */
static const struct rule base[] = {
	ANY(read),
	ANY(write),
	ANY(readv),
	ANY(writev),
	ANY(close),
	ANY(futex),
	ANY(brk),
	WHEN(mmap, BITS(2, PROT_EXEC, 0)),
	WHEN(mprotect, BITS(2, PROT_EXEC, 0)),
	ANY(munmap),
	ANY(mremap),
	ANY(madvise),
	ANY(clock_gettime),
	ANY(clock_getres),
	ANY(clock_nanosleep),
	ANY(nanosleep),
	ANY(gettimeofday),
	ANY(time),
	ANY(getcpu),
	ANY(getpid),
	ANY(gettid),
	ANY(getrandom),
	ANY(sched_yield),
	ANY(rt_sigprocmask),
	ANY(rt_sigreturn),
	WHEN(rt_sigaction,
	     IS(0, SIGSEGV)), /* mem/sigbus.c: a fault of our own is to end the process */
	WHEN(rt_sigaction, IS(0, SIGBUS)),
	ANY(sigaltstack),
	ANY(restart_syscall),
	ANY(set_robust_list),
	ANY(rseq),
	ANY(sysinfo), /* glibc's qsort() */
	ANY(exit),
	ANY(exit_group),
};

/* Threads of this process, and no processes. clone3 cannot be looked into and does not exist. */
static const struct rule threads[] = {
	WHEN(clone, BITS(0, CLONE_THREAD | CLONE_VM, CLONE_THREAD | CLONE_VM)),
	WHEN(sched_setaffinity, IS(0, 0)),
	ANY(sched_getaffinity),
	WHEN(prctl, WORD(0, PR_SET_NAME)),
};

static const struct rule sched[] = {
	WHEN(sched_setattr, IS(0, 0)),
	ANY(timerfd_settime),
};

static const struct rule events[] = {
	ANY(epoll_ctl), ANY(epoll_wait), ANY(epoll_pwait),   ANY(epoll_pwait2), ANY(ppoll),
	ANY(poll),	ANY(eventfd2),	 ANY(epoll_create1), ANY(pipe2),
};

/* On sockets that are there. */
static const struct rule socket_io[] = {
	ANY(sendto),
	ANY(sendmsg),
	ANY(sendmmsg),
	ANY(recvfrom),
	ANY(recvmsg),
	ANY(recvmmsg),
	ANY(shutdown),
	ANY(getsockopt),
	ANY(setsockopt),
	ANY(getsockname),
	ANY(getpeername),
	WHEN(ioctl, WORD(1, SIOCOUTQ)),
	WHEN(ioctl, WORD(1, FIONREAD)),
	WHEN(ioctl, WORD(1, FIONBIO)),
	WHEN(fcntl, WORD(1, F_GETFL)),
	WHEN(fcntl, WORD(1, F_SETFL)),
};

/* Memory of clients, by descriptors of /proc/self/mem and maps that they handed over. */
static const struct rule client_memory[] = {
	ANY(pread64),
	ANY(pwrite64),
	WHEN(ioctl, WORD(1, FF_PROCMAP_QUERY)),
	WHEN(getrusage, WORD(0, RUSAGE_THREAD)), /* was a call interrupted, or stalled? */
	WHEN(ioctl, WORD(1, UFFDIO_ZEROPAGE)),	 /* mem/track.c: are mappings being changed? */
};

/* A NIC that is open: objects, doorbells of those that have none in memory. */
static const struct rule nic[] = {
	WHEN(ioctl, WORD(1, RDMA_VERBS_IOCTL)),
};

/* An endpoint of RapidIO that the keeper has opened: blocks, and no windows or transfers. */
static const struct rule rio[] = {
	WHEN(ioctl, WORD(1, FFRIO_BIND)),      WHEN(ioctl, WORD(1, FFRIO_ALLOC)),
	WHEN(ioctl, WORD(1, FFRIO_FREE)),      WHEN(ioctl, WORD(1, FFRIO_POST)),
	WHEN(ioctl, WORD(1, FFRIO_REAP)),      WHEN(ioctl, WORD(1, FFRIO_TAKE)),
	WHEN(ioctl, WORD(1, FFRIO_GIVE_BACK)),
};

/* libibverbs asks the kernel, by libnl, who a NIC's peer is, and sends it a packet that has it found. */
static const struct rule neighbours[] = {
	WHEN(socket, WORD(0, AF_NETLINK)),
	WHEN(socket, WORD(0, AF_INET)),
	WHEN(socket, WORD(0, AF_INET6)),
	ANY(connect),
	ANY(bind),
	ANY(timerfd_create),
	ANY(timerfd_settime),
	ANY(select),
	ANY(pselect6),
};

/* libibverbs, when it looks what devices there are: the kernel is asked by netlink, and by files in /sys. */
static const struct rule nic_open[] = {
	WHEN(socket, WORD(0, AF_NETLINK)),
	ANY(bind),
	ANY(openat),
	ANY(newfstatat),
	ANY(fstat),
	ANY(readlink),
	ANY(readlinkat),
	ANY(getdents64),
	ANY(lseek),
	ANY(uname),
	ANY(inotify_init1),
	ANY(inotify_add_watch),
};

static const struct rule socket_new[] = {
	WHEN(socket, WORD(0, AF_UNIX)),	    WHEN(socket, WORD(0, AF_INET)),
	WHEN(socket, WORD(0, AF_INET6)),    ANY(bind),
	WHEN(socketpair, WORD(0, AF_UNIX)),
};

static const struct rule socket_serve[] = {
	ANY(listen),
	ANY(accept),
	ANY(accept4),
};

/* The store's files, among others. */
static const struct rule files[] = {
	ANY(openat),
	ANY(newfstatat),
	ANY(fstat),
	ANY(stat),
	ANY(lstat),
	ANY(statx),
	ANY(fstatfs),
	ANY(lseek),
	ANY(pread64),
	ANY(pwrite64),
	ANY(ftruncate),
	ANY(fsync),
	ANY(fdatasync),
	ANY(fallocate),
	ANY(access),
	ANY(faccessat),
	ANY(faccessat2),
	ANY(readlink),
	ANY(readlinkat),
	ANY(unlink),
	ANY(unlinkat),
	ANY(getcwd),
	ANY(fchmod),
	ANY(fchown),
	ANY(umask),
	ANY(getdents64),
	ANY(geteuid),
	ANY(getuid),
	ANY(getegid),
	ANY(getgid),
	ANY(uname),
	ANY(fcntl),
	ANY(flock),
	WHEN(ioctl, WORD(1, TCGETS)), /* libconfuse asks whether the configuration is a terminal */
};

/* Containers' folders and sockets, segments for clients, and their processes. */
static const struct rule clients[] = {
	ANY(mkdir),
	ANY(mkdirat),
	ANY(symlinkat), /* ctl/sysfile.c */
	ANY(dup),	/* a folder that is listed and kept */
	ANY(chmod),
	ANY(fchmodat),
	ANY(renameat), /* cgroup.c */
	ANY(memfd_create),
	ANY(pidfd_open),
	WHEN(ioctl, WORD(1, FF_PROCMAP_QUERY)),
	WHEN(ioctl, WORD(1, UFFDIO_REGISTER)),
	WHEN(ioctl, WORD(1, UFFDIO_CONTINUE)), /* threads of mem/watch.c inherit these */
	WHEN(ioctl, WORD(1, UFFDIO_ZEROPAGE)),
	WHEN(ioctl, WORD(1, UFFDIO_WAKE)),
	ANY(preadv2),
	WHEN(mbind, IS(2, MPOL_PREFERRED)),
	WHEN(ioctl, WORD(1, FFMEM_HELLO)),
	WHEN(ioctl, WORD(1, FFMEM_ATTACH)),
	WHEN(ioctl, WORD(1, FFMEM_DETACH)),
	WHEN(ioctl, WORD(1, FFMEM_MAP)),
	WHEN(ioctl, WORD(1, FFMEM_UNMAP)),
	WHEN(ioctl, WORD(1, FFMEM_STAT)),
};

/* Mappings that nobody needs any more. */
static const struct rule unmaps[] = {
	WHEN(getrusage, WORD(0, RUSAGE_THREAD)), /* has a client kept it waiting? */
};

/* Of a client's shadow pages: its userfaultfd, its file, and whether it is there. */
static const struct rule pages[] = {
	WHEN(ioctl, WORD(1, UFFDIO_CONTINUE)),
	WHEN(ioctl, WORD(1, UFFDIO_ZEROPAGE)),
	WHEN(ioctl, WORD(1, UFFDIO_WAKE)),
	WHEN(ioctl, WORD(1, FF_PROCMAP_QUERY)),
	ANY(preadv2),
	WHEN(fcntl, WORD(1, F_SETFL)),
	ANY(fallocate),
	ANY(lseek), /* where maps have to be read */
	ANY(pread64),
	ANY(poll),
	ANY(ppoll),
};

/* Its descriptors come from a router that may have been taken over. */
static const struct rule orphans[] = {
	ANY(fcntl),
	ANY(fstat),
	ANY(newfstatat),
};

/*
 * Clients' processes, by what they handed over and by their numbers. A file can be named and asked about, and not be
 * opened. arm64 has readlinkat and ppoll only.
 */
static const struct rule processes[] = {
	WHEN(openat, WORD(2, O_PATH | O_CLOEXEC)),
	ANY(newfstatat),
	ANY(fstat),
	ANY(statx),
	ANY(readlink),
	ANY(readlinkat),
	ANY(poll),
	ANY(ppoll),
	ANY(sendmsg),
	ANY(recvmsg),
	ANY(fcntl),
	ANY(getsockopt),
	ANY(memfd_create),
	ANY(getdents64),
	ANY(lseek), /* fclose() before the end */
	WHEN(ioctl, WORD(1, FF_PROCMAP_QUERY)),
};

/*
 * The opener, whose paths filter_create() adds. None of these changes what is mapped: so nobody can write to the memory
 * that has the paths, which is read-only when the filter is loaded.
 */
static const struct rule opener[] = {
	ANY(recvmsg),
	ANY(sendmsg),
	ANY(fstat),
	ANY(fstatfs),
	ANY(read),
	ANY(write),
	ANY(close),
	ANY(futex),
	ANY(clock_gettime),
	ANY(gettimeofday),
	ANY(time),
	ANY(nanosleep),
	ANY(getpid),
	ANY(gettid),
	ANY(rt_sigprocmask),
	ANY(rt_sigreturn),
	ANY(exit),
	ANY(exit_group),
	ANY(clock_nanosleep),
	ANY(restart_syscall),
};

/* Of open(): what makes a file, or ends one, and what only writes. O_DIRECTORY, a part of O_TMPFILE, may be. */
#define MAKES_FILES (O_CREAT | O_TRUNC | O_WRONLY | (O_TMPFILE & ~O_DIRECTORY))

/* libuv, which does this with all signals blocked: a call that is trapped there ends the process. */
static const struct rule signals[] = {
	ANY(rt_sigaction),
};

/* What threads that start later need to confine themselves, and to end in order. */
static const struct rule confine[] = {
	ANY(seccomp),
	ANY(landlock_restrict_self),
	ANY(capget),
	ANY(capset),
	WHEN(prctl, WORD(0, PR_SET_NO_NEW_PRIVS)),
	WHEN(prctl, WORD(0, PR_GET_SECCOMP)),
	WHEN(prctl, WORD(0, PR_CAPBSET_READ)),
	WHEN(prctl, WORD(0, PR_CAP_AMBIENT)),
	ANY(sched_setscheduler),
	ANY(sched_getscheduler),
	ANY(sched_getparam),
	ANY(sched_get_priority_min),
	ANY(sched_get_priority_max),
	ANY(prlimit64),
	ANY(getrusage),
};

/* Nobody here, whatever version of whatever library, but who has taken a thread over. */
static const int intruders[] = {
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(fork),
	SCMP_SYS(vfork),
	SCMP_SYS(bpf),
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(delete_module),
	SCMP_SYS(kexec_load),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(move_mount),
	SCMP_SYS(open_tree),
	SCMP_SYS(pivot_root),
	SCMP_SYS(chroot),
	SCMP_SYS(setns),
	SCMP_SYS(unshare),
	SCMP_SYS(setuid),
	SCMP_SYS(setgid),
	SCMP_SYS(setresuid),
	SCMP_SYS(setresgid),
	SCMP_SYS(reboot),
};

struct group {
	const struct rule *rule;
	size_t num;
};
#define GROUP(g)                                                                                   \
	{                                                                                          \
		g, ARRAY_LEN(g)                                                                    \
	}

struct kind {
	const char *name;
	int caps[5]; /* kept if the process has them; -1 ends */
	enum {
		REACH_ALL,
		REACH_NOTHING,
		REACH_STORE,
		REACH_CONTROL,
		REACH_FAST,
		NUM_REACHES
	} landlock;
	struct group group[16];
};

static const struct kind kinds[SANDBOX_NUM_KINDS] = {
	[SANDBOX_CONTROL] = { "control",
			      { CAP_SYS_RESOURCE, -1 },
			      REACH_CONTROL,
			      { GROUP(base), GROUP(threads), GROUP(sched), GROUP(events),
				GROUP(socket_io), GROUP(socket_new), GROUP(socket_serve),
				GROUP(files), GROUP(clients), GROUP(signals), GROUP(confine),
				GROUP(nic), GROUP(rio) } },
	[SANDBOX_FAST] = { "fast",
			   { CAP_SYS_NICE, -1 },
			   REACH_FAST,
			   { GROUP(base), GROUP(threads), GROUP(sched), GROUP(events),
			     GROUP(socket_io), GROUP(client_memory), GROUP(nic), GROUP(rio) } },
	[SANDBOX_STORE] = { "store",
			    { -1 },
			    REACH_STORE,
			    { GROUP(base), GROUP(events), GROUP(socket_io), GROUP(socket_new),
			      GROUP(files) } },
	[SANDBOX_POOL] = { "pool", { -1 }, REACH_NOTHING, { GROUP(base), GROUP(unmaps) } },
	[SANDBOX_PAGES] = { "pages", { -1 }, REACH_NOTHING, { GROUP(base), GROUP(pages) } },
	[SANDBOX_FFO] = { "ffo",
			  { -1 },
			  REACH_STORE,
			  { GROUP(base), GROUP(events), GROUP(socket_io), GROUP(socket_new),
			    GROUP(socket_serve), GROUP(files), GROUP(signals) } },
	[SANDBOX_NIC] = { "NIC",
			  { -1 },
			  REACH_FAST,
			  { GROUP(base), GROUP(events), GROUP(socket_io), GROUP(neighbours),
			    GROUP(nic), GROUP(nic_open) } },
	[SANDBOX_KEEPER] = { "keeper",
			     { CAP_SYS_PTRACE, CAP_DAC_OVERRIDE, CAP_CHECKPOINT_RESTORE,
			       CAP_SYS_RESOURCE, -1 },
			     REACH_ALL,
			     { GROUP(base), GROUP(threads), GROUP(processes) } },
	[SANDBOX_OPENER] = { "opener",
			     { CAP_DAC_OVERRIDE, CAP_SYS_RESOURCE, -1 },
			     REACH_ALL,
			     { GROUP(opener) } },
	[SANDBOX_ORPHANS] = { "orphans",
			      { -1 },
			      REACH_NOTHING,
			      { GROUP(base), GROUP(threads), GROUP(events), GROUP(socket_io),
				GROUP(pages), GROUP(orphans) } },
};

/* ---- what is refused ------------------------------------------------------------------------- */

static struct {
	bool prepared;
	bool filters; /* and Landlock */
	scmp_filter_ctx filter[SANDBOX_NUM_KINDS];
	int reach_fd[NUM_REACHES];    /* of Landlock's rulesets, -1: none */
	char *name[MAX_NR];	      /* of system calls */
	_Atomic uint8_t told[MAX_NR]; /* the log knows */
} box = { .reach_fd = { -1, -1, -1, -1, -1 } };

static __thread const struct kind *self;

static bool is_intruders(int nr)
{
	for (size_t i = 0; i < ARRAY_LEN(intruders); i++)
		if (intruders[i] == nr)
			return true;
	return false;
}

/* The register that a system call's result is in. */
#if defined(__x86_64__)
static greg_t *result_of(ucontext_t *uc)
{
	return &uc->uc_mcontext.gregs[REG_RAX];
}
#elif defined(__aarch64__)
static unsigned long long *result_of(ucontext_t *uc)
{
	return &uc->uc_mcontext.regs[0];
}
#endif

/* On the thread that made the call, instead of the call; what it returns is what the call returns. */
static void on_refused(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	int nr = info->si_syscall, err = errno;
	bool known = nr >= 0 && nr < MAX_NR && box.name[nr];
	const char *kind = self ? self->name : "fast"; /* started by a runner */

	if (info->si_code != SI_SECCOMP) { /* somebody's kill() */
		signal(sig, SIG_DFL);
		return;
	}
	if (is_intruders(nr)) {
		log_err("sandbox: the %s thread called %s: this process was broken into and ends",
			kind, known ? box.name[nr] : "?");
		_exit(SANDBOX_EXIT);
	}
	if (nr < 0 || nr >= MAX_NR || !atomic_exchange(&box.told[nr], 1))
		log_err("sandbox: the %s thread may not call %s (%d), or not with these arguments",
			kind, known ? box.name[nr] : "?", nr);
	*result_of(uc) = known ? -EPERM : -ENOSYS;
	errno = err;
}

static int handler_install(void)
{
	struct sigaction sa = { .sa_sigaction = on_refused, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	sigemptyset(&sa.sa_mask);
	for (int nr = 0; nr < MAX_NR; nr++)
		box.name[nr] = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
	return sigaction(SIGSYS, &sa, NULL) ? -errno : 0;
}

/* ---- seccomp --------------------------------------------------------------------------------- */

static int rules_add(scmp_filter_ctx f, const struct group *g)
{
	int err = 0;

	for (size_t i = 0; i < g->num && !err; i++) {
		const struct rule *r = &g->rule[i];

		err = seccomp_rule_add_array(f, SCMP_ACT_ALLOW, r->nr, r->num_args, &r->arg);
		if (err == -EEXIST) /* two groups have it */
			err = 0;
	}
	return err;
}

/*
 * connect() to other hosts, and to no Unix socket: a client can hand one over that is not connected, so it does not
 * suffice that this process makes none. A filter sees the address's length and not its family. The kernel takes any
 * length that suffices for an IP address, and for a Unix socket's none above its own (unix(7)).
 */
static const struct rule connect_ip = WHEN(connect, WORD(2, sizeof(struct sockaddr_storage)));
static const struct rule connect_any = ANY(connect);

static_assert(sizeof(struct sockaddr_storage) > sizeof(struct sockaddr_un), "no Unix socket's");

static const struct rule *connect_rule(const struct kind *k, bool unix_peers)
{
	return k == &kinds[SANDBOX_FFO] || unix_peers ? &connect_any : &connect_ip;
}

/* A filter sees an address, and not what is there: which nobody can change (opener[]). */
static int paths_add(scmp_filter_ctx f, const struct sandbox_conf *conf)
{
	int err = 0;

	for (size_t i = 0; i < conf->num_paths && !err; i++)
		err = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(openat), 2,
				       SCMP_A1(SCMP_CMP_EQ,
					       (scmp_datum_t)(uintptr_t)conf->paths[i]),
				       SCMP_A2(SCMP_CMP_MASKED_EQ, MAKES_FILES, 0));
	if (conf->num_paths && !err)
		err = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(readlinkat), 1,
				       SCMP_A1(SCMP_CMP_EQ,
					       (scmp_datum_t)(uintptr_t)conf->paths[0]));
	return err;
}

static int filter_create(const struct kind *k, const struct sandbox_conf *conf,
			 scmp_filter_ctx *out)
{
	bool has_loop = k == &kinds[SANDBOX_CONTROL] || k == &kinds[SANDBOX_STORE] ||
			k == &kinds[SANDBOX_FFO];
	uint32_t otherwise = conf->mode == SANDBOX_LOG ? SCMP_ACT_LOG : SCMP_ACT_TRAP;
	scmp_filter_ctx f = seccomp_init(otherwise);
	int err = 0;

	if (!f)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_LEN(k->group) && k->group[i].rule && !err; i++)
		err = rules_add(f, &k->group[i]);
	if (!err && has_loop)
		err = rules_add(f, &(const struct group){ connect_rule(k, conf->unix_peers), 1 });
	if (!err && k == &kinds[SANDBOX_OPENER])
		err = paths_add(f, conf);
	/* abort(): a signal for this process and no other */
	if (!err)
		err = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				       SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	/* fast/rescue.c: the control thread, which is the main one */
	if (!err && k == &kinds[SANDBOX_FAST])
		err = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(sched_setattr), 1,
				       SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	/* what libraries do without: refused, and no line in the log */
	if (!err)
		err = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	/* libuv: sandbox_no_ring() refuses it in the same way, but a trap goes before that */
	if (!err && has_loop)
		err = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(io_uring_setup), 0);
	/* getaddrinfo() for libzookeeper would ask which address families the host has */
	if (!err && has_loop)
		err = seccomp_rule_add(f, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
				       SCMP_A0(SCMP_CMP_MASKED_EQ, 0xffffffffu, AF_NETLINK));
	/* calls by another architecture's numbers */
	if (!err)
		err = seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	/* nothing runs here that would measure the speculation of others; it costs the fast path */
	if (!err)
		err = seccomp_attr_set(f, SCMP_FLTATR_CTL_SSB, 1);
	if (err == -EOPNOTSUPP)
		err = 0;
	if (!err)
		err = seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (err) {
		seccomp_release(f);
		return err;
	}
	*out = f;
	return 0;
}

static int filters_create(const struct sandbox_conf *conf)
{
	int err;

	for (int k = 0; k < SANDBOX_NUM_KINDS; k++) {
		err = filter_create(&kinds[k], conf, &box.filter[k]);
		if (err)
			return err;
	}
	return 0;
}

/* ---- capabilities ---------------------------------------------------------------------------- */

static bool kept_by_any(int cap, bool keeper)
{
	for (int k = 0; k < SANDBOX_NUM_KINDS; k++)
		for (const int *c = kinds[k].caps; *c >= 0; c++)
			if (*c == cap && keeper == (k == SANDBOX_KEEPER || k == SANDBOX_OPENER))
				return true;
	/* CAP_CHECKPOINT_RESTORE's elder, for who starts the router with that one only */
	return keeper && cap == CAP_SYS_ADMIN &&
	       !capng_have_capability(CAPNG_PERMITTED, CAP_CHECKPOINT_RESTORE);
}

/* No program that is run gets any more, though none is: nothing can come back this way. */
static int bounding_drop(bool keeper)
{
	if (!capng_have_capability(CAPNG_EFFECTIVE, CAP_SETPCAP))
		return 0; /* who started the process has seen to that, or cannot be helped */
	for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
		if (!kept_by_any(cap, keeper) && prctl(PR_CAPBSET_READ, cap) == 1 &&
		    prctl(PR_CAPBSET_DROP, cap))
			return -errno;
	return 0;
}

/*
 * Not for what it may do, which its capabilities tell: the kernel counts the descriptors that are on their way in
 * sockets for each user, and root is the user of most containers.
 */
static int user_keep(const struct user *u)
{
	if (prctl(PR_SET_KEEPCAPS, 1) || syscall(SYS_setgroups, 0, NULL) ||
	    setresgid(u->gid, u->gid, u->gid) || setresuid(u->uid, u->uid, u->uid) ||
	    prctl(PR_SET_KEEPCAPS, 0))
		return -errno;
	return 0;
}

/* Of this thread. */
static int caps_keep(const int *caps)
{
	bool has[5] = { false }, admin;

	if (capng_get_caps_process())
		return -errno;
	admin = capng_have_capability(CAPNG_PERMITTED, CAP_SYS_ADMIN);
	for (size_t i = 0; caps[i] >= 0; i++)
		has[i] = capng_have_capability(CAPNG_PERMITTED, (unsigned)caps[i]);
	capng_clear(CAPNG_SELECT_CAPS);
	for (size_t i = 0; caps[i] >= 0; i++) {
		unsigned cap = (unsigned)caps[i];

		if (!has[i] && cap == CAP_CHECKPOINT_RESTORE && admin) {
			cap = CAP_SYS_ADMIN;
			has[i] = true;
		}
		if (has[i])
			capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, cap);
	}
	return capng_apply(CAPNG_SELECT_CAPS) ? -EPERM : 0;
}

/* ---- both ------------------------------------------------------------------------------------ */

static int failed(const char *what, int err)
{
	log_err("sandbox: %s: %s; sandbox = off does without", what, strerror(-err));
	return err;
}

/* More than glibc keeps of a pool when it is free again, in pieces that it does not map singly. */
#define POOL_PIECES 4
#define POOL_PIECE  100000

static void *pool_shrink(void *arg)
{
	void *volatile piece[POOL_PIECES];

	for (int i = 0; i < POOL_PIECES; i++)
		piece[i] = malloc(POOL_PIECE);
	for (int i = POOL_PIECES; i-- > 0;)
		free(piece[i]);
	return arg;
}

/*
 * What glibc's malloc() asks the kernel for once, by opening a file, on whatever thread comes to it
 * first: how many memory pools there may be (in /sys), when there are many, and whether a pool may be
 * made smaller (/proc/sys/vm/overcommit_memory), when memory of another thread's than the main one's is
 * given back. A fast thread may open none; so the limit is set, and the other question asked now.
 */
static void malloc_prepare(void)
{
	pthread_t t;

	mallopt(M_ARENA_MAX, 8 * (int)sysconf(_SC_NPROCESSORS_ONLN));
	if (!pthread_create(&t, NULL, pool_shrink, NULL))
		pthread_join(t, NULL);
}

int sandbox_no_ring(enum sandbox_mode mode)
{
	scmp_filter_ctx f;
	int err;

	if (mode == SANDBOX_OFF)
		return 0;
	f = seccomp_init(SCMP_ACT_ALLOW);
	if (!f)
		return -ENOMEM;
	err = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(io_uring_setup), 0);
	if (!err)
		err = seccomp_load(f);
	seccomp_release(f);
	return err;
}

int sandbox_prepare(const struct sandbox_conf *conf)
{
	int err;

	if (conf->mode == SANDBOX_OFF) {
		log_warn("sandbox = off: this process keeps all its rights");
		return 0;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return failed("no_new_privs", -errno);
	if (capng_get_caps_process())
		return failed("capabilities", -EIO);
	err = bounding_drop(conf->keeper);
	if (err)
		return failed("bounding set", err);
	err = conf->keeper && conf->user ? user_keep(conf->user) : 0;
	if (err)
		return failed("user", err);
	box.filters = !WITH_SANITIZER && !RUNNING_ON_VALGRIND;
	if (box.filters) {
		err = filters_create(conf);
		if (!err)
			err = handler_install();
		malloc_prepare();
		if (err)
			return failed("seccomp", err);
	} else {
		log_info("sandbox: no seccomp and no Landlock beneath a sanitizer or valgrind");
	}
	if (box.filters && conf->mode == SANDBOX_ON) {
		int *fd = box.reach_fd;

		fd[REACH_NOTHING] = landlock_ruleset(NULL);
		fd[REACH_STORE] = landlock_ruleset(&conf->store);
		fd[REACH_FAST] = conf->fast.dev_dir ? landlock_ruleset(&conf->fast) :
						      fd[REACH_NOTHING];
		if (conf->control.num_dirs)
			fd[REACH_CONTROL] = landlock_ruleset(&conf->control);
		if (fd[REACH_NOTHING] < 0 || fd[REACH_STORE] < 0)
			log_info("sandbox: without Landlock");
	}
	box.prepared = true;
	return 0;
}

/* libseccomp builds the program anew, in what belongs to the filter, which threads of a kind share. */
static int filter_load(enum sandbox_kind kind)
{
	static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
	int err;

	pthread_mutex_lock(&loading);
	err = seccomp_load(box.filter[kind]);
	pthread_mutex_unlock(&loading);
	return err ? failed("seccomp", err) : 0;
}

int sandbox_filter(enum sandbox_kind kind)
{
	if (!box.prepared || self)
		return 0;
	self = &kinds[kind];
	return box.filters ? filter_load(kind) : 0;
}

int sandbox_enter_with(enum sandbox_kind kind, int (*call)(void *arg), void *arg)
{
	const struct kind *k = &kinds[kind];
	int err;

	if (!box.prepared || self)
		return call ? call(arg) : 0;
	self = k;
	err = caps_keep(k->caps);
	if (err)
		return failed("capabilities", err);
	if (!box.filters)
		return call ? call(arg) : 0;
	err = landlock_enter(box.reach_fd[k->landlock]);
	if (err)
		return failed("Landlock", err);
	err = call ? call(arg) : 0;
	return err ? err : filter_load(kind);
}

int sandbox_enter(enum sandbox_kind kind)
{
	return sandbox_enter_with(kind, NULL, NULL);
}
