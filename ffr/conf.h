/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * conf.h - ffr.conf: the router's options, their defaults and ranges. See ffr.conf(5).
 */
#ifndef FFR_CONF_H
#define FFR_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ffo/base/ffo_limits.h"
#include "ffo/tls/tls.h"
#include "ffr/abi/ff_proto.h"
#include "ffr/abi/ff_ring.h"
#include "ffr/ctl/limits.h"
#include "ffr/fast/fast.h"
#include "ffr/nic/nic.h"
#include "ffr/rio/rio.h"
#include "ffr/lib/log.h"
#include "ffr/lib/sandbox.h"

#define CONF_PATH_DEFAULT    "/etc/freeflow/ffr.conf"
#define CONF_RUNTIME_DEFAULT "/run/freeflow"

struct ffr_conf {
	char *runtime_dir;
	char *admin_socket; /* NULL: <runtime_dir>/admin.sock */
	char *user; /* whom the router becomes, "NAME" or "UID:GID"; NULL: see user_find() */
	char *engine_group;    /* who may reach containers' folders besides root; NULL: nobody */
	char *hostname;	       /* this host's name for the orchestrator */
	struct nic_conf *nics; /* num_nics in a row, of which each names the next */
	uint32_t num_nics;
	uint32_t num_nic_networks, num_nic_gids; /* in the file */
	bool has_rio;				 /* rio_port is in the file */
	struct rio_conf rio;
	char *orchestrator; /* "embedded", "unix:/path", "tls:address:port" or "tcp:..." */
	char *store;	    /* embedded orchestrator: database file, or ":memory:";
			     NULL: <runtime_dir>/ffo.db */
	char **pools;	    /* embedded orchestrator: prefixes to allocate addresses from */
	uint32_t num_pools;
	char *cluster;	      /* routers of other clusters are refused */
	char *wire_listen;    /* "tcp:ADDR:PORT" for other hosts' routers; NULL: a single host */
	char *wire_advertise; /* the same as other hosts reach it; NULL: wire_listen */
	bool wire_tls;	      /* with the three files, which are also for an orchestrator at tls: */
	char *wire_cert;      /* this host's certificate, and those between it and the CA's */
	char *wire_key;	      /* its private key */
	char *wire_ca;	      /* who may sign the hosts' certificates */
	char *wire_crl;	      /* which of them are revoked; NULL: none is asked for */
	char *metrics;	      /* "tcp:ADDR:PORT" of the loopback or "unix:/path"; NULL: none */
	bool wire_check_addr; /* without TLS: a host comes from its own address only */
	uint32_t fence_after; /* s: orch/fence.c; 0: never */
	enum ff_mode mode;    /* of containers that do not say */
	enum log_level log_level;
	enum sandbox_mode sandbox;
	struct fast_conf fast; /* each fast thread's, but for its CPU */
	uint32_t fast_threads;
	int fast_cpu[FAST_THREADS_MAX]; /* -1: any */
	struct ffr_limits limits;
	struct ffo_limits defaults; /* of containers of whose limits nothing was said */
};

/* What is read for TLS, of other hosts and of an orchestrator at tls:; the strings stay the configuration's. */
struct tls_files conf_tls_files(const struct ffr_conf *c);

#define CONF_TEXT_MAX                                                                              \
	65535u /* bytes of the file: the parent sends them in one packet (keeper/parent.c) */
/*
 * The file's text, to be freed. path NULL: CONF_PATH_DEFAULT, which need not exist at the start. again: the file is
 * read once more, so it must be there, and a regular file. 0, or -errno with one line in err and *text NULL.
 */
int conf_read(const char *path, bool again, char **text, char *err, size_t size);
/*
 * Fill in the defaults and what the text says; path is for messages. 0, or -errno with one line, "file:line: what is
 * wrong", in err, and nothing to be freed.
 */
int conf_parse(struct ffr_conf *c, const char *path, char *text, char *err, size_t size);
/* Both, at the start. */
int conf_load(struct ffr_conf *c, const char *path, char *err, size_t size);
/* Does nobody come to the router, nor the router to anybody, by an address? */
bool conf_is_alone(const struct ffr_conf *c);
/* Replaces a string option by the command line's. 0 or -ENOMEM. */
int conf_override(char **option, const char *value);
void conf_free(struct ffr_conf *c);

#endif
