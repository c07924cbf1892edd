#!/bin/sh
# Installs edge-agent or cloudsim from a release: sh install.sh --from URL-OR-DIR [--prefix DIR] [edge-agent|cloudsim]
#
# It picks the archive for this processor, compares it with SHA256SUMS of the same release, and unpacks it below the prefix, /usr/local.
# On Debian, Fedora and their relatives, prefer the .deb or .rpm of the release: they have a service, and the package manager upgrades and
# removes them.
set -eu

USAGE='usage: sh install.sh --from URL-OR-DIR [--prefix DIR] [edge-agent|cloudsim]'

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

from='' prefix=/usr/local program=edge-agent
while [ $# -gt 0 ]; do
    case $1 in
    --from | --prefix)
        [ $# -gt 1 ] || fail "$1 needs a value; $USAGE"
        case $1 in --from) from=$2 ;; --prefix) prefix=$2 ;; esac
        shift 2
        ;;
    --help | -h) echo "$USAGE"; exit 0 ;;
    edge-agent | cloudsim) program=$1; shift ;;
    *) fail "unknown argument $1; $USAGE" ;;
    esac
done
[ -n "$from" ] || fail "--from is missing: the address or directory with the files of a release"
[ -n "$prefix" ] || fail "--prefix is empty; name a directory"

machine=$(uname -m)
case $machine in
x86_64 | aarch64 | riscv64) ;;
arm64) machine=aarch64 ;;
armv7*) machine=armv7 ;;
*) fail "there is no release for the processor $machine; there are x86_64, aarch64, armv7 and riscv64" ;;
esac
case $from in
http://* | https://*) tools='curl sha256sum tar zstd install' ;;
*)
    tools='sha256sum tar zstd install'
    [ -d "$from" ] || fail "$from is neither a directory nor an address with https://"
    from=$(cd "$from" && pwd)
    ;;
esac
for tool in $tools; do
    command -v "$tool" >/dev/null || fail "$tool is not installed"
done
# the rest runs in another directory
mkdir -p "$prefix" || fail "cannot create $prefix; choose another directory with --prefix, or run as root"
prefix=$(cd "$prefix" && pwd)

# Reads a file of the release to stdout.
read_file() {
    case $from in
    http://* | https://*) curl --fail --location --silent --show-error --max-time 600 "$from/$1" ;;
    *) cat "$from/$1" ;;
    esac
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# dash ends without the trap above after a signal
trap 'exit 130' INT TERM HUP
cd "$folder"
read_file SHA256SUMS >SHA256SUMS 2>reason || fail "cannot read $from/SHA256SUMS ($(head -n 1 reason)); name the directory or address of a release with --from"
found=$(grep -cE "^[0-9a-f]{64} [ *]$program-[0-9][^ /]*-$machine\.tar\.zst\$" SHA256SUMS) || fail "SHA256SUMS has no $program for $machine"
[ "$found" = 1 ] || fail "SHA256SUMS has $found versions of $program for $machine; use the files of one release"
line=$(grep -E "^[0-9a-f]{64} [ *]$program-[0-9][^ /]*-$machine\.tar\.zst\$" SHA256SUMS)
archive=${line##*[ *]}
read_file "$archive" >"$archive" || fail "cannot read $from/$archive"
echo "$line" | sha256sum --check --quiet - || fail "$archive is damaged: its SHA-256 sum is not that of SHA256SUMS"

tar --extract --zstd --file "$archive"
cd "${archive%-"$machine".tar.zst}"
install -D -m 755 "usr/bin/$program" "$prefix/bin/$program" || fail "cannot write to $prefix; choose another directory with --prefix, or run as root"
find usr/share -type f | while read -r file; do
    install -D -m 644 "$file" "$prefix/${file#usr/}"
done
echo "installed $prefix/bin/$program: $("$prefix/bin/$program" --version | head -n 1)"
