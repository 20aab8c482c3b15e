#!/usr/bin/env bash
# A story of one minute, on a copy of this repository: three tasks by shell commands, undo, redo, a branch, a daemon that
# is killed, a remount. Everything happens below one temporary directory, which goes at the end.
#
#   docs/demo.sh path/to/ttfs
set -euo pipefail
ttfs=$(realpath "${1:?path to ttfs}")
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
place=$(mktemp -d)
ws=$place/workspace

end() {
	cd /
	"$ttfs" unmount --lazy "$ws" >/dev/null 2>&1 || true
	rm -rf "$place"
}
trap end EXIT

say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
run() {
	printf '$ %s\n' "$*"
	"$@"
}
sh_() {
	printf '$ %s\n' "$1"
	sh -ec "$1"
}
t() {
	printf '$ ttfs %s\n' "$*"
	"$ttfs" "$@"
}
first() {
	printf '$ ttfs %s\n' "$*"
	"$ttfs" "$@" | sed -n 1p
}
hash_tree() { find . -path ./.tt -prune -o -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16; }

say 'A real repository, mounted over itself'
git clone -q --local "$source" "$ws" 2>/dev/null || cp -a "$source" "$ws"
t mount "$ws"
cd "$ws"
start=$(hash_tree)
echo "files: $(find . -type f | wc -l), all of them together: $start"

say 'Three tasks, by any program: the shell, sed, git, rm'
t task 'add a changelog entry'
sh_ "echo '- a new entry' >>CHANGELOG.md; echo secret >.env"
t task 'rename everything'
sh_ "grep -rlI ttfs --include='*.go' --exclude-dir=.git . | xargs sed -i 's/ttfs/renamed/g'; git -c user.name=a -c user.email=a@b commit -qam rename || true"
t task 'clean up, too much'
sh_ 'rm -rf cas journal README.md; chmod -R go-rwx fs'
three=$(hash_tree)
t log
t show 3 | sed -n 1,12p

say 'Undo: once, twice, three times. Redo. Exactly.'
first undo
first undo
first undo
[ "$(hash_tree)" = "$start" ] && echo 'as it was at the start, .git and the ignored .env included'
first redo
first redo
first redo
[ "$(hash_tree)" = "$three" ] && echo 'as it was after the third task'

say 'Another way from task 1: a branch; nothing is lost'
first switch 1
t task 'rename only the command'
sh_ "sed -i 's/ttfs/other/' go.mod"
t log --graph

say 'An agent of its own, with its own timeline'
t run --agent robot --task 'robot at work' -- sh -c 'echo beep >robot.txt; rm go.sum'
first undo --agent robot

say 'The daemon is killed in the middle; a remount goes on where it was'
pid=$(sed -n 's/^pid=//p' .tt/status)
before=$(hash_tree)
cd /
run kill -9 "$pid"
while cat "$ws/.tt/status" >/dev/null 2>&1; do sleep 0.05; done
t mount "$ws"
cd "$ws"
[ "$(hash_tree)" = "$before" ] && echo 'every acknowledged change is there'
first switch 3
[ "$(hash_tree)" = "$three" ] && echo 'and task 3 is still exact'
first switch 0
[ "$(hash_tree)" = "$start" ] && echo 'and so is the start'

say 'Unmounted, it is an ordinary directory; the history is in .tt'
cd /
t unmount "$ws"
t --workspace "$ws" log --all
t --workspace "$ws" fsck
