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
# The page that animates runs, with its gallery, if `make page` has built it. Each protocol's page links to its animation.
if [[ -f web/dist/view.html ]]; then
  cp web/dist/view.html target/site/view.html
  for scenario in web/gallery/one-loss-*.toml; do
    protocol=$(basename "$scenario" .toml)
    page=target/site/protocols/${protocol#one-loss-}.html
    [[ -f $page ]] || continue
    link="<p><a href=\"../view.html#g=$protocol\">Animation: one loss, and how this protocol repairs it</a></p>"
    sed -i "0,/<\/h1>\s*<p>\|<h1 id[^>]*>.*<\/h1>/s||&$link|" "$page"
  done
fi
