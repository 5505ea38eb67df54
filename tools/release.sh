#!/usr/bin/env bash
# Build both wheels and the sdist. Where no sources are, install them: the product alone, whose daemon then serves its
# commands, and both, which then run the demo: once with the locked packages, and once as a newcomer does it, from the folder
# of wheels by one line, without a network. Usage: tools/release.sh VENV
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
bin=$(cd "$1/bin" && pwd)
cd "$root"

tools/wheels.sh "$bin/python"
"$bin/hatchling" build -t sdist
product=$(ls "$root"/dist/gpu_autopilot-*.whl)
laboratory=$(ls "$root"/dist/gpu_autopilot_lab-*.whl)

clean=$(mktemp -d)
started=()
stop() {
    for each in "${started[@]}"; do kill "$each" 2>/dev/null && wait "$each" || true; done
    started=()
}
trap 'stop; rm -rf "$clean"' EXIT
cd "$clean" # no sources here, and none on the path
unset PYTHONPATH

install() { # ENVIRONMENT WHEEL…
    "$clean/$1/bin/pip" install --quiet --disable-pip-version-check --no-deps "${@:2}"
}

until_it_holds() { # COMMAND…
    for _ in $(seq 600); do
        if "$@" >/dev/null 2>&1; then return; fi
        for each in "${started[@]}"; do kill -0 "$each" || break 2; done
        sleep 0.2
    done
    cat "$clean"/*.log
    return 1
}

create() { # ENVIRONMENT LOCK…
    local locks=()
    for lock in "${@:2}"; do locks+=(-r "$lock"); done
    "$bin/python" -m venv "$clean/$1"
    install "$1" --require-hashes --only-binary :all: "${locks[@]}"
}

from_the_wheel() { # ENVIRONMENT PACKAGE
    "$clean/$1/bin/python" -c "import $2, sys; sys.exit(not $2.__file__.startswith(sys.prefix))"
}

create both "$root"/requirements.lock "$root"/requirements-dev.lock
install both "$product" "$laboratory"
from_the_wheel both autopilot
from_the_wheel both autopilot_lab
create alone "$root/requirements.lock"
install alone "$product"
from_the_wheel alone autopilot

# The product alone: its daemon and its commands, against a market of the other environment.
"$clean/both/bin/autopilot" sandbox --port-file "$clean/port" >"$clean/sandbox.log" 2>&1 &
started+=($!)
autopilot=$clean/alone/bin/autopilot
until_it_holds test -s "$clean/port"
(umask 077 && echo sandbox-key >"$clean/key")
touch "$clean/autopilot.toml"
export XDG_CONFIG_HOME=$clean AUTOPILOT_CONFIG=$clean/autopilot.toml AUTOPILOT_STATE_DIR=$clean/state
export AUTOPILOT_API__SOCKET=$clean/socket AUTOPILOT_PROVIDERS__VASTAI__API_KEY_FILE=$clean/key
AUTOPILOT_PROVIDERS__VASTAI__BASE_URL=http://127.0.0.1:$(cat "$clean/port")
export AUTOPILOT_PROVIDERS__VASTAI__BASE_URL
"$autopilot" serve >"$clean/serve.log" 2>&1 &
started+=($!)
until_it_holds "$autopilot" ps
for command in version ps budget spend schedules "offers --gpu 4090:1"; do
    # shellcheck disable=SC2086 # words
    "$autopilot" $command >/dev/null
done
if "$autopilot" demo 2>"$clean/refused"; then exit 1; fi
grep gpu-autopilot-lab "$clean/refused"
stop
unset "${!AUTOPILOT_@}" XDG_CONFIG_HOME

"$clean/both/bin/autopilot" demo --plain

# A namespace without a network: what asks an index fails.
"$bin/python" -m venv "$clean/bare"
unshare --map-root-user --net env -i HOME="$clean" PATH=/usr/sbin:/usr/bin:/sbin:/bin PIP_CONFIG_FILE=/dev/null bash -ec "
    ip link set lo up
    time $clean/bare/bin/pip install --quiet --disable-pip-version-check --no-index --find-links '$root/dist' \
        'gpu-autopilot[vast,runpod]' gpu-autopilot-lab
    time $clean/bare/bin/autopilot demo --plain
"
ls -l "$root"/dist/gpu_autopilot*
