/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * unit.c - what systemd says of the router. Called by main.c before it connects, and by doctor_host.c.
 *
 * systemd listens at the router's admin socket, and starts the router when somebody connects. That is
 * meant for a router that is about to start. One that an operator has stopped stays stopped: so ffctl
 * does not connect then. Where the unit is masked, systemd starts nothing, and whoever listens is a router in a
 * container (deploy/kubernetes/router.yaml). A call of systemctl takes some ms, where systemd runs.
 *
 * Tests: packages/install.sh, system/doctor.sh
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ffr/ffctl/ffctl.h"

bool unit_is(const char *unit, const char *property, const char *value)
{
	char command[128], said[64] = "";
	FILE *f;

	snprintf(command, sizeof(command), "systemctl show -P %s %s 2>/dev/null", property, unit);
	f = popen(command, "re");
	if (!f)
		return false;
	if (!fgets(said, sizeof(said), f))
		said[0] = '\0';
	pclose(f);
	said[strcspn(said, "\n")] = '\0';
	return !strcmp(said, value);
}

bool systemd_runs(void)
{
	return !access("/run/systemd/system", F_OK); /* as sd_booted() */
}

enum router_home router_home(void)
{
	if (!systemd_runs())
		return HOME_SHELL;
	return unit_is("ffr.service", "LoadState", "masked") ? HOME_POD : HOME_SYSTEMD;
}

bool unit_was_stopped(void)
{
	return !access("/run/systemd/units", F_OK) &&
	       unit_is("ffr.service", "LoadState", "loaded") &&
	       unit_is("ffr.service", "ActiveState", "inactive") &&
	       unit_is("ffr.service", "Job", ""); /* nor is it to be started */
}
