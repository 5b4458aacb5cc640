# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The table on stdout, the JSON files and the plots; figures.py has the tables of the documents."""

import datetime
import json
import os
import pathlib
import platform
import shutil
import textwrap

from . import proc


def machine(root, options):
    """What the figures were measured on, of what, and how."""
    model = "unknown CPU"
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = " ".join(line.partition(":")[2].split())
            break
    virtual = shutil.which("systemd-detect-virt")
    kind = ""
    if virtual:
        try:
            kind = proc.run([virtual, "--vm"], 5).strip()
        except proc.Failure:
            pass # it says "none" with status 1
    try:
        commit = proc.run(["git", "-C", root, "describe", "--always", "--dirty"], 5).strip()
    except proc.Failure:
        commit = "unknown"
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "virtual": kind,
        "commit": commit,
        "options": options,
        "date": datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
    }


def one_line(m):
    virtual = f", {m['virtual']} guest" if m["virtual"] else ""
    return (f"{m['date']}; {m['cores']} cores of {m['cpu']}{virtual}; Linux {m['kernel']}; "
            f"commit {m['commit']}; {m['options']}")


def number(value):
    if value is None:
        return ""
    for limit, digits in ((100, 0), (10, 1), (0.1, 2)):
        if abs(value) >= limit:
            return f"{value:.{digits}f}"
    return f"{value:.3g}" if value else "0"


def cells(row):
    if row.failure:
        return [row.name, "-", "-", "-", "-", "", "", "failed"]
    peer = f"{number(row.peer_value)} {row.unit}" if row.peer_values else ""
    ratio = f"{number(row.ratio)} x" if row.ratios else ""
    if row.interval:
        ratio = f"{row.ratio:.3f} x ({row.interval[0]:.3f} to {row.interval[1]:.3f})"
    spread = "" if row.spread is None else f"{row.spread:.0f} %"
    return [row.name, f"{number(row.value)} {row.unit}", peer, ratio, spread,
            row.limit(row.must), row.limit(row.aim), row.verdict]


HEAD = ["measure", "value", "peer", "ratio", "spread", "must", "aim", "verdict"]


def table(rows, m, noisy):
    wrapped = [[textwrap.wrap(c, 48) or [""] if i == 0 else [c] for i, c in enumerate(cells(row))]
               for row in rows]
    width = [max([len(HEAD[i]), *(len(line) for row in wrapped for line in row[i])])
             for i in range(len(HEAD))]
    lines = [one_line(m)]
    if noisy:
        lines.append(f"CAUTION: {noisy} repetitions began while other programs used the CPUs; only "
                     "instructions are sure.")
    lines.append("")

    def put(parts):
        lines.append("  ".join(p.ljust(width[i]) if i in (0, 7) else p.rjust(width[i])
                               for i, p in enumerate(parts)).rstrip())

    put(HEAD)
    put(["-" * w for w in width])
    for row in wrapped:
        for k in range(len(row[0])):
            put([c[k] if k < len(c) else "" for c in row])
    failures = [row for row in rows if row.failure]
    if failures:
        lines += ["", "failed:"] + [f"  {row.key}: {row.failure}" for row in failures]
    lines += ["", "Median over the repetitions; the ratio is the median of ratios within one",
              "repetition, spread is its largest less its smallest, in per cent of it. Where two values follow",
              "a ratio, they are its 95 % confidence interval, and `open` says that the limit is in it."]
    return "\n".join(lines)


def write(rows, m, plots, out):
    """JSON of each row, and plots, into the folder `out`."""
    out.mkdir(parents=True, exist_ok=True)
    for row in rows:
        with open(out / f"{row.key}.json", "w", encoding="utf-8") as f:
            json.dump({**row.as_dict(), "machine": m}, f, indent=1)
            f.write("\n")
    for name, draw in (("bandwidth", _plot_bandwidth), ("latency", _plot_latency),
                       ("rio", _plot_rio)):
        if name in plots:
            try:
                draw(plots[name], out, m)
            except (proc.Failure, OSError) as why:
                print(f"bench: plot {name}: {why}")


def _gnuplot(out, name, script, series):
    data = out / f"{name}.dat"
    with open(data, "w", encoding="ascii") as f:
        for points in series.values():
            f.writelines(f"{x} {y}\n" for x, y in points)
            f.write("\n\n")
    curves = ", ".join(f"'{data}' index {i} with {script['style']} lw 2 title \"{title}\""
                       for i, title in enumerate(t.replace("_", "\\\\_") for t in series))
    proc.run(["gnuplot", "-e",
              f"set terminal pngcairo size 900,560; set output '{out / (name + '.png')}'; "
              f"set grid; {script['set']}; plot {curves}"], 60)


def _plot_bandwidth(series, out, m):
    _gnuplot(out, "bandwidth", {
        "style": "linespoints",
        "set": f"set title 'Bandwidth between two containers of one host ({m['date']})'; "
               "set xlabel 'message size, bytes'; set ylabel 'GB/s'; set logscale x 2; "
               "set yrange [0:]; set key top right; set format x '%.0b%B'",
    }, series)


def _plot_rio(series, out, m):
    _gnuplot(out, "rio", {
        "style": "linespoints",
        "set": f"set title 'ffrio by size of its blocks, software ports in a VM ({m['date']})'; "
               "set xlabel 'block, bytes'; set ylabel 'MB/s'; set logscale xy; "
               "set key top left; set format x '%.0b%B'",
    }, series)


def _plot_latency(series, out, m):
    """Distribution functions; at most 2,000 points each."""
    curves = {}
    for name, samples in series.items():
        samples = sorted(samples)
        step = max(1, len(samples) // 2000)
        curves[name] = [(samples[i], (i + 1) / len(samples))
                        for i in range(0, len(samples), step)]
    _gnuplot(out, "latency", {
        "style": "lines",
        "set": f"set title 'Half a round trip of 8 bytes on {m['cores']} cores ({m['date']})'; "
               "set xlabel 'us'; "
               "set ylabel 'share of messages that took at most this'; set logscale x; "
               "set yrange [0:1]; set key bottom right",
    }, curves)
