#!/usr/bin/env bash
# Build the wheel and the sdist, install the wheel where no sources are, and run its demo. Usage: tools/release.sh VENV
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
bin=$(cd "$1/bin" && pwd)
cd "$root"

rm -rf dist
"$bin/hatchling" build
wheel=$(ls "$root"/dist/*.whl)

clean=$(mktemp -d)
trap 'rm -rf "$clean"' EXIT
cd "$clean" # no sources here, and none on the path
unset PYTHONPATH
"$bin/python" -m venv "$clean/venv"
locks=()
for lock in "$root"/requirements*.lock; do locks+=(-r "$lock"); done
pip=("$clean/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps)
"${pip[@]}" --require-hashes --only-binary :all: "${locks[@]}"
"${pip[@]}" "$wheel"
"$clean/venv/bin/python" -c 'import autopilot, sys; sys.exit(not autopilot.__file__.startswith(sys.prefix))'
"$clean/venv/bin/autopilot" demo --plain
ls -l "$root"/dist
