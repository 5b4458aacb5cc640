# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Storage and memory over RDMA: fio's rdma engine, a disk over iSER, QEMU's migration. The last two are
tests/system's own scripts, run in the matrix' containers."""

from .stage import Program, by_test, lines, want


def fio(on):
    """What it sends it verifies, by a checksum in each block. Its receiver has a receive for each block:
    with less, and its rnr_retry_count of 0, fio waits for ever, see tests/system/fio.sh."""
    for verb, block, blocks, depth in (
            ("write", 65536, 2000, 1), ("write", 4096, 5000, 32), ("write", 1048576, 200, 8),
            ("read", 65536, 2000, 1), ("read", 4096, 5000, 32), ("read", 1048576, 200, 8),
            ("send", 4096, 500, 32), ("send", 65536, 256, 8), ("send", 1048576, 64, 2)):
        options = f"--verb={verb} --bs={block} --iodepth={depth}"
        yield options + (" --verify=crc32c" if verb == "send" else "")
        common = ["fio", "--name=x", "--ioengine=rdma", f"--port={on.new_port()}", f"--bs={block}",
                  f"--size={block * blocks}", "--output-format=terse", "--terse-version=3", "--verify_state_save=0",
                  *(["--verify=crc32c"] if verb == "send" else [])]
        heard, said = on.pair(
            [*common, "--rw=read", f"--iodepth={blocks if verb == 'send' else depth}"],
            [*common, "--rw=write", f"--iodepth={depth}", f"--verb={verb}",
             f"--hostname={on.address}"], min_bytes=block * blocks)
        kilobytes = block * blocks // 1024
        for out, field in ((said, 46), (heard, 5))[:2 if verb == "send" else 1]:
            (report,) = lines(out, r"^3;fio.*$") or ["no line of figures"]
            fields = report.split(";")
            want(len(fields) > 100 and fields[4] == "0" and int(fields[field]) == kilobytes,
                 f"not {kilobytes} KB without an error: {report[:80]}")


PROGRAMS = [
    Program("fio, engine rdma", "fio", "all bytes reported and counted, those of SEND verified", fio),
    Program("tgt, QEMU's block driver on libiscsi (iSER)", "tgt",
            "all blocks read back and on the disk, bytes counted", by_test("iser.sh")),
    Program("QEMU's migration over RDMA, a guest of 1 GB", "qemu-system-x86",
            "the guest runs on, all its memory looked at, bytes counted", by_test("qemu.sh")),
]
