package fs

import (
	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/tasktree"
)

var (
	_ control.Blamer    = (*backend)(nil)
	_ control.Previewer = (*backend)(nil)
)

// PreviewUndo is what an undo would do.
func (b *backend) PreviewUndo(a tasktree.Agent) (control.Moved, error) {
	return previewed(b.Engine.Undo(a, overlay.MoveOptions{DryRun: true}))
}

// PreviewRedo is what a redo would do.
func (b *backend) PreviewRedo(a tasktree.Agent) (control.Moved, error) {
	return previewed(b.Engine.Redo(a, overlay.MoveOptions{DryRun: true}))
}

func previewed(r overlay.MoveResult, err error) (control.Moved, error) {
	return control.Moved{From: r.From, To: r.To, Paths: changes(r.Paths)}, controlError("preview", err)
}

// Blame is the line of versions of a path.
func (b *backend) Blame(path string) ([]control.Version, error) {
	all, err := b.Engine.Blame(path)
	return versions(all), controlError("blame", err)
}

// Blame is the line of versions of a path of a store that is not mounted. Errors: those of the engine's.
func (d *Detached) Blame(path string) ([]control.Version, error) {
	all, err := d.Engine.Blame(path)
	return versions(all), err
}

func versions(all []overlay.Version) []control.Version {
	out := make([]control.Version, len(all))
	for i, v := range all {
		started := v.Started.UTC()
		out[i] = control.Version{Task: uint64(v.Task), Agent: string(v.Agent), Title: v.Title, Started: &started, Status: string(v.Status), From: v.From, To: v.To}
		for _, d := range v.What {
			out[i].What = append(out[i].What, string(d))
		}
	}
	return out
}

// WasDir says whether a path is or was a directory.
func (b *backend) WasDir(path string) (dir, known bool, err error) {
	dir, known, err = b.Engine.WasDir(path)
	return dir, known, controlError("blame", err)
}
