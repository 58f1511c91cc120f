#!/usr/bin/env bash
# Tests the page: units in Node, everything else in Chromium without a network.
set -euo pipefail
cd "$(dirname "$0")/../web"
# The page in the command, for builds without npm.
stored=../crates/carillon-cli/view.html
if [[ -n ${BLESS:-} ]]; then
  cp dist/plain.html "$stored"
elif ! cmp -s dist/plain.html "$stored"; then
  echo "scripts/check-page.sh: crates/carillon-cli/view.html is not what make page builds; BLESS=1 make check-page stores it" >&2
  exit 1
fi
npm run --silent unit
if ! command -v chromium > /dev/null && [[ $(id -u) == 0 ]]; then
  apt-get install --yes --quiet --no-install-recommends chromium > /dev/null
fi
if ! command -v chromium > /dev/null; then
  echo "scripts/check-page.sh: chromium is not installed; the tests in a browser are left out" >&2
  exit 0
fi
npm run --silent browser -- "$@"
