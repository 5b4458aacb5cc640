# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# ffctl.bash - completion of ffctl for bash: commands, options and their values, names of containers, hosts and tenants.
#
# Commands and options are those that `ffctl --help` and `ffctl help COMMAND` list, asked each time, so that this file
# knows none by itself; tests/conformance/completion.sh compares them with what the parser takes.

# "container add": one line for each command
_ffctl_commands() { # HELP
	sed -n 's/^  \([a-z][a-z -]*[a-z]\)  .*/\1/p' <<<"$1"
}

# "--ip ADDRESS", "--docker": one line for each option, with the word for its value.
_ffctl_options() { # HELP
	sed -n 's/^  \(--*[a-z-]*\)\( \[\{0,1\}\([A-Za-z|]*\)]\{0,1\}\)\{0,1\}  .*/\1 \3/p' <<<"$1"
}

# Names that the router knows; nothing where it does not answer.
_ffctl_ask() { # KEY COMMAND...
	local key=$1
	shift
	timeout 2 "${_ffctl_call[@]}" --json "$@" 2>/dev/null | sed -n "s/^ *\"$key\": \"\\([^\"]*\\)\",*\$/\\1/p" |
		sort -u
}

_ffctl_values() { # WORD COMMAND
	case $1 in
	MODE) echo adaptive spin socket ;;
	KEY) echo container tx rx ops latency cpu errors tenant ;;
	NAME)
		case $2 in
		"container add") ;;
		*claim) _ffctl_ask name container list --all ;;
		*) _ffctl_ask name container list ;;
		esac
		;;
	CONTAINER | "CONTAINER|ADDRESS") _ffctl_ask name container list --all ;;
	TENANT) _ffctl_ask tenant container list --all ;;
	PARTY) _ffctl_ask tenant container list --all ;;
	HOST) _ffctl_ask name host list ;;
	COLUMN) echo name tenant addresses mode lid sessions host epoch active ;;
	COMMAND) _ffctl_commands "$("${_ffctl_call[0]}" --help)" | cut -d ' ' -f 1 | sort -u ;;
	*"|"*) tr '|' ' ' <<<"${1//PATH|/}" ;;
	*) ;;
	esac
}

_ffctl() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local help name command='' args='' i value list
	local -a _ffctl_call=("${COMP_WORDS[0]}")

	COMPREPLY=()
	help=$("${COMP_WORDS[0]}" --help 2>/dev/null) || return
	# What stands before the command, with the values of its options
	for ((i = 1; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} != --* ]]; then
			break
		elif grep -qE -- "^${COMP_WORDS[i]} [A-Z]" <<<"$(_ffctl_options "$help")" && ((i + 1 < COMP_CWORD)); then
			_ffctl_call+=("${COMP_WORDS[i]}" "${COMP_WORDS[i + 1]}")
			((++i))
		fi
	done
	list=$(_ffctl_commands "$help")
	while read -r name; do
		[[ "${COMP_WORDS[*]:i:COMP_CWORD-i} " != "$name "* ]] || command=$name
	done <<<"$list"

	if [[ -n $command ]]; then
		# shellcheck disable=SC2086 # a command of two words
		help=$("${COMP_WORDS[0]}" help $command 2>/dev/null)
		args=$(sed -n "s/^usage: ffctl $command \(.*\)/\1/p" <<<"$help")
	fi
	value=$(_ffctl_options "$help" | awk -v o="$prev" '$1 == o { print $2; exit }')
	if [[ -n $value ]]; then
		case $value in
		FILE | SOCKET | PATH | DIR | DIRECTORY) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
		*) mapfile -t COMPREPLY < <(compgen -W "$(_ffctl_values "$value" "$command")" -- "$cur") ;;
		esac
	elif [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_ffctl_options "$help" | cut -d ' ' -f 1)" -- "$cur")
	elif [[ -z $command ]]; then
		# the command's first or second word
		list=$(awk -v n=$((COMP_CWORD - i + 1)) -v first="${COMP_WORDS[i]}" '
			n == 1 { print $1 }
			n == 2 && $1 == first { print $2 }' <<<"$list" | sort -u)
		mapfile -t COMPREPLY < <(compgen -W "$list" -- "$cur")
	else
		value=$(grep -oE '^\[?[A-Z|]+' <<<"$args" | tr -d '[')
		mapfile -t COMPREPLY < <(compgen -W "$(_ffctl_values "$value" "$command")" -- "$cur")
	fi
}
complete -F _ffctl ffctl

# What is offered for the last of these words, one on each line: for other shells.
_ffctl_print() { # WORD...
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	_ffctl
	printf '%s\n' "${COMPREPLY[@]}"
}
