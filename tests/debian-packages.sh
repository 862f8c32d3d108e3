#!/bin/sh
# Installs what the tests need from Debian: chromium, for the pages. Without root it only says so,
# and the tests that need it are skipped (or fail, with REQUIRE=1).
set -eu
command -v chromium >/dev/null && exit 0
if [ "$(id -u)" != 0 ]; then
    echo "The browser tests need chromium. As root: apt-get install -y chromium" >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends chromium >/dev/null
