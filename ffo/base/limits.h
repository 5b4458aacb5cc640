/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * limits.h - the list of ffo_limits.h as a table, and as JSON: an object of what is limited,
 * {"tx_rate":125000000,"max_qp":64}. Used by the orchestrator, the routers and ffctl. Any thread.
 */
#ifndef FFO_BASE_LIMITS_H
#define FFO_BASE_LIMITS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "ffo/base/ffo_limits.h"

enum ffo_limit_kind {
	FFO_LIMIT_RATE,
	FFO_LIMIT_COUNT,
	FFO_LIMIT_BYTES,
	FFO_LIMIT_CPUS,
	FFO_LIMIT_FLAG
};

enum ffo_limit_nr {
#define X(name, kind, max, tenant, what) FFO_LIMIT_NR_##name,
	FFO_LIMITS(X)
#undef X
		FFO_NUM_LIMITS
};

struct ffo_limit {
	const char *name;
	enum ffo_limit_kind kind;
	uint64_t max;
	bool tenant; /* can be set for a tenant as well */
	const char *what;
	size_t offset; /* in struct ffo_limits */
};

extern const struct ffo_limit ffo_limit[FFO_NUM_LIMITS];

/* What is to become of some limits. */
struct ffo_limits_change {
	uint32_t set; /* bit i: ffo_limit[i] becomes as in `to`, the others stay */
	struct ffo_limits to;
};

static inline uint64_t *ffo_limit_of(struct ffo_limits *l, size_t i)
{
	return (uint64_t *)((char *)l + ffo_limit[i].offset);
}

/* Has a host a default for it? Then FFO_UNLIMITED can be said. */
bool ffo_limit_has_default(size_t i);
/* FFO_DEFAULTS: all others are 0. */
extern const struct ffo_limits ffo_limits_default, ffo_limits_untrusted;
/* What is in force: `told`, with `defaults` where it says nothing (NULL: none); 0: no limit. */
struct ffo_limits ffo_limits_in_force(const struct ffo_limits *told,
				      const struct ffo_limits *defaults);

/*
 * The number of the first limit of which more is asked for than somebody may have who is not trusted, such as a pod's
 * author; FFO_NUM_LIMITS: there is none. That is the host's default, or the default of weight and latency. A limit that
 * the tenant has may be asked for as high as one likes: it holds for all of the tenant's containers together.
 */
size_t ffo_limits_beyond(const struct ffo_limits *asked, const struct ffo_limits *defaults,
			 const struct ffo_limits *tenant);

/* Is anything limited? */
bool ffo_limits_any(const struct ffo_limits *l);
void ffo_limits_apply(struct ffo_limits *l, const struct ffo_limits_change *change);
/*
 * A request's object, which may name them all, or those that a tenant can have. 0, or -EINVAL with
 * one line in why[].
 */
int ffo_limits_change_parse(json_t *j, bool tenant, struct ffo_limits_change *change, char *why,
			    size_t size);
/* Those that are not 0; NULL: no memory. */
json_t *ffo_limits_to_json(const struct ffo_limits *l);
/* NULL: none. Names that are not known are of a newer version and left out. 0 or -EINVAL. */
int ffo_limits_from_json(json_t *j, struct ffo_limits *l);

#endif
