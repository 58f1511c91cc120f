#!/usr/bin/env bash
# Builds web/dist/view.html, the page that animates runs. The simulator is inside where scripts/wasm.sh can build it.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v npm > /dev/null && [[ $(id -u) == 0 ]] && command -v apt-get > /dev/null; then
  apt-get install --yes --quiet --no-install-recommends nodejs npm > /dev/null
fi
command -v npm > /dev/null || { echo "scripts/page.sh: npm is not installed (Debian: apt-get install nodejs npm)" >&2; exit 1; }
# The packages of the lock file, unless they are installed already.
if ! cmp -s web/package-lock.json web/node_modules/.installed; then
  (cd web && npm ci --silent --no-audit --no-fund)
  cp web/package-lock.json web/node_modules/.installed
fi
wasm=()
if [[ -x scripts/wasm.sh ]]; then
  if file=$(scripts/wasm.sh | tail -n 1) && [[ -f $file ]]; then
    wasm=(--wasm "$(realpath "$file")")
  else
    echo "scripts/page.sh: the simulator cannot be built here; the page shows recordings only" >&2
  fi
fi
(cd web && npx tsc --noEmit && node build.mjs "${wasm[@]}")
