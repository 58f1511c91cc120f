#!/usr/bin/env bash
# Builds the simulator for the page: crates/carillon-web for wasm32-unknown-unknown, at target/web/carillon.wasm.
#
#     scripts/wasm.sh
#
# The last line of its output is the path of the module; everything else goes to the standard error.
# With an installed target (rustup target add wasm32-unknown-unknown) the pinned toolchain builds it. Otherwise Debian's compiler
# for the web builds the standard library too; as root the script installs its packages. Without either it says so and
# ends with 0, so that the page is built without the simulator.
set -euo pipefail
cd "$(dirname "$0")/.."

TARGET=wasm32-unknown-unknown
PACKAGES=(rustc-web rust-web-src libstd-rust-web-dev libllvm22)
MODULE=target/web/carillon.wasm
CARGO=${CARGO:-cargo}

# Own folder: the compiler differs, so the artefacts of other builds stay as they are.
build() {
    CARGO_TARGET_DIR=target/web "$CARGO" build --quiet --locked --package carillon-web --lib --profile web --target "$TARGET" "$@"
    cp "target/web/$TARGET/web/carillon_web.wasm" "$MODULE"
    echo "$MODULE"
}

without() {
    rm -f "$MODULE"
    echo "The page is built without the simulator: $1. Install the target with 'rustup target add $TARGET', or, on Debian, ${PACKAGES[*]}." >&2
    exit 0
}

sysroot=$(rustc --print sysroot)
if [[ -d $sysroot/lib/rustlib/$TARGET ]]; then
    build
    exit
fi

compiler=/usr/bin/rustc
if ! dpkg-query --show "${PACKAGES[@]}" >/dev/null 2>&1; then
    command -v apt-get >/dev/null || without "there is no target $TARGET"
    [[ $(id -u) == 0 ]] || without "there is no target $TARGET, and only root can install packages"
    echo "There is no target $TARGET: installing Debian's compiler for the web" >&2
    apt-get install --quiet --yes --no-install-recommends "${PACKAGES[@]}" >/dev/null || without "the packages cannot be installed"
fi
# The standard library is built from source, which the compiler expects below its folder.
library=$("$compiler" --print sysroot)/lib/rustlib/src/rust
source=$(dirname "$(dpkg-query --listfiles rust-web-src | grep --max-count=1 '/library/Cargo.lock$')")/..
if [[ ! -e $library/library/Cargo.lock ]]; then
    [[ -w $(dirname "$library") ]] || without "the source of the standard library is not at $library"
    mkdir -p "$(dirname "$library")"
    ln -sfn "$(realpath "$source")" "$library"
fi
linker=$(find "$sysroot/lib/rustlib" -name rust-lld -type f | head -1)
[[ -n $linker ]] || without "the toolchain has no rust-lld"
export RUSTC=$compiler RUSTC_BOOTSTRAP=1
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker
build -Zbuild-std=std,panic_abort
