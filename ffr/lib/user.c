/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * user.c - the user that the router becomes. Called by main.c; main thread, before there are others.
 *
 * A capability that only lifts a limit of resources is replaced by the limit: RLIMIT_RTPRIO and
 * RLIMIT_NICE are what CAP_SYS_NICE is for; the kernel counts descriptors on their way in sockets for
 * each user, and this user is nobody else's. Where a limit cannot be raised, for want of
 * CAP_SYS_RESOURCE, fast threads keep CAP_SYS_NICE.
 */
#include "ffr/lib/user.h"

#include <cap-ng.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffr/lib/log.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WITH_SANITIZER true
#else
#define WITH_SANITIZER false
#endif

#define NICE_MOST 40 /* RLIMIT_NICE for nice -20 */

static int numbers(const char *s, struct user *u)
{
	unsigned long uid, gid;
	char *end;

	errno = 0;
	uid = strtoul(s, &end, 10);
	if (end == s || *end != ':')
		return -EINVAL;
	s = end + 1;
	gid = strtoul(s, &end, 10);
	if (end == s || *end || errno || uid >= UINT_MAX || gid >= UINT_MAX)
		return -EINVAL;
	*u = (struct user){ (uid_t)uid, (gid_t)gid };
	return 0;
}

int user_find(const char *name, struct user *u)
{
	const struct passwd *pw;
	int err = 0;

	if (name && name[0] >= '0' && name[0] <= '9') {
		err = numbers(name, u);
	} else {
		pw = getpwnam(name ? name : USER_DEFAULT);
		if (!pw)
			return -ENOENT;
		*u = (struct user){ pw->pw_uid, pw->pw_gid };
	}
	return err ? err : u->uid && u->gid ? 0 : -EINVAL;
}

int user_own(const struct user *u, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_uid == u->uid)
		return 0;
	if (st.st_uid || !(S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_nlink == 1)))
		return -EPERM;
	return fchown(fd, u->uid, (gid_t)-1) ? -errno : 0;
}

/* Soft and hard, if it may be. */
static bool raise_limit(int resource, rlim_t to)
{
	struct rlimit rl;

	if (getrlimit(resource, &rl))
		return false;
	if (rl.rlim_max < to)
		rl.rlim_max = to;
	if (rl.rlim_cur < to)
		rl.rlim_cur = to;
	return !setrlimit(resource, &rl);
}

static void own_namespaces(const struct user_rights *r)
{
	static const struct {
		int flag;
		const char *name;
	} space[] = { { CLONE_NEWIPC, "IPC" },
		      { CLONE_NEWUTS, "UTS" },
		      { CLONE_NEWNET, "network" } };

	for (size_t i = 0; i < sizeof(space) / sizeof(space[0]); i++)
		if ((space[i].flag != CLONE_NEWNET || r->own_network) && unshare(space[i].flag))
			log_debug("no %s namespace of its own: %m", space[i].name);
}

int user_become(const struct user *u, struct user_rights *r)
{
	int err;

	raise_limit(RLIMIT_NICE, NICE_MOST);
	r->keeps_nice = r->rt_priority && !raise_limit(RLIMIT_RTPRIO, (rlim_t)r->rt_priority);
	own_namespaces(r);
	if (capng_get_caps_process())
		return -EIO;
	r->keeps_nice = r->keeps_nice && capng_have_capability(CAPNG_PERMITTED, CAP_SYS_NICE);
	capng_clear(CAPNG_SELECT_BOTH);
	if (r->keeps_nice)
		capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, CAP_SYS_NICE);
	err = capng_change_id((int)u->uid, (int)u->gid, CAPNG_DROP_SUPP_GRP | CAPNG_CLEAR_BOUNDING);
	if (err) {
		log_err("user %u:%u: cannot be taken (%d)", u->uid, u->gid, err);
		return -EPERM;
	}
	/* what changes who a process is takes these away */
	if (WITH_SANITIZER)
		prctl(PR_SET_DUMPABLE, 1);
	if (r->ends_with && (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != r->ends_with))
		return -ESRCH;
	if (r->keeps_nice)
		log_info("RLIMIT_RTPRIO cannot be raised: fast threads keep CAP_SYS_NICE");
	return 0;
}
