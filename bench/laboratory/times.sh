#!/bin/bash
#
# How long those commands take that a developer runs first and most: in a clone of this checkout, with
# nothing compiled and nothing in the caches. On two cores with nothing else to do it takes some two hours.
#
#	bench/laboratory/times.sh [FOLDER [PART...]]
#
# Prints a row for each command; its output goes to FOLDER, which is removed unless it is named. PART: unit, demo or
# test; all of them if none is named.
set -eu
folder=${1:-}
parts=${*:2}
if [ -z "$folder" ]; then
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder"
export XDG_CACHE_HOME=$folder/cache CCACHE_DIR=$folder/ccache

timed() {
	local title=$1 began ended status=0
	shift
	began=$(date +%s)
	"$@" > "$folder/$(date +%H%M%S).log" 2>&1 || status=$?
	ended=$(date +%s)
	printf '| %s | %.1f | %s |\n' "$title" "$(bc <<< "scale=2; ($ended - $began) / 60")" "$status"
}

wanted() { [[ -z "$parts" || " $parts " == *" $1 "* ]]; }

git clone -q "$(dirname "$0")/../.." "$folder/checkout"
cd "$folder/checkout"
printf '| command | minutes | exit status |\n|---|---|---|\n'
if wanted unit; then
	# The first one makes .venv, too.
	timed './flatboot test --unit, the first time' ./flatboot test --unit
	timed './flatboot test --unit' ./flatboot test --unit
fi
if wanted demo; then
	timed './flatboot demo, nothing compiled' ./flatboot demo
fi
if wanted test; then
	rm -rf "$folder/cache" "$folder/ccache"
	timed './flatboot test, nothing compiled' ./flatboot test
	timed './flatboot test, nothing changed' ./flatboot test
	printf '\nint deferred_init_edited(void);\nint deferred_init_edited(void)\n{\n\treturn 1;\n}\n' \
		>> kernel/memory-map/overlay/mm/deferred_init.c
	timed './flatboot test, one C file changed' ./flatboot test
fi
