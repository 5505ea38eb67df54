# A step beside the agent. Slurm tells steps when the grace time of a preemption begins.
trap 'echo preempt >"${0%/*}/asked"; kill "$!"; exit 0' TERM
while :; do
	sleep 86400 >/dev/null 2>&1 &
	wait "$!"
done
