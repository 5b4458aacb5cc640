/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffctl.h - inside ffctl: the request to the router (main.c) or to the orchestrator (orch.c), the table of the commands
 * with their help (commands.c), commands (container.c, cdi.c, check.c, doctor.c, cluster.c,
 * store.c, policy.c, map.c, stats.c, top.c, trace.c, events.c, bundle.c), limits and tenants
 * (limits.c), tables (table.c), what is found to be wrong (findings.c). One thread; every error
 * ends the program with one line.
 *
 * The room ffr/ffctl/ is that program. It may use lib/, headers of obj/ for what is counted, ffo's client
 * side, and what oci/ knows of images, and speaks with the router by its socket only.
 */
#ifndef FFR_FFCTL_FFCTL_H
#define FFR_FFCTL_FFCTL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ffr/ffctl/commands.h"

#define EXIT_USAGE     2
#define EXIT_LATE      3
#define EXIT_NOT_FOUND 4 /* ENOENT of the router's or the orchestrator's */
#define EXIT_EXISTS    5 /* EEXIST */

#define ADMIN_DEFAULT "/run/freeflow/admin.sock"
#define RUN_DEFAULT   "/run/freeflow"

extern bool json_out; /* --json */
extern int answer_s;  /* --timeout: seconds that a request and its answer may take */

/* One line on stderr, or with --json an object, and exit 1, 2 for a wrong command line, or that status. */
void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void usage_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void fail_status(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3), noreturn));
/*
 * Ends ffctl with status 3 and a line on stderr: `who`, the router or the orchestrator, did not answer within answer_s.
 */
void late_fail(const char *who) __attribute__((noreturn));

/* ---- commands.c ---- */
void command_run(int argc, char **argv);
/* The help of the command, or of the group of commands, that argv begins with; argc 0: of ffctl. */
void help_words(int argc, char **argv);
struct option;
/* Those of the options whose letters are in that text; `some` has room for all. Returns some. */
const struct option *options_some(const struct option *all, const char *letters,
				  struct option *some);
/* What getopt_long() says of the last option: ':' without its value, or unknown to the command that runs. */
void option_fail(int o, char **argv) __attribute__((noreturn));
/* The value of an option, min..max; another one ends the program. */
long long option_number(const char *option, const char *text, long long min, long long max);
/* The command that runs takes no argument argv[at]. */
void no_more(int argc, char **argv, int at);

extern bool dry_run; /* --dry-run: changes are only tried */
/*
 * The request, which is taken, or with --dry-run one that has it tried. For each that changes the
 * orchestrator's store.
 */
json_t *change(json_t *request);
/*
 * After a change: with --dry-run people are told on stderr, and the object that is printed as JSON
 * says it.
 */
void dry_run_tell(json_t *j);

/* Ask the router; takes the request. Its answer without "ok"; errors end the program. */
json_t *router_call(json_t *request);
/* The same, so many times more while the answer is that error (its name). */
json_t *router_call_while(json_t *request, const char *error, unsigned tries);
/* The same; NULL: the answer is that error. */
json_t *router_call_unless(json_t *request, const char *error);
#define RETRY_US 50000 /* between two tries */
/* A program's end, and that of its mount namespace, is known some time after docker stop. */
#define BUSY_TRIES (2000000 / RETRY_US)
json_t *router_list(const char *op, const char *key); /* all pages of an array */
/*
 * One exchange, and no more: 0 and the answer, which may be an error of the router's, or -errno: of the socket,
 * -EAGAIN (nothing said within `timeout` seconds), -ECONNRESET (closed), -EPROTO.
 */
int router_try(const json_t *request, int timeout, json_t **answer);
/* Ask the router, also where the orchestrator is given; so many times more while it is that error. */
json_t *router_itself(json_t *request, const char *error, unsigned tries);
/*
 * Ask the router for what does not end with one answer. The answer; then router_next() waits for
 * each line that follows.
 */
struct router_stream;
json_t *router_follow(json_t *request, struct router_stream **s);
json_t *router_next(struct router_stream *s);
void json_print(json_t *j);
/* With --json: prints the answer, or its member of that name, and drops it; true. */
bool json_only(json_t *answer, const char *key);

/* ---- orch.c: the orchestrator itself, where it is given ---- */
#define OF_A_ROUTER "this is asked of a router: leave out --orchestrator"
extern struct orch_options {
	const char *address; /* NULL: requests go to the router */
	const char *cert, *key, *ca, *crl;
} orch_options;
/*
 * A router's request that is the orchestrator's. Its answer, with an "id" and "ok"; or -errno and a
 * line in orch_why(). What is no error of the orchestrator's ends the program.
 */
int orch_exchange(const json_t *request, json_t **answer);
const char *orch_why(void);

/* Members of an answer, with something sensible where they are missing. */
const char *str_of(const json_t *j, const char *key);
json_int_t int_of(const json_t *j, const char *key);

/* Seconds since 1970 as "2026-11-30 12:00:00", by the local time. Returns buf. (cluster.c) */
const char *time_of_day(json_int_t seconds, char buf[32]);

/* Called before an error ends the program; NULL: nothing is. */
extern void (*fail_hook)(void);

/* "{container: ...}" as add and show print it, or the flags of docker run; takes the answer. */
void print_container(json_t *answer, bool docker);
struct ffo_map;
json_t *map_json(const struct ffo_map *m); /* without the container */
const char *access_text(uint32_t access, char buf[64]);

/* The answer's "warning", if it has one, on stderr. */
void print_warning(const json_t *answer);

/* ---- policy.c ---- */
enum party_in { PARTY_HAS_RULE, PARTY_HAS_LIMITS };
/*
 * Adds a "warning" to that object if the store does not know the party, TENANT or TENANT/CONTAINER,
 * which is to have a rule or limits. Asked before the change, so that a question that fails changes
 * nothing.
 */
void warn_unknown(json_t *said, const char *party, enum party_in in);
/* Those of a command that has no other option than --dry-run. */
void change_options(int argc, char **argv);
/*
 * Prints the answer to a change with what was said of it; people see the warning only. Takes both.
 */
void print_change(json_t *answer, json_t *said);

/* ---- commands: argv[0] is the command's last word ------------------------------------------- */
#define X(group, word, run, args, what, options) void run(int argc, char **argv);
COMMANDS(X)
#undef X

/* ---- findings.c: what a command that looks for problems has found ---- */
enum finding_level { FINDING_OK, FINDING_NOTE, FINDING_PROBLEM };
struct findings {
	/* [{"ok": bool, "level": "ok", "note" or "problem", "text":, "advice":}], "advice" may be missing */
	json_t *list;
	unsigned problems;
};
/* advice: what to do, or NULL. Control characters of the text become '?'. */
void finding(struct findings *f, enum finding_level level, const char *advice, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void findings_end(struct findings *f); /* prints them; exit 1 if there are problems */

/* ---- check.c: why has that process no device? ---- */
pid_t pid_parse(const char *text);
void check_process(struct findings *f, const json_t *container, pid_t pid);

/* ---- doctor_host.c ---- */
void doctor_engines(struct findings *f, const char *daemon_json, const char *cdi,
		    const json_t *containers);
void doctor_image(struct findings *f, const char *path);
void doctor_rapidio(struct findings *f);
void doctor_libraries(struct findings *f);
void doctor_no_router(struct findings *f, int err);
/* Are these addresses, of container "name", those of the process's network? */
void doctor_addresses(struct findings *f, const json_t *container, pid_t pid);
/* Does somebody take connections at "tcp:ADDRESS:PORT"? 0 or -errno. */
int doctor_connect(const char *wire);

/* ---- cdi.c ---- */
#define CDI_FILE "/run/cdi/freeflow.json"
void cdi_refresh(void); /* the specification, where there is one, has what the router has now */
#define INSIDE_LIB "/usr/lib/freeflow" /* the libraries in a container */
bool lib_folder(
	char *dir); /* container.c: the folder of the libraries, PATH_MAX bytes; false: it is not there */
void find_lib(char *dir); /* the same, or the program ends */
const char *admin_socket(void);
/* unit.c: is that what systemd says of the unit? Not where there is no systemd. */
bool unit_is(const char *unit, const char *property, const char *value);
/* Is systemd this machine's init? */
bool systemd_runs(void);
/* What starts the router: systemd, a pod (docs/operate/kubernetes.md), or a command. Advice differs. */
enum router_home { HOME_SYSTEMD, HOME_POD, HOME_SHELL };
enum router_home router_home(void);
/* Has somebody stopped ffr.service? To connect to its socket would start it. */
bool unit_was_stopped(void);
const char *socket_dir(void); /* the router's runtime_dir, by the command line */

/* ---- tables ---------------------------------------------------------------------------------- */
struct table;
/* Column heads, NULL-terminated; one that starts with '>' is aligned to the right. */
struct table *table_new(const char *const *heads);
/* The next cell; a full row begins the next one. */
void table_cell(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void table_print(struct table *t); /* and free */
/* "10.5MB": bytes for people, in powers of 1024, as limits are written. Returns buf. */
const char *bytes_text(json_int_t n, char buf[16]);
const char *count_text(double n, char buf[16]);	  /* "10.5M", in powers of 1000 */
const char *time_text(uint64_t ns, char buf[16]); /* "10.5us" */
/* "10.5Gbit/s", of bytes per second: the unit of rates for people, as limits are written. */
const char *rate_text(double bytes, char buf[24]);

/* The seconds between two refreshes that `option` was given. (top.c) */
double interval_parse(const char *option, const char *text);

/* A histogram as the router tells it. */
struct lat;
void lat_from_json(struct lat *h, const json_t *j);

/* ---- limits ---------------------------------------------------------------------------------- */
#define LIMIT_OPTION 0x100 /* option values from here on are limits; below are letters */

/* Those options and, behind them, one for each limit, or each that a tenant can have. Valid until the next call. */
const struct option *limit_options(const struct option *first, bool tenant);
/* Option o was given with that value: into request["limits"]. */
void limit_take(json_t *request, int o, const char *text);
/* The limits of --untrusted, but those that the request has. */
void limit_take_untrusted(json_t *request);
void limit_help(bool tenant);

/* Columns of a list of containers for the rates that any of them has. */
struct limit_columns {
	const char *heads[16]; /* for table_new(): those given, then these */
	size_t num_heads;
	size_t limit[4], num; /* enum ffo_limit_nr */
	char name[4][32];
};
void limit_columns(struct limit_columns *cols, const json_t *list, const char *const *heads);
void limit_cells(const struct limit_columns *cols, struct table *t, const json_t *c);
/* Appends the limits per second to that text: "tx-rate 1Gbit (the tenant's)". */
void limit_rates_text(const json_t *limits, const char *whose, char *text, size_t size);
/* A container's limits, and what is in use of its quotas. */
void print_limits(const json_t *c);
/* Adds to `changed` each limit that differs: {"tx_rate": {"from": null, "to": 125000000}}. null: nothing is said. */
void limit_changes(const json_t *before, const json_t *after, json_t *changed);
/* "tx-rate: none -> 1Gbit"; false: that is the name of no limit. */
bool limit_print_change(const char *name, const json_t *from, const json_t *to);

#endif
