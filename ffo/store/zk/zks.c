/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * zks.c - the store that many orchestrators share: a tree in ZooKeeper. See store.h for what a
 * store is, zks.h for the tree and the files. The orchestrator's loop only.
 *
 * open() reads "ADDRESS:PORT[,ADDRESS:PORT...][/ROOT][?OPTION[&OPTION...]]":
 *	timeout=MS	of the session, 1000..60000; the servers have limits of their own
 *	auth=FILE	holds "SCHEME:CREDENTIALS" (digest:user:password) in its first line, which all
 *			hosts share; and perhaps more, see read_auth_line()
 *	auth=none-anyone-may-change-the-cluster
 *			no credentials; without this word and without a file it is not opened
 *
 * A session's life: connected, the tree's version is checked (or the tree made), STORE_READY. The
 * connection goes: STORE_AWAY; back again with the same session: READY. Gone for longer than the
 * session lives: what was ephemeral is forgotten, STORE_LOST, and everything watched is read again.
 */
#include "ffo/store/zk/zks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define TREE_VERSION	2u
#define ROOT_DEFAULT	"/freeflow"
#define TIMEOUT_DEFAULT 6000u /* ms */
#define RETRY		20u   /* ms */

/* The folders that are always there. */
static const char *const folders[] = { "/ids",	 "/containers", "/names",  "/lids", "/addrs",
				       "/owned", "/hosts",	"/active", "/mcast" };

#define NUM_FOLDERS (sizeof(folders) / sizeof(folders[0]))

int zks_usable(const struct zks *s)
{
	if (s->closing)
		return -ECANCELED;
	if (s->refused)
		return -EBADMSG;
	return s->ready ? 0 : -ENOTCONN;
}

void *zks_call_new(const struct zks *s, size_t size, int *err)
{
	void *call;

	*err = zks_usable(s);
	if (*err)
		return NULL;
	call = calloc(1, size);
	if (!call)
		*err = -ENOMEM;
	return call;
}

int zks_damage(struct zks *s, const char *path, int err)
{
	if (err == -EBADMSG)
		log_client(&s->damage, LOG_LEVEL_ERR, "ZooKeeper: %s%s is damaged", s->root, path);
	else if (err == -EPROTO)
		log_client(&s->damage, LOG_LEVEL_ERR,
			   "ZooKeeper: %s%s is of a version that this ffo does not know", s->root,
			   path);
	return err == -EPROTO ? -EBADMSG : err;
}

void zks_parent(const char *path, char *parent)
{
	size_t len = (size_t)(strrchr(path, '/') - path);

	memmove(parent, path, len);
	parent[len] = '\0';
}

int zks_mkdirs(struct zks *s, const char *path, zk_cb cb, void *arg)
{
	const char *slash = strchr(path + 1, '/');
	char part[ZK_PATH_MAX];
	int err = 0;

	while (slash && !err) {
		slash = strchr(slash + 1, '/');
		snprintf(part, sizeof(part), "%.*s",
			 slash ? (int)(slash - path) : (int)strlen(path), path);
		err = zk_create(s->zk, part, "", 0, ZK_CONTAINER, slash ? NULL : cb,
				slash ? NULL : arg);
	}
	return err;
}

static void retry(uv_timer_t *t)
{
	struct zks *s = t->data;

	follow_pump(s);
	ephemeral_pump(s);
}

void zks_retry(struct zks *s)
{
	if (s->ready && !s->closing && !uv_is_active((uv_handle_t *)&s->retry))
		uv_timer_start(&s->retry, retry, RETRY, 0);
}

/* ---- the session ---------------------------------------------------------------------------- */

static void tree_check(struct zks *s);

static void ready(struct zks *s)
{
	s->ready = true;
	s->was_ready = true;
	follow_pump(s);
	ephemeral_pump(s);
	s->state(s->arg, STORE_READY);
}

/* The tree is not to be used, until it is another one. */
static void refuse(struct zks *s, const char *why)
{
	if (!s->refused)
		log_err("ZooKeeper: the tree %s of %s %s", *s->root ? s->root : "/", s->servers,
			why);
	s->refused = true;
}

static void tree_made(void *arg, const struct zk_reply *r)
{
	struct zks *s = arg;

	s->others_made = r->err == -EEXIST;
	if (r->err == -EACCES)
		refuse(s, "cannot be made: no permission");
	else if (!r->err || s->others_made)
		tree_check(s);
	else if (r->err != -ENOTCONN && r->err != -ECANCELED)
		log_err("ZooKeeper: the tree %s cannot be made: %s", s->root, strerror(-r->err));
}

/* The folders of the hosts that an operator's file names, and of what they own. */
static void enrol_hosts(struct zks *s)
{
	char path[ZK_PATH_MAX];

	for (size_t i = 0; i < s->num_enrolled; i++) {
		snprintf(path, sizeof(path), "/hosts/%s", s->enrolled[i].name);
		zk_enrol(s->zk, path, s->enrolled[i].id, NULL, NULL);
		snprintf(path, sizeof(path), "/owned/%s", s->enrolled[i].name);
		zk_create(s->zk, path, "", 0, ZK_PERSISTENT, NULL, NULL);
	}
}

/* With credentials of its own, a host makes no tree: it is told when an operator has. */
static void tree_wait(struct zks *s)
{
	log_warn("ZooKeeper: there is no tree %s yet: an operator's ffo makes it", s->root);
	zk_exists(s->zk, "/version", true, NULL, NULL);
}

static void tree_make(struct zks *s)
{
	char version[REC_NUMBER_MAX];
	size_t version_len = rec_number(TREE_VERSION, version), policy_len;
	char *policy = rec_policy(NULL, 0, &policy_len);
	struct zk_multi *m = zk_multi_new(s->zk);

	if (!policy || !m) {
		log_err("ZooKeeper: out of memory");
		free(policy);
		if (m)
			zk_multi_drop(m);
		return;
	}
	zk_create_root(s->zk, NULL, NULL);
	zk_multi_create(m, "/version", version, version_len, ZK_PERSISTENT);
	zk_multi_create(m, "/policy", policy, policy_len, ZK_PERSISTENT);
	for (size_t i = 0; i < NUM_FOLDERS; i++)
		zk_multi_create(m, folders[i], "", 0, ZK_PERSISTENT);
	zk_multi_send(m, tree_made, s);
	free(policy);
}

static void rights_known(void *arg, const struct zk_reply *r)
{
	struct zks *s = arg;

	s->is_open |= r->is_open;
	if (r->err && !s->rights_err)
		s->rights_err = r->err;
}

static void rights_checked(void *arg, const struct zk_reply *r)
{
	struct zks *s = arg;

	rights_known(s, r);
	if (s->rights_err == -ENOTCONN || s->rights_err == -ECANCELED)
		return; /* there will be another connection */
	if (s->rights_err)
		refuse(s, "does not tell who may use it");
	else if (s->is_open)
		refuse(s,
		       "is open to all who have no credentials: somebody made it without any. Remove it, or "
		       "begin with another root");
	if (s->rights_err || s->is_open)
		return;
	s->refused = false;
	enrol_hosts(s);
	ready(s);
}

/*
 * A stranger who reaches the ensemble may make a tree before the operators do, and leave it open to clients without
 * credentials. The root's rights alone do not show that: the stranger may have made folders in an open root and closed
 * the root after that. So the rights of all folders are read, and the root's last.
 */
static void rights_check(struct zks *s)
{
	int err = zk_get_acl(s->zk, "/version", rights_known, s);

	s->is_open = false;
	s->rights_err = 0;
	if (!err)
		err = zk_get_acl(s->zk, "/policy", rights_known, s);
	for (size_t i = 0; !err && i < NUM_FOLDERS; i++)
		err = zk_get_acl(s->zk, folders[i], rights_known, s);
	if (!err)
		err = zk_get_acl(s->zk, "", rights_checked, s);
	if (err && err != -ENOTCONN)
		log_err("ZooKeeper: who may use the tree %s cannot be asked: %s", s->root,
			strerror(-err));
}

static void tree_checked(void *arg, const struct zk_reply *r)
{
	struct zks *s = arg;
	uint32_t version = 0;
	char why[96];
	int err = r->err;

	if (err == -ENOTCONN || err == -ECANCELED)
		return; /* there will be another connection */
	if (err == -ENOENT) {
		/* An ffo makes all nodes of a tree in one step, so another ffo would have made /version, too. */
		if (s->others_made)
			refuse(s,
			       "cannot be made: somebody has made a part of it. Remove it, or begin with another root");
		else if (zk_is_operator(s->zk))
			tree_make(s);
		else
			tree_wait(s);
		return;
	}
	if (!err)
		err = rec_to_number(r->data, r->len, &version);
	if (err == -EACCES) {
		refuse(s, "cannot be read: no permission");
	} else if (err) {
		refuse(s, "has a version that makes no sense");
	} else if (version != TREE_VERSION) {
		snprintf(why, sizeof(why), "is of version %u, this ffo knows %u", version,
			 TREE_VERSION);
		refuse(s, why);
	} else if (*s->auth) {
		rights_check(s);
	} else {
		s->refused = false;
		ready(s);
	}
}

static void tree_check(struct zks *s)
{
	zk_sync(s->zk, NULL, NULL);
	zk_get(s->zk, "/version", false, tree_checked, s);
}

static void connected(void *arg, bool fresh, bool watches)
{
	struct zks *s = arg;

	zk_session(s->zk, &s->session);
	s->others_made = false;
	if (!watches)
		follow_all(s);
	if (fresh || !s->was_ready)
		tree_check(s);
	else
		ready(s);
}

static void disconnected(void *arg)
{
	struct zks *s = arg;

	if (!s->ready)
		return;
	s->ready = false;
	s->state(s->arg, STORE_AWAY);
}

static void expired(void *arg)
{
	struct zks *s = arg;
	bool was = s->was_ready;

	s->was_ready = false;
	uphost_all_lost(s, -ESHUTDOWN);
	if (was)
		s->state(s->arg, STORE_LOST);
}

static void changed(void *arg, const char *path, enum zk_change what)
{
	struct zks *s = arg;

	(void)what;
	if (!s->was_ready && !strcmp(path, "/version"))
		tree_check(s);
	follow_changed(s, path);
}

static const struct zk_events events = {
	.connected = connected,
	.disconnected = disconnected,
	.expired = expired,
	.changed = changed,
};

/* ---- open and close ------------------------------------------------------------------------- */

static int enrol_line(struct zks *s, const char *name, const char *id)
{
	struct zks_host *more;

	if (!ffo_name_ok(name) || strlen(id) >= sizeof(more->id) || !strchr(id, ':'))
		return -EINVAL;
	more = reallocarray(s->enrolled, s->num_enrolled + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	s->enrolled = more;
	more += s->num_enrolled++;
	snprintf(more->name, sizeof(more->name), "%s", name);
	snprintf(more->id, sizeof(more->id), "%s", id);
	return 0;
}

/*
 * A line behind the first:
 *	own digest:USER:PASSWORD	this host's, or operator's
 *	operator USER:HASH		whose operators' are
 *	host NAME USER:HASH		an operator's file: a host, and whose its are
 */
static int read_auth_line(struct zks *s, char *line)
{
	char *save, *word = strtok_r(line, " \t", &save), *a, *b;

	if (!word || *word == '#')
		return 0;
	a = strtok_r(NULL, " \t", &save);
	b = strtok_r(NULL, " \t", &save);
	if (!a || strtok_r(NULL, " \t", &save))
		return -EINVAL;
	if (!strcmp(word, "host"))
		return b ? enrol_line(s, a, b) : -EINVAL;
	if (b)
		return -EINVAL;
	if (!strcmp(word, "own") && strlen(a) < sizeof(s->own))
		snprintf(s->own, sizeof(s->own), "%s", a);
	else if (!strcmp(word, "operator") && strlen(a) < sizeof(s->operator_id) && strchr(a, ':'))
		snprintf(s->operator_id, sizeof(s->operator_id), "%s", a);
	else
		return -EINVAL;
	return 0;
}

static int read_auth_file(struct zks *s, FILE *f, const char *file)
{
	char line[512];
	int err = 0;

	for (unsigned int n = 1; !err && fgets(line, sizeof(line), f); n++) {
		line[strcspn(line, "\r\n")] = '\0';
		if (n > 1)
			err = read_auth_line(s, line);
		else if (strchr(line, ':') && strlen(line) < sizeof(s->auth))
			strcpy(s->auth, line);
		else
			err = -EINVAL;
		if (err)
			log_err("store zookeeper: %s:%u: %s", file, n,
				n > 1 ? "must be own digest:USER:PASSWORD, operator USER:HASH or "
					"host NAME USER:HASH" :
					"must be SCHEME:CREDENTIALS");
	}
	explicit_bzero(line, sizeof(line));
	if (err)
		return err;
	if (!*s->auth || !*s->own != !*s->operator_id) {
		log_err("store zookeeper: %s has no %s", file,
			!*s->auth ? "SCHEME:CREDENTIALS in its first line" :
			!*s->own  ? "line with \"own\", as \"operator\" needs it" :
				    "line with \"operator\", as \"own\" needs it");
		return -EINVAL;
	}
	if (!*s->own)
		log_warn(
			"store zookeeper: %s has credentials that all hosts share, and none of this "
			"host's own: each host can change what is another's",
			file);
	return 0;
}

static int read_auth(struct zks *s, const char *file)
{
	FILE *f = fopen(file, "re");
	struct stat st;
	int err;

	if (!f) {
		log_err("store zookeeper: %s: %m%s", file,
			errno == EACCES ? ": the daemon's user reads it, so it is of that user's "
					  "group, with mode 0640" :
					  "");
		return -EINVAL;
	}
	if (!fstat(fileno(f), &st) && (st.st_mode & 0007))
		log_warn("store zookeeper: %s can be read or changed by everybody", file);
	err = read_auth_file(s, f, file);
	fclose(f);
	return err;
}

static int read_option(struct zks *s, const char *option)
{
	unsigned long ms;
	char *end;

	if (!strcmp(option, "auth=" ZKS_OPEN_TO_ALL)) {
		s->open_to_all = true;
		return 0;
	}
	if (!strncmp(option, "auth=", 5))
		return read_auth(s, option + 5);
	if (!strncmp(option, "timeout=", 8)) {
		ms = strtoul(option + 8, &end, 10);
		if (!*end && ms >= 1000 && ms <= 60000) {
			s->timeout = (unsigned int)ms;
			return 0;
		}
	}
	log_err("store zookeeper: wrong option \"%s\"", option);
	return -EINVAL;
}

static int read_where(struct zks *s, const char *where)
{
	size_t servers = strcspn(where, "/?"), root = strcspn(where + servers, "?");
	const char *options = where + servers + root;
	char one[512];
	int err = 0;

	s->timeout = TIMEOUT_DEFAULT;
	if (servers >= sizeof(s->servers) || root >= sizeof(s->root)) {
		log_err("store zookeeper:%s: too long", where);
		return -EINVAL;
	}
	snprintf(s->servers, sizeof(s->servers), "%.*s", (int)servers, where);
	snprintf(s->root, sizeof(s->root), "%.*s", (int)root, where + servers);
	if (!root)
		strcpy(s->root, ROOT_DEFAULT);
	if (!strcmp(s->root, "/"))
		*s->root = '\0';
	while (*options && !err) {
		size_t len = strcspn(++options, "&");

		snprintf(one, sizeof(one), "%.*s", (int)len, options);
		err = read_option(s, one);
		options += len;
	}
	if (!err && !*s->auth == !s->open_to_all) {
		log_err("store zookeeper:%s: %s", where,
			*s->auth ?
				"credentials, or none? not both" :
				"no auth=FILE: whoever reaches the ensemble could change the whole "
				"cluster; auth=" ZKS_OPEN_TO_ALL " if that is meant");
		err = -EINVAL;
	}
	return err;
}

static void timer_closed(uv_handle_t *h)
{
	struct zks *s = h->data;

	if (--s->refs)
		return;
	free(s->enrolled);
	free(s);
}

static void timer_add(struct zks *s, uv_timer_t *t)
{
	uv_timer_init(s->loop, t);
	t->data = s;
	s->refs++;
}

int zks_open(const struct store_conf *conf, struct ffo_store **out)
{
	struct zks *s = calloc(1, sizeof(*s));
	struct zk_conf zk = { 0 };
	int err;

	if (!s)
		return -ENOMEM;
	s->base.ops = &store_zk;
	s->loop = conf->loop;
	s->alloc = conf->alloc;
	s->state = conf->state;
	s->arg = conf->arg;
	s->topics.unused = subject_unused;
	STAILQ_INIT(&s->unread);
	STAILQ_INIT(&s->urgent);
	STAILQ_INIT(&s->segments);
	LIST_INIT(&s->hosts);
	LIST_INIT(&s->ending);
	err = read_where(s, conf->where);
	if (err)
		goto err_free;
	zk = (struct zk_conf){ .servers = s->servers,
			       .root = s->root,
			       .timeout = s->timeout,
			       .auth = *s->auth ? s->auth : NULL,
			       .own = *s->own ? s->own : NULL,
			       .operator_id = s->operator_id };
	err = zk_open(s->loop, &zk, &events, s, &s->zk);
	if (err) {
		log_err("store zookeeper:%s: %s", conf->where,
			err == -EINVAL ? "must be ADDRESS:PORT[,...][/ROOT], with numbers" :
					 strerror(-err));
		goto err_free;
	}
	timer_add(s, &s->retry);
	timer_add(s, &s->flush);
	timer_add(s, &s->linger);
	*out = &s->base;
	return 0;

err_free:
	free(s->enrolled);
	free(s);
	return err;
}

void zks_close(struct ffo_store *base)
{
	struct zks *s = zks_of(base);

	if (!s)
		return;
	s->closing = true;
	s->ready = false;
	zk_close(s->zk); /* ends all calls that wait for an answer */
	uphost_all_lost(s, -ECANCELED);
	held_sweep(s, true);
	uv_close((uv_handle_t *)&s->retry, timer_closed);
	uv_close((uv_handle_t *)&s->flush, timer_closed);
	uv_close((uv_handle_t *)&s->linger, timer_closed);
}

void zks_backup(struct ffo_store *base, store_backup_cb done, void *arg)
{
	(void)base;
	done(arg, -EOPNOTSUPP,
	     "the store is in ZooKeeper: keep copies of the data directory of one of its servers instead",
	     NULL, 0);
}

/* A change is one request to ZooKeeper, which makes it or not. */
int zks_try_next(struct ffo_store *base)
{
	(void)base;
	return -EOPNOTSUPP;
}

const struct ffo_store_ops store_zk = { .name = "zookeeper",
#define X(op) .op = zks_##op,
					FFO_STORE_OPS(X)
#undef X
};
