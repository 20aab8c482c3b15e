package overlay

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnprivilegedTruncate: who made a file that nobody may write to any more has it open all the same, and may set its size,
// also where the daemon has no more rights than who did.
func TestUnprivilegedTruncate(t *testing.T) {
	if os.Geteuid() == 0 {
		dir, err := os.Open(t.TempDir()) // the directories above it may be closed to others
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		if err := dir.Chmod(0o777); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe", "-test.run", "^TestUnprivilegedTruncate$", "-test.v")
		cmd.Dir, cmd.Env, cmd.ExtraFiles = "/", append(os.Environ(), "TMPDIR=/proc/self/fd/3"), []*os.File{dir}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	s := newStand(t, 1)
	h, err := s.createOpen("f", unix.O_RDWR, 0o444)
	s.must(err)
	s.must(s.writeAt(h, 0, "0123456789"))
	size := int64(4)
	st, err := s.e.SetAttributes(s.caller(), h.Node(), h, SetAttr{Size: &size})
	s.must(err)
	if st.Size != 4 || s.read(h) != "0123" {
		t.Errorf("%d bytes are left, %q", st.Size, s.read(h))
	}
	s.release(h)
}
