/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * commands.h - the one table of ffctl's commands. The dispatch, the help and the completions (commands.c), and the
 * prototypes of the functions (ffctl.h) are made from it. A command's function asks the router for an op of
 * ADMIN_OPS (ffr/admin/admin.h), or for one of the orchestrator's (FFO_OPS in ffo/base/proto.h), which the router
 * passes on as it is.
 */
#ifndef FFR_FFCTL_COMMANDS_H
#define FFR_FFCTL_COMMANDS_H

/*
 * X(group, word, function, args, what, options). word NULL: a command of one word. options: a line for each,
 * "--option VALUE: text\n"; names in capitals are texts of commands.c. --json and --help belong to every command.
 */
#define COMMANDS(X)                                                                                \
	X("container", "add", cmd_container_add, "NAME [LIMIT]...",                                \
	  "add a container to this host",                                                          \
	  "--ip ADDRESS: its address; up to 8 times; default: one of IPv4 and one of IPv6\n"       \
	  "--tenant TENANT: the tenant that it belongs to; default: default\n"                     \
	  "--device-name NAME: what its programs see the RDMA device as; default: ff0\n"           \
	  "--devices N: so many RDMA devices, 1 to 16\n" MODE CGROUP UNTRUSTED                     \
	  "--exist-ok: no error if it is there with this tenant and these addresses\n" DOCKER      \
		  DRY_RUN)                                                                         \
	X("container", "set", cmd_container_set, "NAME [LIMIT]...", "change a container",          \
	  "--ip ADDRESS: its address instead of those that it has; up to 8 times\n" MODE CGROUP    \
		  UNTRUSTED DRY_RUN)                                                               \
	X("container", "rm", cmd_container_rm, "NAME", "remove a container",                       \
	  "--ignore: no error if there is none\n" DRY_RUN)                                         \
	X("container", "list", cmd_container_list, "", "list the containers", LIST)                \
	X("container", "show", cmd_container_show, "NAME", "show a container", DOCKER)             \
	X("container", "check", cmd_container_check, "NAME --pid PID",                             \
	  "tell why a process has no device", "--pid PID: the process, by this host's number\n")   \
	X("container", "thread", cmd_container_thread, "NAME THREAD",                              \
	  "have a container served by another fast thread", "")                                    \
	X("container", "nic", cmd_container_nic, "NAME DEVICE[:PORT]",                             \
	  "have a container use another NIC", "")                                                  \
	X("container", "migrate", cmd_container_migrate, "NAME --to HOST",                         \
	  "move a container to another host", "--to HOST: the host\n" FORCE DRY_RUN)               \
	X("container", "claim", cmd_container_claim, "NAME", "move a container to this host",      \
	  FORCE DOCKER DRY_RUN)                                                                    \
	X("ls", NULL, cmd_container_list, "", "list the containers, as container list", LIST)      \
	X("stats", NULL, cmd_stats, "[NAME]", "show counters, queue pairs and latencies",          \
	  "--tenant TENANT: the sums of a tenant's containers\n"                                   \
	  "--nonzero: only what is not 0\n"                                                        \
	  "--human: numbers with units, as 10.5MB and 3.2s\n"                                      \
	  "--watch SECONDS: again and again, with what was added per second\n"                     \
	  "--latency: how long requests took\n"                                                    \
	  "--qps: a line for each queue pair\n"                                                    \
	  "--mrs: a line for each memory region: what of it is copied, and why\n")                 \
	X("top", NULL, cmd_top, "", "show what containers do now",                                 \
	  "--interval SECONDS: time between two refreshes; default: 1\n"                           \
	  "--sort KEY: container, tx, rx, ops, latency, cpu, errors or tenant; default: tx\n"      \
	  "--once: print one table and end\n")                                                     \
	X("trace", NULL, cmd_trace, "CONTAINER", "show the last operations of a container",        \
	  "--qp N: of this queue pair only\n"                                                      \
	  "-n COUNT: at most so many; default: 20\n"                                               \
	  "--follow: go on until interrupted\n")                                                   \
	X("events", NULL, cmd_events, "", "show what happened on this host",                       \
	  "-n COUNT: at most so many; default: 20\n"                                               \
	  "--follow: go on until interrupted\n")                                                   \
	X("map", "list", cmd_map_list, "", "list the memory regions that are published",           \
	  "--container NAME: of this container only\n")                                            \
	X("map", "lookup", cmd_map_lookup, "CONTAINER|ADDRESS RKEY", "show what an rkey opens",    \
	  "--tenant TENANT: the tenant of the address; default: default\n")                        \
	X("host", "list", cmd_host_list, "", "list the hosts", "")                                 \
	X("host", "rm", cmd_host_rm, "HOST", "forget a host that is down for good",                \
	  "--ignore: no error if there is none\n" DRY_RUN)                                         \
	X("store", "accept", cmd_store_accept, "", "take the store that the orchestrator has now", \
	  "")                                                                                      \
	X("store", "backup", cmd_store_backup, "FILE", "copy the orchestrator's store to a file",  \
	  "")                                                                                      \
	X("store", "restore", cmd_store_restore, "FILE STORE", "make a store from a backup",       \
	  "--force: replace the store that is there\n")                                            \
	X("policy", "list", cmd_policy_list, "", "list the rules about who may talk to whom", "")  \
	X("policy", "allow", cmd_policy_change, "PARTY PARTY", "let two parties talk", DRY_RUN)    \
	X("policy", "deny", cmd_policy_change, "PARTY PARTY", "keep two parties from talking",     \
	  DRY_RUN)                                                                                 \
	X("policy", "rm", cmd_policy_change, "PARTY PARTY", "remove a rule", DRY_RUN)              \
	X("tenant", "set", cmd_tenant_set, "TENANT LIMIT...", "limit a tenant on each host",       \
	  DRY_RUN)                                                                                 \
	X("tenant", "rm", cmd_tenant_rm, "TENANT", "remove the limits of a tenant", DRY_RUN)       \
	X("tenant", "list", cmd_tenant_list, "", "list the tenants that have limits", "")          \
	X("cdi", NULL, cmd_cdi, "", "print the specification for --device of engines",             \
	  "--write [FILE]: write it to FILE; default: " CDI_FILE "\n")                             \
	X("doctor", NULL, cmd_doctor, "[CONTAINER]", "look for what is wrong on this host",        \
	  "--pid PID: a process that has no device\n"                                              \
	  "--image DIRECTORY: the root of an image: can its programs load the libraries?\n"        \
	  "--cdi FILE: the specification to look at; default: " CDI_FILE "\n"                      \
	  "--daemon-json FILE: Docker's configuration; default: /etc/docker/daemon.json\n")        \
	X("support-bundle", NULL, cmd_support_bundle, "FILE",                                      \
	  "pack what helpers want to see into a file",                                             \
	  "--config FILE: the router's configuration; default: /etc/freeflow/ffr.conf\n")          \
	X("ping", NULL, cmd_ping, "", "show the router's version and host name", "")               \
	X("help", NULL, cmd_help, "[COMMAND]", "show the commands, or the options of one", "")

#endif
