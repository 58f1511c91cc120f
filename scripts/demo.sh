#!/usr/bin/env bash
# The demonstration: (a) a real file to four receivers over real UDP multicast, two of them dropping
# 2 % of their packets; (b) a published table repeated by the simulator, from the same protocol code.
set -euo pipefail
carillon=$(realpath "${1:-target/release/carillon}")

# A file of tens of megabytes that is on every machine that could build this: the compiler's own.
file=$(find "$(rustc --print sysroot)/lib" -maxdepth 1 -type f -size +20M -name '*rustc_driver*' | head -n 1)
[[ -n $file ]] || file=$(find "$(rustc --print sysroot)/lib" -type f -size +20M | sort | head -n 1)

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
say_plain() { printf '\n%s\n' "$*"; }
[[ -t 1 ]] || say() { say_plain "$@"; }

say "1. $(basename "$file"), $(($(stat -c %s "$file") / 1000000)) MB, to four receivers on loopback; carol and dave drop 2 % of their packets"
receive() { # name, more arguments
  local name=$1; shift
  mkdir "$work/$name"
  "$carillon" recv --interface lo --name "$name" --out "$work/$name" "$@" >"$work/$name.log" 2>&1 &
}
receive alice
receive bob
receive carol --drop 0.02 --seed 1
receive dave --drop 0.02 --seed 2
"$carillon" send "$file" --interface lo --expect alice,bob,carol,dave
wait
say "The digests of the original and of the four copies:"
sha256sum "$file" "$work"/*/"$(basename "$file")" | sed "s|$work/||; s|$(dirname "$file")/||"
[[ $(sha256sum "$file" "$work"/*/"$(basename "$file")" | cut -d' ' -f1 | sort -u | wc -l) == 1 ]] ||
  { echo "the copies differ" >&2; exit 1; }

say "2. Table 4.1 of the 1996 thesis, beside its published numbers"
"$carillon" reproduce segovia-4.1
