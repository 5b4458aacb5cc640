/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * grpc.h - gRPC over HTTP/2 on a Unix socket, as much of it as a device plug-in needs: unary calls and streams of
 * answers, either side, uncompressed. nghttp2 does the frames; who sends broken ones loses the connection.
 *
 * The room ffr/k8s/ is ff-device-plugin, a program of its own on a node of Kubernetes: this, and what it says to the
 * kubelet (plugin.c). It may use lib/. One thread.
 */
#ifndef FFR_K8S_GRPC_H
#define FFR_K8S_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRPC_BODY_MAX (256u << 10) /* bytes of a request, or of an answer */
#define GRPC_STREAMS  32u	   /* of a connection at a time */

enum grpc_status {
	GRPC_OK = 0,
	GRPC_UNKNOWN = 2,
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_INTERNAL = 13,
};

struct grpc; /* a connection */
struct grpc_call;

/* A server's: a whole request is there; answered by grpc_send() and grpc_end(), now or later. */
typedef void (*grpc_serve_cb)(void *arg, struct grpc_call *c, const char *path, const uint8_t *msg,
			      size_t len);
/* The call is gone, whoever ended it. */
typedef void (*grpc_gone_cb)(void *arg, struct grpc_call *c);
/* A client's: its call has ended with that status; -1: without one. Not called by grpc_free(). */
typedef void (*grpc_done_cb)(void *arg, int status, const char *text);

/* Take fd, a connected socket that does not block. NULL without memory. */
struct grpc *grpc_server(int fd, grpc_serve_cb serve, grpc_gone_cb gone, void *arg);
/* A connection for one call. */
struct grpc *grpc_client(int fd, const char *path, const void *msg, size_t len, grpc_done_cb done,
			 void *arg);
void grpc_free(struct grpc *g);
int grpc_fd(const struct grpc *g);
bool grpc_wants_write(const struct grpc *g);
/* Read and write what can be. 0, or -errno: the connection is of no more use. */
int grpc_io(struct grpc *g);

/* A message of the answer. 0 or -errno. */
int grpc_send(struct grpc_call *c, const void *msg, size_t len);
/* text: printable ASCII without '%', or NULL. */
void grpc_end(struct grpc_call *c, enum grpc_status status, const char *text);

#endif
