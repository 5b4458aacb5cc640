/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * import.h - what one session uses of another one's objects. See import.c. Control thread.
 */
#ifndef FFR_CTL_IMPORT_H
#define FFR_CTL_IMPORT_H

#include "ffr/obj/objects.h"

struct ctl_call;

/* DEALLOC_PD of an imported PD: of this session's handle only, or of the PD itself. 0 or -errno. */
int import_pd_dealloc(struct ctl_call *c, struct pd *handle, bool unimport);

/* The session of that device of the container from which this one imports, or NULL. */
struct session *import_source(struct session *s, unsigned device);

/* The end of a session, when its objects are gone. */
void import_session_free(struct session *s);

#endif
