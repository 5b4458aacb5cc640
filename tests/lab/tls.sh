# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# tls.sh - `lab up --tls`: an authority of the lab's own, and a certificate for each of its hosts, as
# ffr.conf's wire_cert, wire_key and wire_ca want them, and for ffo. Sourced by lab.
#
# $FF_LAB/tls/ca.pem ca.key crl.pem, in a host's folder and ffo's host.pem host.key, and the same of an
# operator in $FF_LAB/operator.

has_tls() {
	[[ -d $FF_LAB/tls ]]
}

tls_new_key() { # REQUEST-OPTIONS...
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "$@" 2>/dev/null
}

tls_authority() {
	local dir=$FF_LAB/tls

	command -v openssl >/dev/null || die "--tls: no openssl here (make deps)"
	mkdir "$dir"
	tls_new_key -x509 -days 30 -subj "/CN=freeflow lab" -keyout "$dir/ca.key" -out "$dir/ca.pem" ||
		die "openssl made no authority"
	: >"$dir/index"
	echo 01 >"$dir/crlnumber"
	tls_list
	mkdir "$FF_LAB/operator"
	tls_certify operator
}

tls_ca() { # OPENSSL-CA-OPTIONS...
	local dir=$FF_LAB/tls

	openssl ca -config <(printf '%s\n' "[ca]" "default_ca=lab" "[lab]" "database=$dir/index" \
		"crlnumber=$dir/crlnumber" "default_md=sha256" "default_crl_days=30") \
		-cert "$dir/ca.pem" -keyfile "$dir/ca.key" "$@" 2>/dev/null
}

# What the lab's authority has revoked, for ffo and all routers.
tls_list() {
	if ! tls_ca -gencrl -out "$FF_LAB/tls/new.crl"; then
		die "openssl made no revocation list"
	fi
	mv "$FF_LAB/tls/new.crl" "$FF_LAB/tls/crl.pem"
}

tls_revoke() { # NODE
	tls_ca -revoke "$FF_LAB/$1/host.pem" || die "openssl does not revoke the certificate of $1"
	tls_list
}

# Anew also where there is one: the files are replaced, and no reader sees half of one.
tls_certify() { # NODE
	local dir=$FF_LAB/$1 ca=$FF_LAB/tls name=DNS:$1,URI:freeflow:host file

	case $1 in
	ffo) name=IP:$(fabric_ip ffo),URI:freeflow:orchestrator ;;
	operator) name=DNS:operator,URI:freeflow:operator ;;
	esac
	printf '%s\n' "subjectAltName=$name" "extendedKeyUsage=serverAuth,clientAuth" >"$dir/new.ext"
	if ! tls_new_key -subj "/CN=$1" -keyout "$dir/new.key" -out "$dir/new.csr" ||
		! openssl x509 -req -in "$dir/new.csr" -CA "$ca/ca.pem" -CAkey "$ca/ca.key" \
			-set_serial "0x$(openssl rand -hex 8)" -days 30 -extfile "$dir/new.ext" \
			-out "$dir/new.pem" 2>/dev/null; then
		die "openssl made no certificate for $1"
	fi
	chown --reference="$dir" "$dir"/new.{key,pem} # who has the folder reads them
	for file in key pem; do
		mv "$dir/new.$file" "$dir/host.$file"
	done
	rm "$dir"/new.{csr,ext}
}
