/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * user.h - the user that the router becomes, and what it leaves behind with root. Main thread, before
 * there are others. See user.c.
 */
#ifndef FFR_USER_H
#define FFR_USER_H

#include <stdbool.h>
#include <sys/types.h>

#define USER_DEFAULT "freeflow"

struct user {
	uid_t uid;
	gid_t gid;
};

struct user_rights {
	int rt_priority; /* of SCHED_FIFO, which it is to be allowed; 0: none */
	bool keeps_nice; /* set: CAP_SYS_NICE had to stay, since RLIMIT_RTPRIO is not to be raised */
	bool own_network; /* it may be alone: with no address, and nobody to talk to but by Unix sockets */
	pid_t ends_with; /* the process whose end is its own; 0: none */
};

/*
 * A user's name, or "UID:GID". NULL: USER_DEFAULT, if there is such a user. 0; -ENOENT: there is none;
 * -EINVAL: neither name nor numbers, or root.
 */
int user_find(const char *name, struct user *u);
/*
 * Root only: what was opened is the user's: a file or folder that belongs to root, and that nobody
 * could have put there but root or the user. 0 or -errno.
 */
int user_own(const struct user *u, int fd);
/*
 * Root only: become the user for good, without a capability but where r->keeps_nice says so, with the
 * limits that take their place, in namespaces of its own where it may make them. 0, or -errno with a
 * line in the log.
 */
int user_become(const struct user *u, struct user_rights *r);

#endif
