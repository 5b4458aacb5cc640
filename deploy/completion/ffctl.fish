# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# ffctl.fish - completion of ffctl for fish. It asks that of bash, which is installed beside it.

set -g __ffctl_bash (dirname (status filename))/../../bash-completion/completions/ffctl

function __ffctl
    bash -c '. "$1"; _ffctl_print "${@:2}"' bash $__ffctl_bash (commandline -opc) (commandline -ct) 2>/dev/null
end

complete -c ffctl -f -a '(__ffctl)'
