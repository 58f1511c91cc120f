#!/usr/bin/env bash
# The demonstration: (a) a real file to four receivers over real UDP multicast, 5 % of whose packets are
# lost; (b) a published table repeated by the simulator, from the same protocol code.
set -euo pipefail
carillon=$(realpath "${1:-target/release/carillon}")

# A file of tens of megabytes that is on every machine that could build this: the compiler's own.
file=$(find "$(rustc --print sysroot)/lib" -maxdepth 1 -type f -size +20M -name '*rustc_driver*' | head -n 1)
[[ -n $file ]] || file=$(find "$(rustc --print sysroot)/lib" -type f -size +20M | sort | head -n 1)

"$(dirname "$0")/demo-delivery.py" "$carillon" "$file"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[[ -t 1 ]] || say() { printf '\n%s\n' "$*"; }
say "2. Table 4.1 of the 1996 thesis, beside its published numbers"
"$carillon" reproduce segovia-4.1
