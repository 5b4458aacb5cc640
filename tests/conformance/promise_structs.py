# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""promise_structs.py NAME REGEX - reads `readelf --debug-dump=info` on standard input, and prints a line "NAME struct ..." for each struct
whose name REGEX matches, with its size, and for each of its members, with offset and size. Enumerators that have names as
REGEX says in capitals get a line, too."""
import re
import sys

ENTRY = re.compile(r"^ <([0-9a-f]+)><([0-9a-f]+)>: .*\((DW_TAG_\w+)\)")
ATTRIBUTE = re.compile(r"^    <[0-9a-f]+>   (DW_AT_\w+) *: (.*)$")


class Entry:
    def __init__(self, tag):
        self.tag, self.at, self.children = tag, {}, []

    def name(self):
        return re.sub(r"^\(indirect (line )?string, offset: 0x[0-9a-f]+\): ", "", self.at.get("DW_AT_name", "")).strip()

    def number(self, attribute):
        return int(re.sub(r"^\(.*\) *", "", self.at.get(attribute, "0")).split()[0], 0)


def read(lines):
    entries, path = {}, []
    for line in lines:
        m = ENTRY.match(line)
        if m:
            entry = entries[m.group(2)] = Entry(m.group(3))
            del path[int(m.group(1)):]
            if path:
                path[-1].children.append(entry)
            path.append(entry)
            continue
        m = ATTRIBUTE.match(line)
        if m and path:
            path[-1].at[m.group(1)] = m.group(2)
    return entries


def kind(entry):
    return entries.get(entry.at.get("DW_AT_type", "").strip("<>").removeprefix("0x"))


def size(entry):
    if "DW_AT_byte_size" in entry.at:
        return entry.number("DW_AT_byte_size")
    total = size(kind(entry)) if kind(entry) else 0
    for dimension in entry.children if entry.tag == "DW_TAG_array_type" else []:
        total *= dimension.number("DW_AT_upper_bound") + 1 if "DW_AT_upper_bound" in dimension.at else 0
    return total


def members(struct, prefix, base):
    for m in struct.children:
        if m.tag != "DW_TAG_member" or re.match("reserved|zero|pad", m.name()):
            continue
        at = base + m.number("DW_AT_data_member_location")
        of = kind(m)
        if of.tag in ("DW_TAG_structure_type", "DW_TAG_union_type") and not of.name():  # its members are the struct's
            members(of, prefix + (m.name() + "." if m.name() else ""), at)
        else:
            bits = f", bit {m.number('DW_AT_data_bit_offset')}" if "DW_AT_data_bit_offset" in m.at else ""
            print(f"{prefix}{m.name()} at {at}{bits}, {size(m)} bytes")


what, wanted = sys.argv[1], re.compile(sys.argv[2])
entries = read(sys.stdin)
for e in entries.values():
    if e.tag == "DW_TAG_structure_type" and "DW_AT_byte_size" in e.at and wanted.fullmatch(e.name()):
        print(f"{what} struct {e.name()}: {size(e)} bytes")
        members(e, f"{what} struct {e.name()}.", 0)
    if e.tag == "DW_TAG_enumerator" and wanted.fullmatch(e.name().lower()) and not re.search("_(NUM|MAX)$|_NUM_", e.name()):
        print(f"{what} enum {e.name()} = {e.number('DW_AT_const_value')}")
