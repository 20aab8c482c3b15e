package integration

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"

	"github.com/ttfs/ttfs/integration/rig"
)

const (
	envPosixTest = "TTFS_POSIX_TEST"
	envPosixDir  = "TTFS_POSIX_DIR"
)

// TestPosix runs go-fuse's posixtest on the bare disk and on the mount: what
// passes there must pass here. Each test runs in a process of its own (this
// binary again, see TestOnePosix), because a failure on the bare disk is an
// answer and not a failure of ours.
func TestPosix(t *testing.T) {
	t.Parallel()
	w := rig.NewMounted(t)
	bare := rig.Disk(t)
	passed := 0
	for _, name := range slices.Sorted(maps.Keys(posixtest.All)) {
		if verdict, _ := posixVerdict(t, w, name, filepath.Join(bare, name)); verdict != "PASS" {
			t.Logf("%s: %s on the bare disk, says nothing about the mount", name, verdict)
			continue
		}
		passed++
		if verdict, output := posixVerdict(t, w, name, w.Path(name)); verdict != "PASS" {
			t.Errorf("%s passes on the bare disk, on the mount: %s\n%s", name, verdict, output)
		}
	}
	if passed < 20 {
		t.Errorf("only %d tests pass on the bare disk: the oracle is broken", passed)
	}
}

func posixVerdict(t *testing.T, w *rig.Workspace, name, dir string) (verdict, output string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), rig.CommandLimit)
	defer cancel()
	cmd := w.Command(ctx, "/", self, "-test.v", "-test.run=^TestOnePosix$")
	cmd.Env = append(cmd.Env, envPosixTest+"="+name, envPosixDir+"="+dir)
	b, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v\n%s", name, err, b)
	}
	for _, verdict := range []string{"FAIL", "SKIP", "PASS"} {
		if strings.Contains(string(b), "--- "+verdict+": TestOnePosix/"+name+" ") {
			return verdict, string(b)
		}
	}
	return "no verdict", string(b)
}

// TestOnePosix is what the child runs: the one test that it is told. In the
// suite itself it is the proof that the oracle works: a plain test on the disk.
func TestOnePosix(t *testing.T) {
	name, dir := os.Getenv(envPosixTest), os.Getenv(envPosixDir)
	if name == "" {
		name, dir = "FileBasic", rig.Disk(t)
	}
	t.Run(name, func(t *testing.T) { posixtest.All[name](t, dir) })
}
