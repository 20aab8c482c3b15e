package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// ways are what a process of an agent may try in order to reach the workspace as somebody else, or by another path. Each is a
// script that writes into a file whose it is, as .tt/status says. OUT is a directory outside, PEER a process of the user's.
var ways = map[string]string{
	"user-namespace":  `unshare -Ur sh -c "$SAY"`,
	"mount-namespace": `unshare -m sh -c "$SAY"`,
	"all-namespaces":  `unshare -Urmpf --mount-proc sh -c "$SAY"`,
	"bind-mount":      `mkdir $OUT/b; unshare -m sh -c 'mount --rbind . $OUT/b && cd $OUT/b && eval "$SAY"'`,
	"bind-of-a-part":  `mkdir $OUT/p; unshare -m sh -c 'mount --bind d $OUT/p; sed -n s/^agent=//p .tt/status >$OUT/p/in-part; mv d/in-part bind-of-a-part'`,
	"chroot":          `python3 -c 'import os; os.chroot("."); s = open("/.tt/status").read(); open("/chroot", "w").write(s.split("agent=")[1].split()[0] + "\n")'`,
	"proc-root":       `cd /proc/self/root$PWD && eval "$SAY"`,
	"proc-fd":         `exec 9<.; cd / && cd /proc/self/fd/9/ && eval "$SAY"`,
	"setns":           `nsenter -t $PEER -m -p -U sh -c "cd '$PWD' && $SAY" || nsenter -t $PEER -m -p sh -c "cd '$PWD' && $SAY"`,
	"peers-directory": `cd /proc/$PEER/cwd && eval "$SAY"`,
	"session":         `setsid -f sh -c "$SAY"; until test -s session; do :; done`,
	"environment":     `TTFS_AGENT=user sh -c "$SAY"`,
	"program":         `cp /bin/sh $OUT/claude; $OUT/claude -c "$SAY"`,
	"view-of-itself":  `cd .tt/as/bot && eval "$SAY"`,
}

// TestNamespaces: by no namespace, bind mount, root directory, descriptor, session, environment or name is a process of an agent
// anybody else, and what it does on those ways is recorded and taken back as all that it does. Not beside other tests: a mount
// namespace has their mounts, too.
func TestNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		return // most of it is for root only
	}
	w := mounted(t)
	w.Sh("mkdir d").OK()
	peer := w.Shell(w.Dir)
	pid := strings.TrimSpace(peer.Say("echo $$"))
	before := w.Snapshot()
	var all strings.Builder
	var want []string
	for name, script := range ways {
		fmt.Fprintf(&all, "(export SAY='sed -n s/^agent=//p .tt/status >%s'; %s)\n", name, script)
		want = append(want, "created "+name)
	}
	said := w.TTFS("run", "--agent", "bot", "--", "sh", "-c", fmt.Sprintf("export OUT=%s PEER=%s\n%s", t.TempDir(), pid, &all))
	for name := range ways {
		if got, err := os.ReadFile(w.Path(name)); err != nil || string(got) != "bot\n" {
			t.Errorf("%s: it is %q, %v: %s", name, got, err, said)
		}
	}
	sort.Strings(want)
	task := strings.TrimSpace(w.Read(".tt/agents/bot/active"))
	if got := strings.TrimSpace(w.Read(".tt/tasks/" + task + "/files")); got != strings.Join(want, "\n") {
		t.Errorf("recorded of it:\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	w.TTFS("undo", "--agent", "bot").OK()
	w.Same("taken back", before)
}

// TestReadOnlyByAnyWay: on none of those ways an agent that may only read changes anything.
func TestReadOnlyByAnyWay(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	w := mounted(t)
	w.Sh("mkdir d").OK()
	pid := strings.TrimSpace(w.Shell(w.Dir).Say("echo $$"))
	before := w.Snapshot()
	for name, script := range ways {
		if name == "session" || name == "view-of-itself" {
			continue // the one waits for the other's file; bot is not read-only
		}
		script = strings.ReplaceAll(script, "mv d/in-part", "cp $OUT/p/in-part")
		w.TTFS("run", "--agent", "reader", "--isolation", "ro", "--", "sh", "-c",
			fmt.Sprintf("export OUT=%s PEER=%s SAY='echo x >%s'; %s; true", t.TempDir(), pid, name, script)).OK()
		w.Same(name, before)
	}
}

// TestBecomingSomebody: an agent cannot register itself as who it is not, nor by the death of whom it descends from, nor by
// opening again what it has open.
func TestBecomingSomebody(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	put(t, w, "f", "old\n")
	boss := agent(t, w, "boss")
	boss.Say("echo 'task whole' > .tt/ctl")
	pid := strings.TrimSpace(boss.Say("echo $$"))
	refused := func(script string) {
		t.Helper()
		if out := boss.Say("sh -c 'echo agent sub > .tt/ctl; " + script + "; echo exit=$?; cat .tt/status'"); strings.Contains(out, "exit=0") || !strings.Contains(out, "agent=sub\n") {
			t.Errorf("%s: %s", script, out)
		}
	}
	refused("echo agent boss > .tt/ctl")
	refused("echo agent user > .tt/ctl")
	refused("echo agent mine pid=" + pid + " > .tt/ctl")
	refused("echo end boss > .tt/ctl")
	refused("echo guard off > .tt/ctl")
	refused("echo prune keep=0s > .tt/ctl")
	refused("echo undo agent=boss > .tt/ctl")
	if out := boss.Say("sh -c 'echo agent beside parent=user > .tt/ctl; cat .tt/agents/beside/parent'"); !strings.Contains(out, "boss") {
		t.Errorf("below the user it is below %s", out)
	}
	// Whoever it descends from dies, once it was seen.
	boss.Say("sh -c 'echo agent lost > .tt/ctl; setsid sh -c \"cat f; kill -9 $$; while kill -0 $$ 2>/dev/null; do :; done; sed -n s/^agent=//p .tt/status >whose\"'")
	rig.Eventually(t, "the orphan", func() bool { b, _ := os.ReadFile(w.Path("whose")); return len(b) > 0 })
	if got := w.Read("whose"); got != "lost\n" {
		t.Errorf("the orphan is %q", got)
	}
	// What was opened for reading is judged when it is opened for writing by its descriptor.
	boss.Say("exec 8<f; cat <&8")
	put(t, w, "f", "by the user\n")
	if out := boss.Say("echo mine >/proc/self/fd/8; echo exit=$?"); !strings.Contains(out, "Stale") || w.Read("f") != "by the user\n" {
		t.Errorf("by its descriptor: %s", out)
	}
}

// TestReusedPID: who gets the number of an agent's process that died is not that agent. Not beside other tests: they start
// processes, too.
func TestReusedPID(t *testing.T) {
	const last = "/proc/sys/kernel/ns_last_pid"
	if _, err := os.OpenFile(last, os.O_WRONLY, 0); err != nil {
		return // a kernel or user that cannot choose numbers
	}
	w := mounted(t)
	for range 20 {
		r := w.TTFS("run", "--agent", "gone", "--", "sh", "-c", "echo $$; cat .tt/status").OK()
		pid, _, _ := strings.Cut(r.Stdout, "\n")
		n, err := strconv.Atoi(pid)
		if err != nil || !strings.Contains(r.Stdout, "agent=gone\n") {
			t.Fatal(r)
		}
		if err := os.WriteFile(last, []byte(strconv.Itoa(n-1)), 0); err != nil {
			t.Fatal(err)
		}
		// The shell is n-th or near to it: those that come after it are tried, too.
		out := w.Sh(`for i in 1 2 3 4 5 6 7 8; do sh -c 'test $$ != "$1" || { echo reused; sed -n s/^agent=//p .tt/status; }; exit 0' sh "$1"; done
test $$ != "$1" || { echo reused; sed -n s/^agent=//p .tt/status; }`, pid).OK().Stdout
		if strings.Contains(out, "reused") {
			if out != "reused\nuser\n" {
				t.Errorf("who has the number of a dead agent's process is %q", out)
			}
			return
		}
	}
	t.Error("the number did not come again in 20 tries")
}

// TestOthersNamespaces: another user gets by namespaces of its own no more than it has.
func TestOthersNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		return
	}
	w := mounted(t)
	w.Sh("echo secret >f; chmod 600 f; echo public >g; chmod 644 g; chmod 755 .").OK()
	before := w.Snapshot()
	out := t.TempDir()
	if err := os.Chmod(filepath.Dir(out), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{"cat f", "cat .tt/status", "cat .tt/log", "ls .tt/at/0", "umount \"$PWD\"", "mount --move \"$PWD\" /mnt", "echo x >new", "echo x >>g", "chown 0 g", "rm -f g"} {
		for _, way := range []string{"unshare -Ur", "unshare -Urm", "unshare -Urmpf --mount-proc"} {
			if r := asNobody(w, "sh", "-c", way+" sh -c '"+script+"'"); r.Code == 0 {
				t.Errorf("%s %s: %s", way, script, r)
			}
		}
	}
	if r := asNobody(w, "unshare", "-Urm", "cat", "g"); r.Stdout != "public\n" {
		t.Errorf("what everybody may read cannot be read in a namespace: %s", r)
	}
	w.Same("after another user's namespaces", before)
}
