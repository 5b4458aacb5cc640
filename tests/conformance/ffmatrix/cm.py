# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""rdmacm-utils: the programs of rdma_cm, and those of rsockets."""

import hashlib
import os
import re

from .stage import CLIENT, Program, lines, until, want


def rping(on):
    for options in ("-v -C 10", "-v -C 10 -S 4000", "-v -C 10 -q", "-C 1000 -S 65535"):
        yield f"-V {options}"
        common = ["-p", on.new_port(), "-V", *options.split()]
        _, said = on.pair(["rping", "-s", *common], ["rping", "-c", "-a", on.address, *common],
                          min_bytes=1000 * 2 * 65535 if "65535" in options else 1000)
        want("-v" not in options or len(lines(said, r"^ping data: rdma-ping-\d+: ")) == 10,
             "no ten pings with their data")
    for clients in (1, 16):
        yield f"-P -v -V, {clients} clients at once" if clients > 1 else "-P -v -V"
        persistent_rping(on, clients)


def persistent_rping(on, clients):
    """rping's server keeps the id of a request where the next one overwrites it (rping.c, child_cm_id)
    before its main thread has taken it; so each client starts when the one before has had an answer,
    and all go on until the last one has had many."""
    def pings(n):
        return len(lines(said_in(on.path(f"client{n}")), r"^ping data: rdma-ping-\d+: "))

    server = on.server("rping", "-s", "-P", "-p", on.new_port(), timeout=60)
    running = []
    try:
        for n in range(clients):
            running.append(on.start_into(f"client{n}", CLIENT, "stdbuf", "-oL", "rping", "-c", "-a",
                                         on.address, "-p", on.port, "-v", "-V"))
            until(lambda n=n: pings(n) > 0 or running[n].ended(), "rping: the first answer")
        until(lambda: pings(clients - 1) >= 100 or running[-1].ended(), "rping: a hundred pings")
        before = [pings(n) for n in range(clients)]
        until(lambda: all(pings(n) > before[n] for n in range(clients)), "rping: all clients go on")
        for n, client in enumerate(running):
            want(not client.ended(), f"client {n} has ended")
        want(not server.ended(), "the persistent server has ended")
    finally:
        for client in [*running, server]:
            client.kill()


def cmatose(name, *tries):
    """Connections and messages of 100 bytes in both directions."""
    def runs(on):
        for options in tries:
            yield options
            given = [name, "-p", on.new_port(), *options.split()]
            if name == "udaddy":  # its -p is another thing
                given[1:3] = []
            heard, said = on.pair(given, [*given, "-s", on.address], min_bytes=1000)
            for out in (heard, said):
                want("data transfers complete" in out and "return status 0" in out,
                     "no `data transfers complete`")
    return Program(name, "rdmacm-utils", "both sides complete, bytes counted", runs)


def mckey(on):
    for options in ("", "-c 4 -C 20", "-S 1000"):
        yield f"-m 239.1.2.3 {options}".strip()
        common = ["stdbuf", "-oL", "mckey", "-m", "239.1.2.3", *options.split()]
        out = on.path("receiver")
        receiver = on.start_into("receiver", on.far, *common, "-b", on.address)
        try:
            until(lambda: receiver.ended() or "receiving" in said_in(out), "mckey: joined")
            said = on.client(*common, "-s", "-b", on.lab.ip(CLIENT))
            receiver.finish(20)
        finally:
            receiver.kill()
        for text in (said, said_in(out)):
            want("data transfers complete" in text and "return status 0" in text,
                 "no `data transfers complete`")


def said_in(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as f:
        return f.read()


def cmtime(on):
    for count in (10, 1000):
        yield f"-c {count}"
        common = ["cmtime", "-p", on.new_port(), "-c", count]
        server = on.server(*common, timeout=60)
        try:
            said = on.client(*common, "-s", on.address)
        finally:
            server.kill()
        steps = lines(said, r"^(\S[\w ]*?)\s*:?\s+[\d.]+\s+[\d.]+\s+[\d.]+")
        want(any("connect" in s for s in steps), f"no time of `connect` in {said[:200]!r}")


def simple(name, client, *tries):
    """rdma_server and the like: one message there, one back; `end 0` on both sides."""
    def runs(on):
        for options in tries:
            yield options
            common = ["-p", on.new_port(), *options.split()]
            heard, said = on.pair([name, *common], [client, "-s", on.address, *common], min_bytes=16)
            for out in (heard, said):
                want(re.search(r": end 0$", out, re.M), "no `end 0`")
    return Program(f"{name}, {client}", "rdmacm-utils", "`end 0` on both sides", runs)


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def rcopy(on):
    for size in (1, 4097, 20_000_000):
        yield f"{size:,} bytes"
        source, copy = on.path("source"), on.path("copy")
        with open(source, "wb") as f:
            f.write(os.urandom(size))
        server = on.server("rcopy", "-p", on.new_port())
        try:
            before = on.bytes_moved()
            on.client("rcopy", source, f"{on.address}:{copy}", "-p", on.port)
            moved = on.bytes_moved() - before
        finally:
            server.kill()
        want(digest(source) == digest(copy), "the copy differs")
        want(moved >= size, f"the router moved {moved} bytes only")


def stream(name, *tries):
    def runs(on):
        for options in tries:
            yield options
            given = [name, *options.split()]
            common = [*given, "-p", on.new_port()]
            # the server leaves when its client does; bytes of the report: both directions
            _, said = on.pair(common, [*common, "-s", on.address])
            want(lines(said, r"^\S+\s+\S+\s+\S+\s+\S+\s+\S*\s*[\d.]+s\s+[\d.]+\s+[\d.]+\s*$"),
                 f"no figures in {said[-200:]!r}")
    return Program(name, "rdmacm-utils", "its figures, data verified with `-T v`", runs)


def udpong(on):
    for options in ("-C 1000 -S 64", "-C 1000 -S 1000", "-C 1000 -S 64 -T e", "-C 1000 -S 64 -T b",
                    "-C 1000 -S 64 -T n"):
        yield options
        # without -b the server is on the loopback address
        server = on.server("udpong", "-b", on.address, "-p", on.new_port(), *options.split(),
                           ready=lambda: on.stats(on.far)["cm_listeners"] +
                           on.stats(on.far)["qps"] > 0)
        try:
            said = on.client("udpong", "-p", on.port, *options.split(), "-s", on.address)
        finally:
            server.kill()
        want(lines(said, r"[\d.]+s\s+[\d.]+\s+[\d.]+\s*$"), f"no figures in {said[-200:]!r}")


PROGRAMS = [
    Program("rping", "rdmacm-utils", "each ping's data validated by the program", rping),
    cmatose("ucmatose", "", "-c 10 -C 10", "-S 100000 -C 5", "-m", "-P ib", "-a 10 -t 8"),
    cmatose("udaddy", "", "-c 10 -C 5", "-S 1000", "-p 0x2"),
    Program("mckey", "rdmacm-utils", "all messages of the group received", mckey),
    Program("cmtime", "rdmacm-utils", "the time of each step", cmtime),
    simple("rdma_server", "rdma_client", ""),
    simple("rdma_xserver", "rdma_xclient", "-c r", "-c x"),
    Program("rcopy", "rdmacm-utils", "equal checksums, bytes counted", rcopy),
    stream("rstream", "-S 64 -C 1 -I 1000 -T v", "-S 64 -C 1000 -I 1 -T v", "-S 65536 -C 1000 -I 1",
           "-S 1000000 -C 10 -I 10 -T v", "-S 4096 -C 1 -I 1000 -T b -T v",
           "-S 4096 -C 1 -I 1000 -T n -T v", "-S 4096 -C 1 -I 1000 -T a -T v",
           "-S 4096 -C 100 -I 1 -T f", "-S 1000 -C 100 -I 1 -T r -T v",
           "-S 64 -C 100 -I 10 -i 0 -B 4096 -T v"),
    stream("riostream", "-S 64 -C 1 -I 1000 -T v", "-S 65536 -C 1000 -I 1",
           "-S 1000000 -C 10 -I 10 -T v", "-S 4096 -C 1 -I 1000 -T b -T v",
           "-S 4096 -C 1 -I 1000 -T n", "-S 4096 -C 1 -I 1000 -T a -T v"),
    Program("udpong", "rdmacm-utils", "its figures", udpong),
]
