#!/usr/bin/env bash
# Tests the page: units in Node, everything else in Chromium without a network.
set -euo pipefail
cd "$(dirname "$0")/../web"
npm run --silent unit
if ! command -v chromium > /dev/null && [[ $(id -u) == 0 ]]; then
  apt-get install --yes --quiet --no-install-recommends chromium > /dev/null
fi
if ! command -v chromium > /dev/null; then
  echo "scripts/check-page.sh: chromium is not installed; the tests in a browser are left out" >&2
  exit 0
fi
npm run --silent browser -- "$@"
