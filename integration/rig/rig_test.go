package rig

import (
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	// The rig alone needs no ttfs: do not build one.
	if os.Getenv(EnvBinary) == "" {
		if err := os.Setenv(EnvBinary, "/bin/true"); err != nil {
			panic(err)
		}
	}
	Main(m)
}

// TestOwnWorld: the stage that runs tests is not process 1, sees only processes
// of its namespace, and stands on a disk of its own.
func TestOwnWorld(t *testing.T) {
	if os.Getpid() == 1 {
		t.Error("the tests are process 1: nobody reaps orphans")
	}
	cmdline, err := os.ReadFile("/proc/1/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	if self := os.Args[0]; !strings.HasPrefix(string(cmdline), self) && !strings.Contains(string(cmdline), "rig.test") {
		t.Errorf("process 1 is %q, not the rig", cmdline)
	}
	found := false
	for _, m := range mounts() {
		if m.point == os.Getenv(EnvDisk) {
			found = true
			if m.kind != os.Getenv(EnvDiskKind) {
				t.Errorf("the disk is %s, the stage was told %s", m.kind, os.Getenv(EnvDiskKind))
			}
		}
	}
	if !found {
		t.Errorf("%s is no mount", os.Getenv(EnvDisk))
	}
}

// TestOrphansAreReaped: a process whose parent is gone ends without a trace, so
// that a daemon which was killed is not taken for alive.
func TestOrphansAreReaped(t *testing.T) {
	w := New(t)
	pid := strings.TrimSpace(w.Sh("(sleep 0.05 >/dev/null & echo $!)").OK().Stdout)
	Eventually(t, "the orphan to be reaped", func() bool {
		_, err := os.Stat("/proc/" + pid)
		return os.IsNotExist(err)
	})
}

// TestRunReports: output, status and a failure are told apart.
func TestRunReports(t *testing.T) {
	w := New(t)
	result := w.Sh("echo out; echo err >&2; exit 3").Exit(3)
	if result.Stdout != "out\n" || result.Stderr != "err\n" {
		t.Errorf("got %s", result)
	}
	if result := w.Run("/", "/no/such/program"); result.Code != -1 || result.err == nil {
		t.Errorf("a program that is not there: %s", result)
	}
}

// TestDiskCarriesAttributes: the disk carries what the tests compare.
func TestDiskCarriesAttributes(t *testing.T) {
	w := New(t)
	w.Sh(`echo x >f; setfattr -n user.color -v blue f; setfacl -m u:12:r f; getfattr -n user.color f; getfacl f`).OK()
	attrs := w.Snapshot()["f"].Xattrs
	if attrs["user.color"] != "blue" || attrs["system.posix_acl_access"] == "" {
		t.Errorf("xattrs of f: %q", attrs)
	}
}

// TestShellStays: its directory and its variables live from line to line.
func TestShellStays(t *testing.T) {
	w := New(t)
	shell := w.Shell(w.Dir)
	shell.Say("mkdir d; cd d; x=1")
	if got := shell.Say("pwd; echo $x; echo oops >&2"); got != w.Path("d")+"\n1\noops" {
		t.Errorf("said %q", got)
	}
}
