# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs under a time limit. Each runs in a session of its own and is killed as a group, so that
nothing of a benchmark outlives it, however it ends."""

import atexit
import json
import os
import signal
import subprocess
import time

_running = set()


class Failure(Exception):
    """A measure cannot be taken; the text says why, in one line."""


class Background:
    """A program that runs beside us: a server, a client at rest."""

    def __init__(self, cmd, env=None, keep_stdin=False):
        self.cmd = [str(c) for c in cmd]
        self.child = subprocess.Popen(
            self.cmd,
            stdin=subprocess.PIPE if keep_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(os.environ, **env) if env else None,
            start_new_session=True,
        )
        _running.add(self)

    def finish(self, timeout):
        """Its standard output, once it has ended by itself and well."""
        try:
            out, err = self.child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"{self._name()} lasted more than {timeout} s") from None
        _running.discard(self)
        if self.child.returncode:
            last = [line for line in (err + "\n" + out).splitlines() if line.strip()]
            why = "; ".join(line.strip() for line in last[:3]) if last else "no message"
            raise Failure(f"{self._name()} ended with {self.child.returncode}: {why}")
        self.stderr = err
        return out

    def kill(self):
        """SIGTERM to the group, which tests/lab/nsrun passes on; SIGKILL if that does not do."""
        for sig, wait in ((signal.SIGTERM, 0.5), (signal.SIGKILL, 2)):
            if self.child.poll() is not None:
                break
            try:
                os.killpg(self.child.pid, sig)
                self.child.wait(wait)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
        for stream in (self.child.stdin, self.child.stdout, self.child.stderr):
            if stream:
                stream.close()
        _running.discard(self)

    def ended(self):
        return self.child.poll() is not None

    def _name(self):
        return next((os.path.basename(c) for c in self.cmd if c.startswith("/")
                     and "/bench-bin/" in c), " ".join(self.cmd[:6]))


def run(cmd, timeout=60, env=None):
    """Standard output of a program that must end well within `timeout` seconds."""
    return Background(cmd, env).finish(timeout)


def run_json(cmd, timeout=60):
    out = run(cmd, timeout)
    try:
        return json.loads(out)
    except ValueError:
        raise Failure(f"{cmd[0]} printed no JSON: {out[:200]!r}") from None


def wait_for(what, condition, timeout=10):
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise Failure(f"{what} did not happen within {timeout} s")
        time.sleep(0.01)


@atexit.register
def kill_all():
    for program in list(_running):
        program.kill()
