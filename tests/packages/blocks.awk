# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# blocks.awk - prints the blocks of Markdown pages that begin with "```sh runnable" as one script for bash. Each block says where
# it is from before it runs. -v first=N takes a page's first N blocks only.
/^```sh runnable$/ && (!first || n < first) {
	++n
	inside = 1
	printf "echo \"-- %s, line %d\"\n", FILENAME, FNR
	next
}
/^```/ { inside = 0 }
inside
