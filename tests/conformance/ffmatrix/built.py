# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs that no package has. Whoever wants them in the table builds them, as docs/programs.md tells, and
names their folder by an environment variable; without it the row says so."""

import os
import re

from ffbench import proc
from .stage import CLIENT, Program, Skipped, by_test, lines, until, want


def folder_of(variable, program):
    folder = os.environ.get(variable)
    if not folder or not os.path.exists(os.path.join(folder, program)):
        raise Skipped(f"{variable} names no folder with {program}")
    return os.path.realpath(folder)


def rpma(on):
    """Each example's client prints what it read from its server, and the server what it got."""
    folder = folder_of("RPMA_EXAMPLES", "01-connection/server")
    ping = [r"^(?:\w+: )?Value received: 9$"]
    written = [r"^New value: Hello world!$"]
    for name, arguments, client, server in (
            ("01-connection", [[]], ["^Received a message: Hello client!$"],
             ["^Received a message: Hello server!$"]),
            ("02-read-to-volatile", [[]], ["^Read a message: Hello client!$"], []),
            ("03-read-to-persistent", [[]], ["^Next value: Hello world!$"], written),
            ("04-write-to-persistent", [[]], ["^Next value: Hello world!$"], written),
            ("05-flush-to-persistent", [[]], ["^Next value: Hello world!$"], written),
            ("06-multiple-connections", [[8], [9], [11], [12]], ["^My names is: "], None),
            ("06scch-multiple-connections", [[8], [9], [11], [12]], ["^My names is: "], None),
            ("07-atomic-write", [["1st_word", "2nd_word", "3rd_word"]], [r"^used value: \d+$"],
             ["^1st_word$", "^2nd_word$", "^3rd_word$"]),
            ("08-messages-ping-pong", [[7, 3]], ping, ["^Value sent: 9$"]),
            ("08srq-simple-messages-ping-pong-with-srq", [[7, 3]], ["^Value received: 10$"],
             ["^Value sent: 10$"]),
            ("09-flush-to-persistent-GPSPM", [[]], ["^Next value: Hello world!$"], written),
            ("09scch-flush-to-persistent-GPSPM", [[]], ["^Next value: Hello world!$"], written),
            ("10-send-with-imm", [[1234, "1st_word"]], [],
             ["^Received value '1st_word' with immediate data '1234'$"]),
            ("11-write-with-imm", [[1234]], [],
             ["^The value '1234' was written together with immediate data '1234'$"]),
            ("12-receive-completion-queue", [[7, 3]], ping, ["^SERVER: Value sent: 9$"]),
            ("12scch-receive-completion-queue", [[7, 3]], ping, ["^SERVER: Value sent: 9$"]),
            ("13-messages-ping-pong-with-srq", [[1, 3], [5, 3], [10, 3]],
             [r"^\[client #\d+\] value received: (?:4|8|13)$"], [r"^\[server\] value sent: 13 "])):
        program = os.path.join(folder, name)
        if not os.path.exists(program):
            continue # its build lacked a library
        yield name
        many = [len(arguments)] if name.startswith("13") else []
        running = on.server(f"{program}/server", on.address, on.new_port(), *many)
        try:
            clients = []
            for args in arguments:
                clients.append(on.start(CLIENT, f"{program}/client", on.address, on.port, *args))
                if not many:
                    clients[-1].child.wait(20)
            said = [c.finish(20) for c in clients]
            heard = "" if server is None else running.finish(20) # without an end of its own
        finally:
            running.kill()
        for out, patterns in [*((s, client) for s in said), (heard, server or [])]:
            missing = [p for p in patterns if not re.search(p, out, re.M)]
            want(not missing, f"{name}: no line {missing} in {out[-200:]!r}")


def valkey(on):
    """The module with its own test, which writes keys with random values from four threads and compares what
    it reads. The server's protected mode, which refuses clients of other hosts, is off."""
    folder = folder_of("VALKEY", "src/valkey-rdma.so")
    folder_of("VALKEY", "tests/rdma/rdma-test")
    server = f"{folder}/src/valkey-server"
    (release,) = lines(proc.run([server, "--version"]), r" v=(\S+)") or ["?"]
    yield f"{release}: rdma-test --thread 4"
    running = on.start(on.far, server, "--port", 0, "--protected-mode", "no", "--appendonly", "no", "--save", "",
                       "--dir", on.folder, "--loadmodule", f"{folder}/src/valkey-rdma.so",
                       f"port={on.new_port()}", f"bind={on.address}", timeout=120)
    try:
        until(lambda: running.ended() or on.stats(on.far)["cm_listeners"], "Valkey listens")
        before = on.bytes_moved()
        said = on.client(f"{folder}/tests/rdma/rdma-test", "--thread", 4, "-h", on.address, "-p", on.port,
                         timeout=90)
        moved = on.bytes_moved() - before
    finally:
        running.kill()
    keys = lines(said, r"GET (\d+) KVs \[OK\]$")
    want(len(keys) == 4 and "Valkey Over RDMA test [OK]" in said, f"its report is {said[-200:]!r}")
    want(moved > 2 * 1024 * sum(map(int, keys)), f"the router moved {moved} bytes for {keys} keys")


PROGRAMS = [
    Program("pyverbs' tests of rdma-core 64", "in no package", "each does what is expected of it",
            by_test("../conformance/pyverbs_64.sh")),
    Program("librpma's examples", "librpma0", "what each side got is what the other sent", rpma),
    Program("UCX's gtest", "in no package", "no test fails", by_test("ucx_gtest.sh", timeout=28800)),
    Program("Valkey's RDMA module", "in no package", "its own test compares all values", valkey),
]
