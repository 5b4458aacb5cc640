#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""screen.py TITLE <SCREEN: an SVG of a terminal's screen, with what is bold, underlined and reversed (tmux capture-pane -e)."""
import re
import sys
from xml.sax.saxutils import escape

WIDTH, HEIGHT, TOP = 8.4, 18, 34  # pixels of a character; where the screen begins
ON = {"1": "bold", "4": "underline", "7": "reverse"}
OFF = {"22": "bold", "24": "underline", "27": "reverse"}
STYLE = """
text { font: 14px ui-monospace, "DejaVu Sans Mono", monospace; fill: #e6edf3; white-space: pre; }
.window { fill: #161b22; stroke: #6e7781; } .bar { fill: #e6edf3; } .reverse { fill: #161b22; }
.bold { font-weight: 700; } .underline { text-decoration: underline; } .title { fill: #9198a1; }
"""


def pieces(line):
    """(column, text, attributes) of one line."""
    column, on = 0, set()
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        m = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if not m:
            if part:
                yield column, part, sorted(on)
            column += len(part)
            continue
        for code in m.group(1).split(";"):
            if code in ("", "0"):
                on.clear()
            elif code in ON:
                on.add(ON[code])
            elif code in OFF:
                on.discard(OFF[code])


def main():
    lines = sys.stdin.read().rstrip("\n").split("\n")
    width, height = 80 * WIDTH + 24, TOP + HEIGHT * len(lines) + 12
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" height="{height}" role="img">')
    print("<!-- SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB; made by top.sh -->")
    print(f"<title>{escape(sys.argv[1])}</title><style>{STYLE}</style>")
    print(f'<rect class="window" x=".5" y=".5" width="{width - 1:g}" height="{height - 1}" rx="8"/>')
    print(f'<text x="{width / 2:g}" y="20" text-anchor="middle" class="title">{escape(sys.argv[1])}</text>')
    for i, line in enumerate(lines):
        y = TOP + HEIGHT * i
        for column, text, on in pieces(line):
            x, length = 12 + column * WIDTH, len(text) * WIDTH
            if "reverse" in on:
                print(f'<rect class="bar" x="{x:g}" y="{y}" width="{length:g}" height="{HEIGHT}"/>')
            print(f'<text x="{x:g}" y="{y + 13}" textLength="{length:g}" xml:space="preserve" class="{" ".join(on)}">{escape(text)}</text>')
    print("</svg>")


main()
