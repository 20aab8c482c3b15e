package fs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/fs/overlay"
)

// pruned notes what it is asked to do; the disk has more free space after it.
type pruned struct {
	asked []string
	free  int64
	gain  int64
}

// Prune notes the options.
func (p *pruned) Prune(o overlay.PruneOptions) (overlay.PruneResult, error) {
	p.asked = append(p.asked, fmt.Sprintf("keep=%v max=%d free=%d spare=%v", o.Keep, o.MaxBytes, o.FreeBytes, o.Spare))
	p.free += p.gain
	return overlay.PruneResult{}, nil
}

func TestKeeper(t *testing.T) {
	const floor = 100
	bylimits, sweep, forget := "keep=24h0m0s max=7 free=0 spare=0s", "keep=0s max=0 free=0 spare=0s", "keep=0s max=0 free=300 spare=24h0m0s"
	for _, c := range []struct {
		name       string
		limits     limits
		free, gain int64
		want       []string // of looks at 0, 1 and 61 minutes
		lines      int
	}{
		{"room, no limits", limits{}, 1000, 0, nil, 0},
		{"room", limits{keep: 24 * time.Hour, maxBytes: 7}, 1000, 0, []string{bylimits, bylimits}, 0},
		{"nearly full: what costs nothing, once", limits{}, 150, 0, []string{sweep}, 1},
		{"nearly full: that was enough", limits{}, 150, 100, []string{sweep}, 0},
		{"nearly full, limits", limits{keep: 24 * time.Hour, maxBytes: 7}, 150, 0, []string{bylimits, bylimits}, 1},
		{"nearly full, forget", limits{forget: true}, 150, 0, []string{sweep, forget, forget, forget}, 1},
		{"nearly full, forget: that was enough", limits{forget: true}, 150, 100, []string{sweep}, 0},
	} {
		p := &pruned{free: c.free, gain: c.gain}
		var lines []string
		c.limits.floor = floor
		k := &keeper{engine: p, limits: c.limits, free: func() (int64, error) { return p.free, nil }, told: func(s string) error {
			lines = append(lines, s)
			return nil
		}}
		t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, m := range []int{0, 1, 61} {
			if err := k.look(t0.Add(time.Duration(m) * time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(p.asked, c.want) || len(lines) != c.lines || c.lines > 0 && !strings.Contains(lines[0], "ttfs prune") {
			t.Errorf("%s: asked for %q, want %q; told %q", c.name, p.asked, c.want, lines)
		}
	}
}
