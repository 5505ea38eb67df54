#!/usr/bin/env bash
# Build both wheels into dist/, and collect beside them all that they are installed with, for this Python and system:
# `pip install --no-index --find-links dist …` then asks no index, neither for these names nor for any other.
# Usage: tools/wheels.sh PYTHON [EXTRAS] [EXTRAS OF THE LABORATORY]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$1" -m venv "$scratch/venv"
# The versions of the lock, where it has one. Without its hashes: directories have none.
sed -nE 's/^([a-z0-9.-]+==[^ ;]+( *;[^\\]*)?) *\\?$/\1/p' requirements.lock requirements-dev.lock | sort -u >"$scratch/versions"
rm -rf dist
"$scratch/venv/bin/pip" wheel --progress-bar off --disable-pip-version-check --wheel-dir dist --constraint "$scratch/versions" \
    "$root[${2:-all}]" "$root/packages/lab${3:+[$3]}"
ls dist/gpu_autopilot-*.whl dist/gpu_autopilot_lab-*.whl
echo "and $(find dist -name '*.whl' | wc -l) wheels in all, $(du -sh dist | cut -f1)"
if compgen -G "dist/borb-*.whl" >/dev/null; then
    echo "vast.ai's SDK declares borb, which is under the AGPL: the extra vast installs it (docs/reference/licences.md)"
fi
