#!/bin/sh
# Builds the Go peer process from Debian's packages: build.sh OUTPUT
set -eu

version() { dpkg-query -W -f '${source:Upstream-Version}' "$1"; }

export GO111MODULE=off GOPATH=/usr/share/gocode CGO_ENABLED=0
exec go build -trimpath -o "$1" -ldflags "-X main.puddleVersion=$(
    version golang-github-jackc-puddle-dev) -X main.pgxVersion=$(
    version golang-github-jackc-pgx-v4-dev)" "$(dirname "$0")"/*.go
