#!/usr/bin/env bash
# Makes target/venv, a virtual environment with the tools and the dependencies of the Python package, but not with the
# package itself. Does nothing if it is there and pyproject.toml has not changed. Prints the path of its interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ ${1:-} != --help ]] || { sed -n '2,3s/^# //p' "$0"; exit 0; }
venv=${CARGO_TARGET_DIR:-target}/venv
python=${PYTHON:-python3}
stamp=$("$python" --version; sha256sum < pyproject.toml)
mkdir -p "$(dirname "$venv")"
exec 9> "$venv.lock"
flock 9
if [[ ! -x $venv/bin/python || $(cat "$venv/stamp" 2>/dev/null) != "$stamp" ]]; then
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "The Python package needs Python 3.11 or later; $python is $("$python" --version). Set PYTHON to another one." >&2
    exit 2
  }
  "$python" -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check uv
  "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" -r pyproject.toml --all-extras --group test
  echo "$stamp" > "$venv/stamp"
fi
echo "$(cd "$venv" && pwd)/bin/python"
