package fs

import (
	"path"
	"slices"

	"github.com/ttfs/ttfs/fs/estate"
	"github.com/ttfs/ttfs/fs/overlay"
)

// restoreViews gives the views of the daemon before their numbers again. Those of forks are others now: what the kernel has of the
// old ones is ESTALE.
func (f *face) restoreViews() {
	var all []estate.View
	f.legacy.Views(func(v estate.View) { all = append(all, v) })
	slices.SortFunc(all, func(a, b estate.View) int { return int(a.Number) - int(b.Number) })
	lost := &space{e: new(overlay.Engine), back: f.main.back, path: path.Join(overlay.StoreName, "lost")}
	lost.gone.Store(true)
	f.views.restore(f.main, lost, all)
}
