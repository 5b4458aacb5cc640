/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * limits.c - see limits.h. Any thread.
 */
#include "ffo/base/limits.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct ffo_limit ffo_limit[] = {
#define X(name, kind, max, tenant, what)                                                           \
	{ #name, FFO_LIMIT_##kind, max, tenant, what, offsetof(struct ffo_limits, name) },
	FFO_LIMITS(X)
#undef X
};
static_assert(FFO_NUM_LIMITS <= 32, "bits of ffo_limits_change.set");
static_assert(sizeof(struct ffo_limits) == FFO_NUM_LIMITS * sizeof(uint64_t), "no padding");

const struct ffo_limits ffo_limits_default = {
#define X(name, normal, untrusted) .name = normal,
	FFO_DEFAULTS(X)
#undef X
};
const struct ffo_limits ffo_limits_untrusted = {
#define X(name, normal, untrusted) .name = untrusted,
	FFO_DEFAULTS(X)
#undef X
		.no_uffd = 1,
};

bool ffo_limit_has_default(size_t i)
{
	struct ffo_limits l = ffo_limits_default;

	return *ffo_limit_of(&l, i) != 0;
}

struct ffo_limits ffo_limits_in_force(const struct ffo_limits *told,
				      const struct ffo_limits *defaults)
{
	static const struct ffo_limits none;
	struct ffo_limits l = *told, d = defaults ? *defaults : none;

	for (size_t i = 0; i < FFO_NUM_LIMITS; i++) {
		uint64_t *n = ffo_limit_of(&l, i);

		if (!*n)
			*n = *ffo_limit_of(&d, i);
		if (*n == FFO_UNLIMITED)
			*n = 0;
	}
	return l;
}

size_t ffo_limits_beyond(const struct ffo_limits *asked, const struct ffo_limits *defaults,
			 const struct ffo_limits *tenant)
{
	static const struct ffo_limits none;
	struct ffo_limits want = *asked, most = ffo_limits_in_force(&none, defaults);
	struct ffo_limits all = *tenant;
	size_t i;

	most.weight = FFO_WEIGHT_DEFAULT;
	for (i = 0; i < FFO_NUM_LIMITS; i++) {
		uint64_t n = *ffo_limit_of(&want, i), max = *ffo_limit_of(&most, i);
		bool bounded = max ||
			       i == FFO_LIMIT_NR_latency; /* of the others none is no limit */

		if (bounded && n > max && !*ffo_limit_of(&all, i))
			break;
	}
	return i;
}

bool ffo_limits_any(const struct ffo_limits *l)
{
	static const struct ffo_limits none;

	return memcmp(l, &none, sizeof(none));
}

void ffo_limits_apply(struct ffo_limits *l, const struct ffo_limits_change *change)
{
	struct ffo_limits to = change->to;

	for (size_t i = 0; i < FFO_NUM_LIMITS; i++)
		if (change->set & 1u << i)
			*ffo_limit_of(l, i) = *ffo_limit_of(&to, i);
}

static size_t find(const char *name)
{
	size_t i = 0;

	while (i < FFO_NUM_LIMITS && strcmp(name, ffo_limit[i].name))
		i++;
	return i;
}

static bool value_ok(size_t i, json_t *value)
{
	json_int_t n = json_integer_value(value);

	return json_is_integer(value) && ((n >= 0 && (uint64_t)n <= ffo_limit[i].max) ||
					  (n == FFO_UNLIMITED && ffo_limit_has_default(i)));
}

int ffo_limits_change_parse(json_t *j, bool tenant, struct ffo_limits_change *change, char *why,
			    size_t size)
{
	const char *name;
	json_t *value;
	size_t i;

	memset(change, 0, sizeof(*change));
	json_object_foreach(j, name, value) {
		i = find(name);
		if (i == FFO_NUM_LIMITS) {
			snprintf(why, size, "there is no limit \"%.*s\"",
				 (int)strspn(name, "abcdefghijklmnopqrstuvwxyz_"), name);
			return -EINVAL;
		}
		if (tenant && !ffo_limit[i].tenant) {
			snprintf(why, size, "limit \"%s\" is a container's, not a tenant's",
				 ffo_limit[i].name);
			return -EINVAL;
		}
		if (!value_ok(i, value)) {
			snprintf(why, size, "limit \"%s\" must be an integer from 0 to %" PRIu64,
				 ffo_limit[i].name, ffo_limit[i].max);
			return -EINVAL;
		}
		change->set |= 1u << i;
		*ffo_limit_of(&change->to, i) = (uint64_t)json_integer_value(value);
	}
	return 0;
}

json_t *ffo_limits_to_json(const struct ffo_limits *l)
{
	struct ffo_limits copy = *l;
	json_t *j = json_object();
	uint64_t n;

	for (size_t i = 0; i < FFO_NUM_LIMITS; i++) {
		n = *ffo_limit_of(&copy, i);
		if (n && json_object_set_new(j, ffo_limit[i].name, json_integer((json_int_t)n))) {
			json_decref(j);
			return NULL;
		}
	}
	return j;
}

int ffo_limits_from_json(json_t *j, struct ffo_limits *l)
{
	const char *name;
	json_t *value;
	size_t i;

	memset(l, 0, sizeof(*l));
	if (!j)
		return 0;
	if (!json_is_object(j))
		return -EINVAL;
	json_object_foreach(j, name, value) {
		i = find(name);
		if (i == FFO_NUM_LIMITS)
			continue;
		if (!value_ok(i, value))
			return -EINVAL;
		*ffo_limit_of(l, i) = (uint64_t)json_integer_value(value);
	}
	return 0;
}
