package fs

import "github.com/ttfs/ttfs/fs/control"

var _ control.Blamer = (*backend)(nil)

// Blame is the line of versions of a path.
func (b *backend) Blame(path string) ([]control.Version, error) {
	all, err := b.Engine.Blame(path)
	out := make([]control.Version, len(all))
	for i, v := range all {
		started := v.Started.UTC()
		out[i] = control.Version{Task: uint64(v.Task), Agent: string(v.Agent), Title: v.Title, Started: &started, Status: string(v.Status), From: v.From, To: v.To}
		for _, d := range v.What {
			out[i].What = append(out[i].What, string(d))
		}
	}
	return out, controlError("blame", err)
}

// WasDir says whether a path is or was a directory.
func (b *backend) WasDir(path string) (dir, known bool, err error) {
	dir, known, err = b.Engine.WasDir(path)
	return dir, known, controlError("blame", err)
}
