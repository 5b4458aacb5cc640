#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# all: conformance
# timeout: 600
# completion.sh - bash's completion of ffctl offers, for each command, the options that its parser takes, and no others.
#
# The parser is asked itself: each command with each option that any of ffctl's tables has. An option that it
# does not know makes it say what it says of --no-such-option.
set -u -o pipefail
. "$(dirname "$0")/common.sh"
cd "$TMP" || exit

FFCTL=$BUILD/bin/ffctl
# shellcheck source=/dev/null
. "$TREE/deploy/bash-completion/ffctl"

offered() { # WORD...: of the last one
	COMP_WORDS=("$FFCTL" "$@")
	COMP_CWORD=$#
	COMPREPLY=()
	_ffctl
	printf '%s\n' "${COMPREPLY[@]}" | sort
}

# All names of options in the sources, with "=1" where they have a value.
every_option() {
	sed -n 's/.*{ "\([a-z-]*\)", \(required\|no\)_argument.*/--\1 \2/p' "$TREE"/ffr/ffctl/*.c |
		sed 's/ required/=1/; s/ no//' | sort -u
	sed -n 's/.*strcmp(argv\[[a-z0-9]*\], "\(--[a-z-]*\)").*/\1/p' "$TREE"/ffr/ffctl/*.c
	"$FFCTL" --help | sed -n 's/^  \(--[a-z-]*\) [A-Za-z|]*  .*/\1=1/p'
}

# In $answer, with OPTION for the option's name.
ask() { # OPTION COMMAND...
	local option=$1
	shift
	answer=$("$FFCTL" --admin "$TMP/none" "$@" "$option" 2>&1 </dev/null)
	answer=${answer/"$option"/OPTION}
}

taken() { # COMMAND...
	local option answer kind unknown
	declare -A unknown # without a value, and with one
	ask --no-such-option "$@"
	unknown[plain]=$answer
	ask --no-such-option=1 "$@"
	unknown[valued]=$answer
	for option in "${options[@]}"; do
		ask "$option" "$@"
		kind=plain
		[[ $option != *=1 ]] || kind=valued
		[[ $answer == "${unknown[$kind]}" ]] || echo "${option%=1}"
	done
	echo --json
}

mapfile -t options < <(every_option | sort -u)
((${#options[@]} > 40)) || not_ok "only ${#options[@]} options were found in the sources"

mapfile -t commands < <(sed -n 's/^\t{ "\([a-z]*\)", \(NULL\|"[a-z]*"\), cmd_.*/\1 \2/p' "$TREE/ffr/ffctl/main.c" |
	sed 's/ NULL//; s/"//g')
((${#commands[@]} > 20)) || not_ok "only ${#commands[@]} commands were found in the sources"
same "the first words of commands" "$(offered '' | sort -u)" "$(printf '%s\n' "${commands[@]%% *}" | sort -u)"
for command in "${commands[@]}"; do
	read -r -a words <<<"$command"
	if ((${#words[@]} == 2)); then
		offered "${words[0]}" '' | grep >/dev/null -x "${words[1]}" || not_ok "$command is offered"
	fi
	same "ffctl $command" "$(offered "${words[@]}" -- | grep '^--' | sort -u)" "$(taken "${words[@]}" | sort -u)"
	same "ffctl --json $command" "$(offered --json "${words[@]}" --)" "$(offered "${words[@]}" --)"
done
same "before a command" "$(offered --)" "$(sed -n '/^static int global_options/,/^}/p' "$TREE/ffr/ffctl/main.c" |
	sed -n 's/.*{ "\([a-z-]*\)", .*/--\1/p' | sort)"

same "modes" "$(offered container add web --mode s)" "$(printf 'socket\nspin')"
same "yes or no" "$(offered container set web --latency '')" "$(printf 'no\nyes')"
same "a limit" "$(offered tenant set red --max-q)" --max-qp
finish
