# Runs the agent of one lease in a job of Slurm, in the lease's directory. It is started again when the job is requeued.
#
# lease.sh says: GRACE_S, NOTICE_S, KILL_S (seconds from a preemption's notice, from the one before the time limit, and
# from the signal that ends a job), each with the agent's share in market seconds (GRACE_TOLD …), and LIMIT_S.
# env.sh exports what the agent is started with; before.sh prepares the node.
export PATH="${PATH:-/usr/local/bin:/usr/bin:/bin}"
unset SLURM_TIME_FORMAT
umask 077
here=$PWD
[ -f lease ] && [ -d root ] || exit 0
. ./lease.sh
told= began=$(date +%s)

note() { printf '%s\n' "$2" >"$1.new" && mv "$1.new" "$1"; }

# A notice to the agent: why, seconds, the agent's share of them.
tell() {
	[ -z "$told" ] || return 0
	told=$1
	note told "$1"
	ends_at=$(date -u -d "@$(($(date +%s) + $2))" +%Y-%m-%dT%H:%M:%SZ)
	note root/notice "{\"kind\": \"preempt\", \"ends_at\": \"$ends_at\", \"soft\": false, \"grace_s\": $3}"
}

on_usr1() {
	if [ "$LIMIT_S" -gt 0 ] && [ $(($(date +%s) - began)) -ge $((LIMIT_S - NOTICE_S - 90)) ]; then
		tell limit "$NOTICE_S" "$NOTICE_TOLD"
	else
		tell preempt "$GRACE_S" "$GRACE_TOLD"
	fi
}

pause() {
	sleep "$1" &
	wait $!
}

leave() {
	kill -KILL "$agent" 2>/dev/null
	cd .. || exit 0
	mv "$here" ".gone-${here##*/}" && rm -rf ".gone-${here##*/}"
	exit 0
}

# The first of what the agent and its start say.
keep_words() {
	left=400
	: >words
	while [ "$left" -gt 0 ] && IFS= read -r line; do
		left=$((left - 1))
		printf '%.500s\n' "$line" >>words
	done
	exec cat >/dev/null
}

run_agent() {
	rm -f pipe
	mkfifo pipe || exit 1
	keep_words <pipe &
	(
		trap - TERM USR1
		[ ! -s before.sh ] || . ./before.sh
		. ./env.sh
		export PATH="$here/root/bin:$PATH" HOME="$here/root/home" TMPDIR="$here/root/tmp"
		export AUTOPILOT_ROOT="$here/root" AUTOPILOT_WISH=/wish AUTOPILOT_NOTICE=/notice
		cd root && exec sh ../start.sh
	) >pipe 2>&1 &
	agent=$!
	while kill -0 "$agent" 2>/dev/null; do
		[ ! -e asked ] || tell preempt "$GRACE_S" "$GRACE_TOLD"
		[ -d "$here/root" ] || leave
		pause 1
	done
}

rm -f root/wish root/notice told asked ended
note begun $(($(cat begun 2>/dev/null || echo 0) + 1))
note job "$SLURM_JOB_ID"
trap on_usr1 USR1
trap 'tell killed "$KILL_S" "$KILL_TOLD"' TERM
# The signal at the beginning of a preemption's grace time reaches steps only: one that does nothing but pass it on.
srun --overlap --nodes=1 --ntasks=1 --cpus-per-task=1 --mem=0 --gres=none /bin/sh "$here/watch.sh" </dev/null >/dev/null 2>&1 &
again=2
while :; do
	since=$(date +%s)
	run_agent
	[ "$(cat root/wish 2>/dev/null)" != destroy ] || leave
	case $told in
	limit)
		note ended limit
		exit 0
		;;
	killed)
		pause 60
		exit 0
		;;
	preempt)
		# It has saved: the nodes are free for whom they are wanted, and this job waits for its next turn.
		scontrol requeue "$SLURM_JOB_ID" >/dev/null 2>&1 || note ended preempt
		pause 60
		exit 0
		;;
	esac
	[ $(($(date +%s) - since)) -lt 300 ] || again=2
	pause "$again"
	again=$((again * 2 < 60 ? again * 2 : 60))
done
