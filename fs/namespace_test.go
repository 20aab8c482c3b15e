package fs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestForbidden: what a distribution forbids is told with its remedy.
func TestForbidden(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"user", "kernel"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := forbidden(dir); err != nil {
		t.Errorf("without switches: %v", err)
	}
	for _, c := range []struct{ name, good, bad string }{
		{"user/max_user_namespaces", "100", "0"}, {"kernel/unprivileged_userns_clone", "1", "0"}, {"kernel/apparmor_restrict_unprivileged_userns", "0", "1"},
	} {
		set := func(v string) error {
			if err := os.WriteFile(filepath.Join(dir, c.name), []byte(v+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			return forbidden(dir)
		}
		if err := set(c.bad); err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(c.name, "/", ".")+"=") {
			t.Errorf("%s=%s: %v", c.name, c.bad, err)
		}
		if err := set(c.good); err != nil {
			t.Errorf("%s=%s: %v", c.name, c.good, err)
		}
	}
}

// TestProbeForks leaves this process where it is, whatever the answer.
func TestProbeForks(t *testing.T) {
	before, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(ProbeForks())
	if now, err := os.Readlink("/proc/self/ns/mnt"); err != nil || now != before {
		t.Errorf("the mount namespace was %s, is %s, %v", before, now, err)
	}
}

// TestForkIsFound: a fork is recognized in a mount table, also below a fork of it and when its name was looked up anew.
func TestForkIsFound(t *testing.T) {
	s := forkScan{dev: "0:52", root: "/.tt/forks/c/tree", tree: "/ws/.tt/forks/c/tree"}
	for line, want := range map[string]bool{
		"700 20 0:52 / /ws rw,noatime - fuse.ttfs /ws rw\n":                                                         false,
		"701 700 0:52 /.tt/forks/c/tree /ws rw,noatime - fuse.ttfs /ws rw\n":                                        true,
		"701 700 0:52 /.tt/forks/c/tree//deleted /ws rw,noatime - fuse.ttfs /ws rw\n":                               true,
		"701 700 0:52 /.tt/forks/c/tree/.tt/forks/d/tree /ws rw,noatime - fuse.ttfs /ws rw\n":                       true,
		"701 700 0:52 /.tt/forks/cc/tree /ws rw,noatime - fuse.ttfs /ws rw\n":                                       false,
		"701 700 0:53 /.tt/forks/c/tree /ws rw,noatime - fuse.ttfs /ws rw\n":                                        false,
		"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n701 700 0:52 /.tt/forks/c/tree /ws rw,noatime - fuse.ttfs /ws\\040 rw": true,
		"": false, "701\n": false,
	} {
		if got := s.mounted(line); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
