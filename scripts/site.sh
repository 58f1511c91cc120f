#!/usr/bin/env bash
# Builds the documents as a site in target/site. Installs mdBook in target/tools when there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.5.4
export PATH="$PWD/target/tools/bin:$PATH"
if ! command -v mdbook >/dev/null; then
  echo "installing mdBook $version in target/tools" >&2
  # It runs for a second, and takes minutes to build with optimisation.
  CARGO_PROFILE_DEV_DEBUG=false cargo install --debug --quiet --locked --no-default-features --root target/tools "mdbook@$version"
fi
scripts/check-links.py
mdbook build
