# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Two containers of a lab with a program in each: how a pair is started, and what the router counted
meanwhile."""

import collections
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile

from ffbench import proc

CLIENT = "h0c0"

# runs: a generator function of a Stage. proof: what is looked at, for the table.
Program = collections.namedtuple("Program", "name package proof runs")


class Skipped(Exception):
    """A program that is not here; the text says which package has it."""


def want(condition, why):
    if not condition:
        raise proc.Failure(why)


class Stage:
    """The client runs in CLIENT, the server in `far`, on another host if the lab has one; `folder` is
    seen from both."""

    def __init__(self, lab):
        self.lab = lab
        self.far = "h1c0" if lab.hosts > 1 else "h0c1"
        self.address = lab.ip(self.far)
        self.folder = tempfile.mkdtemp(prefix="matrix.")
        self._ports = itertools.count(21000)
        self.port = 0

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        shutil.rmtree(self.folder)

    def clear(self):
        """No program of one row lives in the next one, and no file does."""
        proc.kill_all()
        for name in os.listdir(self.folder):
            os.unlink(os.path.join(self.folder, name))

    def new_port(self):
        self.port = next(self._ports)
        return self.port

    def path(self, name):
        return os.path.join(self.folder, name)

    # ---- counters ----

    def stats(self, container):
        host = container[:container.index("c")]
        out = proc.run([self.lab.tool, "ffctl", host, "--", "--json", "stats", container])
        (entry,) = json.loads(out)
        return {**entry, **entry["counters"]}

    def bytes_moved(self):
        """by the router, for both containers"""
        return self.stats(self.far)["tx_bytes"] + self.stats(CLIENT)["tx_bytes"]

    # ---- programs ----

    def start(self, container, *cmd, env=None, timeout=60):
        words = [f"{k}={v}" for k, v in (env or {}).items()]
        return proc.Background(self.lab.inside(
            container, *(["env", *words] if words else []), *cmd, timeout=timeout))

    def start_into(self, name, container, *cmd, timeout=60):
        """Its output is in path(name), to be read while it runs."""
        return self.start(container, "sh", "-c", 'out=$1; shift; exec "$@" >"$out"', "sh",
                          self.path(name), *cmd, timeout=timeout)

    def server(self, *cmd, env=None, timeout=30, ready=None):
        """Started, and ready: it listens at self.port with TCP or rdma_cm, or ready() says so."""
        def default():
            return self.lab.listens(self.far, self.port) or self.stats(self.far)["cm_listeners"]

        until(lambda: not (self.stats(self.far)["sessions"] or self.stats(self.far)["cm_listeners"]),
              "the end of the program before")
        started = self.start(self.far, *cmd, env=env, timeout=timeout)
        proc.wait_for(f"{cmd[0]}: listening",
                      lambda: started.ended() or (ready or default)(), 15)
        if started.ended():
            started.finish(1)
            raise proc.Failure(f"{cmd[0]}: the server has gone")
        return started

    def client(self, *cmd, env=None, timeout=30):
        """Its output."""
        return self.start(CLIENT, *cmd, env=env, timeout=timeout).finish(timeout + 5)

    def pair(self, server, client, env=None, timeout=30, min_bytes=0):
        """Both end well, and the router moved so many bytes: (output of server, of client)"""
        before = self.bytes_moved()
        running = self.server(*server, env=env, timeout=timeout)
        try:
            said = self.client(*client, env=env, timeout=timeout)
            heard = running.finish(timeout)
        finally:
            running.kill()
        moved = self.bytes_moved() - before
        want(moved >= min_bytes, f"the router moved {moved} bytes, not {min_bytes}")
        return heard, said


def by_test(name, *arguments, timeout=300):
    """A program's runs are the steps of tests/system/NAME, which fails if one of them does."""
    def runs(on):
        script = os.path.join(on.lab.tool.parents[1], "system", name)
        done = subprocess.run(["timeout", str(timeout), "bash", script, *arguments], capture_output=True, text=True,
                              check=False, stdin=subprocess.DEVNULL, env=dict(os.environ, HOSTS=str(on.lab.hosts),
                                                                 ENGINE=on.lab.engine))
        last = (done.stdout.strip().splitlines() or [""])[-1]
        if done.returncode == 77:
            raise Skipped(last)
        yield from lines(done.stdout, r"^-- (.*)$")
        want(not done.returncode, f"{name} ended with {done.returncode}: {last}")
    return runs


def lines(out, pattern):
    return re.findall(pattern, out, re.M)


def until(condition, what, timeout=10):
    proc.wait_for(what, condition, timeout)
