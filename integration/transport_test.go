package integration

import (
	"os"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

const uringSwitch = "/sys/module/fuse/parameters/enable_uring"

// uringWorks switches io_uring on for FUSE if this machine lets it, and says whether it is. Where it is not, tests assert what
// happens instead.
func uringWorks(t *testing.T, w *rig.Workspace) bool {
	t.Helper()
	if b, err := os.ReadFile(uringSwitch); err == nil && !strings.HasPrefix(string(b), "Y") {
		if err := os.WriteFile(uringSwitch, []byte("Y"), 0); err != nil {
			t.Logf("io_uring stays off: %v", err)
		}
	}
	return strings.Contains(w.TTFSIn("/", "doctor", "--json").OK().Stdout, `"uring": "on"`)
}

// TestTransport: what is asked for is what serves, or the mount is refused with what to do; auto always mounts.
func TestTransport(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	works := uringWorks(t, w)
	if !works {
		refused := w.TTFSIn("/", "mount", "--transport", "uring", w.Dir)
		if refused.Code == 0 || w.Mounted() || !strings.Contains(refused.Stderr, "io_uring") || !strings.Contains(refused.Stderr, "--transport auto") {
			t.Errorf("uring where it cannot be: %s", refused)
		}
	}
	for _, c := range []struct{ flag, want string }{
		{"classic", "classic"},
		{"auto", map[bool]string{true: "uring", false: "classic"}[works]},
		{"uring", map[bool]string{true: "uring", false: ""}[works]},
	} {
		if c.want == "" {
			continue
		}
		w.Mount("--transport", c.flag)
		if got := w.Status()["transport"]; got != c.want {
			t.Errorf("--transport %s is %s, not %s", c.flag, got, c.want)
		}
		if err := os.WriteFile(w.Path("f"), []byte(c.flag), 0o644); err != nil {
			t.Error(err)
		}
		metrics, err := os.ReadFile(w.Path(".tt/metrics"))
		if err != nil || !strings.Contains(string(metrics), `ttfs_requests_total{op="create"} `) && c.flag == "classic" {
			t.Errorf("requests are not counted: %v\n%s", err, metrics)
		}
		w.Unmount()
		if b, err := os.ReadFile(w.Path("f")); err != nil || string(b) != c.flag {
			t.Errorf("after %s: %q, %v", c.flag, b, err)
		}
	}
}
