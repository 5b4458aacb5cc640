#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: conformance
# timeout: 600
# completion.sh - bash's completion of ffctl offers, for each command, the options that its parser takes, and no others;
# ffctl(8) tells of each. zsh and fish offer what bash does.
#
# The parser is asked itself: each command with each option that any of ffctl's tables has.
set -u -o pipefail
. "$(dirname "$0")/common.sh"
cd "$TMP" || exit

FFCTL=$BUILD/bin/ffctl
# shellcheck source=/dev/null
. "$TREE/deploy/completion/ffctl.bash"

offered() { # WORD...: of the last one
	_ffctl_print "$FFCTL" "$@" | sort
}

# The files as they are installed, for the shells that find that of bash beside their own.
share() {
	install -D "$TREE/deploy/completion/ffctl.bash" "$TMP/share/bash-completion/completions/ffctl"
	install -D "$TREE/deploy/completion/_ffctl" "$TMP/share/zsh/vendor-completions/_ffctl"
	install -D "$TREE/deploy/completion/ffctl.fish" "$TMP/share/fish/vendor_completions.d/ffctl.fish"
}

offered_zsh() { # WORD...
	# shellcheck disable=SC2016
	zsh -f -c 'zmodload zsh/parameter
		compadd() { print -l -- "${@:2}" }
		fpath=($1)
		autoload -U _ffctl
		words=("${@:2}")
		CURRENT=$#words
		_ffctl' zsh "$TMP/share/zsh/vendor-completions" "$FFCTL" "$@" | sort
}

offered_fish() { # WORD...: of plain letters
	# shellcheck disable=SC2016
	fish -c 'source $argv[1]; complete -C "$argv[2]"' "$TMP/share/fish/vendor_completions.d/ffctl.fish" "$FFCTL $*" | sort
}

# All names of options in the sources, with "=1" where they have a value.
every_option() {
	grep -ohE '\{ "[a-z-]+", (required|no)_argument' "$TREE"/ffr/ffctl/*.c |
		sed 's/{ "/--/; s/", required.*/=1/; s/", no_.*//' | sort -u
	sed -n 's/.*strcmp(argv\[[a-z0-9]*\], "\(--[a-z-]*\)").*/\1/p' "$TREE"/ffr/ffctl/*.c
	echo --no-such-option
	"$FFCTL" help container add | sed -n 's/^  \(--[a-z-]*\) [A-Za-z|][A-Za-z|]*  .*/\1=1/p'
}

# ffctl in a program that asks it (completion.c).
asker() {
	local objects=() o
	for o in "$BUILD"/ffr/ffctl/*.o; do
		[[ $o == */main.o ]] || objects+=("$o")
	done
	objcopy --redefine-sym main=ffctl_main "$BUILD/ffr/ffctl/main.o" "$TMP/main.o" &&
		gcc -O1 -D_GNU_SOURCE -o "$TMP/asker" "$TREE/tests/conformance/completion.c" "$TMP/main.o" "${objects[@]}" \
			"$BUILD"/ffr/lib/{log,cgroup,addr,advice}.o "$BUILD/ffr/oci/rootfs.o" "$BUILD/libffo.a" \
			-luv -ljansson -lsqlite3 -lssl -lcrypto -lncurses -ltinfo -lpthread
}

mapfile -t options < <(every_option | sort -u)
((${#options[@]} > 40)) || not_ok "only ${#options[@]} options were found in the sources"

mapfile -t commands < <(sed -n 's/^\tX("\([a-z-]*\)", \(NULL\|"[a-z]*"\), cmd_.*/\1 \2/p' "$TREE/ffr/ffctl/commands.h" |
	sed 's/ NULL//; s/"//g')
((${#commands[@]} > 20)) || not_ok "only ${#commands[@]} commands were found in the sources"
same "the first words of commands" "$(offered '' | sort -u)" "$(printf '%s\n' "${commands[@]%% *}" | sort -u)"
asker || not_ok "ffctl cannot be asked"
exec 7< <(printf '%s\n' "${commands[@]}" | "$TMP/asker" "$TMP/none" "${options[@]}")
for command in "${commands[@]}"; do
	taken=(--json)
	while read -r -u 7 option && [[ -n $option ]]; do
		taken+=("$option")
	done
	read -r -a words <<<"$command"
	if ((${#words[@]} == 2)); then
		offered "${words[0]}" '' | grep >/dev/null -x "${words[1]}" || not_ok "$command is offered"
	fi
	same "ffctl $command" "$(offered "${words[@]}" -- | grep '^--' | sort -u)" "$(printf '%s\n' "${taken[@]}" | sort -u)"
	told=1
	for option in "${taken[@]}"; do
		grep -qF -e "*$option*" "$TREE/ffr/ffctl.8.scd" || told="no $option"
	done
	grep -qE "^\*$command\*|, \*$command\*" "$TREE/ffr/ffctl.8.scd" || told="no $command"
	same "ffctl(8) tells of $command" "$told" 1
	same "ffctl --json $command" "$(offered --json "${words[@]}" --)" "$(offered "${words[@]}" --)"
done
same "before a command" "$(offered --)" "$(sed -n '/^static int global_options/,/^}/p' "$TREE/ffr/ffctl/main.c" |
	sed -n 's/.*{ "\([a-z-]*\)", .*/--\1/p' | sort)"

same "modes" "$(offered container add web --mode s)" "$(printf 'socket\nspin')"
same "yes or no" "$(offered container set web --latency '')" "$(printf 'no\nyes')"
same "commands" "$(offered help st)" "$(printf 'stats\nstore')"
same "a limit" "$(offered tenant set red --max-q)" --max-qp

share
for shell in zsh fish; do
	for line in "" "container " "container add --" "container set web --latency " "help st" "ls --sort m"; do
		words=()
		[[ -z $line ]] || read -r -a words <<<"$line"
		[[ $line == *[!\ ] ]] || words+=('')
		same "$shell: ffctl $line" "$("offered_$shell" "${words[@]}")" "$(offered "${words[@]}")"
	done
done
finish
