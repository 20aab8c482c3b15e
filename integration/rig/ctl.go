package rig

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/ttfs/ttfs/integration/treecmp"
)

// Ctl writes one command to .tt/ctl and reads the reply from the same open file.
// The error is that of write(2); the reply of a refused command is read too.
func (w *Workspace) Ctl(command string) (reply string, err error) {
	w.t.Helper()
	f, err := os.OpenFile(w.Path(".tt/ctl"), os.O_RDWR, 0)
	if err != nil {
		w.t.Fatalf("open .tt/ctl: %v", err)
	}
	defer f.Close()
	_, writeErr := f.Write([]byte(command))
	answer, err := io.ReadAll(f)
	if err != nil {
		w.t.Fatalf("read the reply to %q: %v", command, err)
	}
	return string(answer), writeErr
}

// Must is Ctl for a command that has to succeed.
func (w *Workspace) Must(command string) string {
	w.t.Helper()
	reply, err := w.Ctl(command)
	if err != nil {
		w.t.Fatalf("%s: %v; reply %q; why: %s", command, err, reply, w.Why())
	}
	if !strings.HasPrefix(reply, "ok") {
		w.t.Fatalf("%s: reply %q does not begin with ok", command, reply)
	}
	return reply
}

// Task begins a task through .tt/ctl and returns its number.
func (w *Workspace) Task(title string) int {
	w.t.Helper()
	reply := w.Must(strings.TrimSpace("task " + title))
	fields := strings.Fields(reply)
	if len(fields) < 2 {
		w.t.Fatalf("task: reply %q is not `ok N`", reply)
	}
	id, err := strconv.Atoi(fields[1])
	if err != nil {
		w.t.Fatalf("task: reply %q is not `ok N`", reply)
	}
	return id
}

// Read is the content of a file of the workspace, "" and a failed test without it.
func (w *Workspace) Read(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(w.Path(name))
	if err != nil {
		w.t.Errorf("read: %v", err)
	}
	return string(b)
}

// Why is the sentence in .tt/why.
func (w *Workspace) Why() string {
	w.t.Helper()
	return strings.TrimSpace(w.Read(".tt/why"))
}

// Status is .tt/status, key by key.
func (w *Workspace) Status() map[string]string {
	w.t.Helper()
	status := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(w.Read(".tt/status"))); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), "=")
		status[key] = value
	}
	return status
}

// Active is the caller's active task.
func (w *Workspace) Active() int {
	w.t.Helper()
	id, err := strconv.Atoi(w.Status()["task"])
	if err != nil {
		w.t.Fatalf("task= of .tt/status: %v", err)
	}
	return id
}

// Snapshot is the picture of the workspace as it is now.
func (w *Workspace) Snapshot() treecmp.Tree {
	w.t.Helper()
	tree, err := treecmp.Take(w.Dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return tree
}

// Same fails the test, naming the moment, when the workspace is not as pictured.
func (w *Workspace) Same(moment string, want treecmp.Tree) {
	w.t.Helper()
	if report := w.Differs(want); report != "" {
		w.t.Fatalf("%s: the tree is not as it was:\n%s", moment, report)
	}
}

// Differs says in what the workspace is not as pictured; "" when it is. On the
// plain directory link counts do not count: the holding area may keep a further
// name of an inode, which the mount leaves out. Which paths of the workspace are
// links of one another is compared all the same.
func (w *Workspace) Differs(want treecmp.Tree) string {
	w.t.Helper()
	got := w.Snapshot()
	if !w.Mounted() {
		want, got = want.WithoutLinkCounts(), got.WithoutLinkCounts()
	}
	return treecmp.Report(want, got)
}

// Fork is the workspace as one of its forks: what is done with it is done in the fork's tree, by its path.
func (w *Workspace) Fork(name string) *Workspace {
	fork := *w
	fork.Dir = w.Path(".tt/forks/" + name + "/tree")
	return &fork
}
