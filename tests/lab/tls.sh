# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# tls.sh - `lab up --tls`: an authority of the lab's own, and a certificate for each of its hosts, as
# ffr.conf's wire_cert, wire_key and wire_ca want them. Sourced by lab.
#
# $FF_LAB/tls/ca.pem ca.key, and in a host's folder host.pem host.key.

tls_new_key() { # REQUEST-OPTIONS...
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "$@" 2>/dev/null
}

tls_authority() {
	local dir=$FF_LAB/tls

	command -v openssl >/dev/null || die "--tls: no openssl here (make deps)"
	mkdir "$dir"
	tls_new_key -x509 -days 30 -subj "/CN=freeflow lab" -keyout "$dir/ca.key" -out "$dir/ca.pem" ||
		die "openssl made no authority"
}

tls_host() { # HOST
	local dir=$FF_LAB/$1 ca=$FF_LAB/tls

	printf '%s\n' "subjectAltName=DNS:$1" "extendedKeyUsage=serverAuth,clientAuth" >"$dir/host.ext"
	if ! tls_new_key -subj "/CN=$1" -keyout "$dir/host.key" -out "$dir/host.csr" ||
		! openssl x509 -req -in "$dir/host.csr" -CA "$ca/ca.pem" -CAkey "$ca/ca.key" \
			-set_serial "$((${1#h} + 1))" -days 30 -extfile "$dir/host.ext" \
			-out "$dir/host.pem" 2>/dev/null; then
		die "openssl made no certificate for $1"
	fi
	rm "$dir"/host.{csr,ext}
}
