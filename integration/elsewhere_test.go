package integration

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestMountedElsewhere: a mount namespace that was made while a workspace was mounted keeps it mounted. An unmount, and a mount,
// say whose that is instead of waiting for a daemon that goes on; when it has ended, so has the daemon. Not beside other tests,
// whose mounts it would keep.
func TestMountedElsewhere(t *testing.T) {
	if os.Geteuid() != 0 {
		return // it cannot make a mount namespace of this kind
	}
	w := mounted(t)
	w.Sh("echo kept >f").OK()
	daemon := w.Daemon()
	ctx, end := context.WithTimeout(t.Context(), 2*time.Minute)
	defer end()
	other := w.Command(ctx, "/", "unshare", "-m", "sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	over := false
	finish := func() {
		if !over {
			over = true
			_ = other.Process.Kill()
			_ = other.Wait()
		}
	}
	defer finish()
	holder := fmt.Sprintf("sleep (%d)", other.Process.Pid)
	rig.Eventually(t, "the other namespace", func() bool {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", other.Process.Pid))
		return string(name) == "sleep\n"
	})
	for _, verb := range []string{"unmount", "unmount"} {
		if r := w.TTFSIn("/", verb, w.Dir).Exit(1); !strings.Contains(r.Stderr, "in the mount namespace of "+holder) {
			t.Errorf("%s says %q, and not %s", verb, r.Stderr, holder)
		}
	}
	if r := w.TTFSIn("/", "mount", w.Dir).Exit(1); !strings.Contains(r.Stderr, "`ttfs unmount`") {
		t.Errorf("mount says %q", r.Stderr)
	}
	if !rig.Alive(daemon) {
		t.Error("the daemon ended before the other namespace")
	}
	finish()
	w.Mount() // it waits for the daemon before it
	if got := w.Read("f"); got != "kept\n" {
		t.Errorf("f is %q", got)
	}
}
