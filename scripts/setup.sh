#!/usr/bin/env bash
# Checks for what building, testing and the demo need. As root, installs missing system packages on
# Debian-like systems; otherwise says exactly what to install.
set -euo pipefail

# command -> Debian package
needed=(cc:build-essential ip:iproute2 unshare:util-linux python3:python3 tcpdump:tcpdump)
# As root, tests, demo and benchmarks run on networks of their own.
[[ $(id -u) != 0 ]] || needed+=(nft:nftables tc:iproute2 ethtool:ethtool setpriv:util-linux)
# A file system of removable media, for tests of targets that cannot store every name.
[[ $(id -u) != 0 ]] || needed+=(mkfs.exfat:exfatprogs mount.exfat-fuse:exfat-fuse)
missing=()
# Virtual environments for the Python package.
python3 -c "import ensurepip" 2>/dev/null || missing+=(python3-venv)
for pair in "${needed[@]}"; do
  command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
if ((${#missing[@]})); then
  if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    echo "installing ${missing[*]}" >&2
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
  else
    echo "These system packages are missing: ${missing[*]}" >&2
    echo "Install them, for example: sudo apt-get install ${missing[*]}" >&2
    exit 2
  fi
fi
if ! command -v cargo >/dev/null; then
  [[ -x "$HOME/.cargo/bin/cargo" ]] && { echo "Add ~/.cargo/bin to PATH." >&2; exit 2; }
  echo "The Rust toolchain is missing. Install it with rustup, see https://www.rust-lang.org/tools/install" >&2
  exit 2
fi
# With rustup, the pinned toolchain (rust-toolchain.toml) is fetched on first use.
cargo --version >/dev/null || {
  echo "cargo does not run here; the toolchain in rust-toolchain.toml may need: rustup toolchain install" >&2
  exit 2
}
