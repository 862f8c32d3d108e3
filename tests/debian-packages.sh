#!/bin/sh
# Installs what the tests need from Debian: chromium, for the pages, and prometheus, which scrapes the
# service. Without root it only says so, and the tests that need them are skipped (or fail, with
# REQUIRE=1).
set -eu
wanted=
for package in chromium prometheus; do
    command -v "$package" >/dev/null || wanted="$wanted $package"
done
[ -n "$wanted" ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "Some tests need more from Debian. As root: apt-get install -y$wanted" >&2
    exit 0
fi
# prometheus brings a daemon, and the tests start their own: it is started neither now, for Debian
# asks this file first, nor at the next boot.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086 # one word a package
apt-get install -y -qq --no-install-recommends $wanted >/dev/null
case "$wanted" in *prometheus*) update-rc.d prometheus disable ;; esac
