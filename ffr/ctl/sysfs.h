/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sysfs.h - the device's files where programs look for a NIC's, below a container's directory. See
 * sysfs.c. Control thread.
 */
#ifndef FFR_CTL_SYSFS_H
#define FFR_CTL_SYSFS_H

#include "ffr/ctl/container.h"

/* Makes them, or takes over those of an earlier router. What fails is logged, and is not fatal. */
void sysfs_open(struct container *c);
void sysfs_close(struct container *c);		  /* the files stay as they are */
void sysfs_session_ends(const struct session *s); /* its device keeps what it has counted */
void sysfs_identity(struct container *c);	  /* its address has changed */
void sysfs_init(struct ctl *ctl);
void sysfs_wake(struct ctl *ctl); /* a container has a session: counters are kept up to date */
void sysfs_remove(int dir_fd);	  /* of a container that is no more */

#endif
