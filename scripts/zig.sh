#!/usr/bin/env bash
# Installs zig (from PyPI) and cargo-zigbuild (from crates.io) below the target folder, and prints the folders for PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ ${1:-} != --help ]] || { sed -n '2s/^# //p' "$0"; exit 0; }
folder=${CARGO_TARGET_DIR:-$PWD/target}/zig
if [[ ! -x $folder/venv/bin/python-zig ]]; then
  python3 -m venv "$folder/venv" >&2
  "$folder/venv/bin/pip" install --quiet --disable-pip-version-check ziglang==0.17.0 >&2
  ln -sf python3 "$folder/venv/bin/python-zig"
fi
[[ -x $folder/bin/cargo-zigbuild ]] ||
  CARGO_TARGET_DIR=$folder/build cargo install --quiet --locked --root "$folder" cargo-zigbuild --version '^0.24' >&2
echo "$folder/venv/bin:$folder/bin"
