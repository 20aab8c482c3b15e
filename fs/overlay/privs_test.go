package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ttfs/ttfs/guard"
	"golang.org/x/sys/unix"
)

// TestFallocatePrivileges: what fallocate(2) takes from a file is what it takes on the bare disk: nothing from who has CAP_FSETID;
// else setuid, and setgid of what the group may execute or of a group that the caller is not in.
func TestFallocatePrivileges(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("only root can be somebody else")
		return
	}
	s := newStand(t, 1)
	s.must(s.create("f", "content", 0o644))
	at := filepath.Join(s.dir, "f")
	self := guard.Process{PID: os.Getpid()}
	for _, c := range []struct {
		who        Caller
		mode, want uint32
	}{
		{Caller{Proc: self}, 0o6755, 0o6755},
		{Caller{Proc: self}, 0o2644, 0o2644},
		{Caller{UID: 1000, GID: 1000, Proc: self}, 0o6755, 0o755},
		{Caller{UID: 1000, GID: 1000, Proc: self}, 0o6745, 0o745},
		{Caller{UID: 1000, GID: 77, Proc: self}, 0o6745, 0o2745},
		{Caller{UID: 1000, GID: 77, Proc: self}, 0o2755, 0o755},
		{Caller{UID: 1000, GID: 77}, 0o2644, 0o2644},
		{Caller{}, 0o4755, 0o755}, // a process that is not seen
	} {
		c.who.Agent = s.agent
		s.must(os.Chown(at, 0, 77))
		s.must(unix.Chmod(at, c.mode))
		s.must(s.with("f", unix.O_RDWR, func(h *Handle) error {
			return s.e.Fallocate(c.who, h, unix.FALLOC_FL_KEEP_SIZE, 100, 10)
		}))
		var st unix.Stat_t
		s.must(unix.Stat(at, &st))
		if got := st.Mode & 0o7777; got != c.want {
			t.Errorf("%s: %04o became %04o, not %04o", fmt.Sprint(c.who.UID, c.who.GID), c.mode, got, c.want)
		}
	}
}
