package control

import (
	"bytes"
	"io"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// ForkInfo is one fork of this tree. Fields are added, never renamed.
type ForkInfo struct {
	Name  string         `json:"name"`
	Agent tasktree.Agent `json:"agent"`
	// Parent is the agent that made it, Under that one's task at the time; 0 for none.
	Parent tasktree.Agent  `json:"parent"`
	Under  tasktree.TaskID `json:"under"`
	// At is the task at whose end the tree was taken; null: it was taken live.
	At      *tasktree.TaskID `json:"at"`
	Created time.Time        `json:"created"`
	// Changed is how many paths of the fork are another than in what it was made of, or in what the last merge left.
	Changed int `json:"changed"`
	// PIDs are living processes in it, as far as seen.
	PIDs []int `json:"pids"`
}

// Forked is what is known of forks. Without it there is no `.tt/forks`.
type Forked interface {
	// Forks are all of this tree's, sorted by name; those of forks are below their own `.tt`.
	Forks() []ForkInfo
	HasFork(name string) bool
	// EnterFork says whether a caller may go into `.tt/forks/NAME`. Errors: NotYours.
	EnterFork(by Caller, name string) error
	// ForkTree is the content of the Foreign node `tree`.
	ForkTree(by Caller, name string) (any, error)
	// DiffFork writes what a fork has changed since it was made, or merged, as a unified diff.
	DiffFork(w io.Writer, name string) error
	// ForkFiles is the same as a list.
	ForkFiles(name string) ([]Change, error)
	// ForkPIDs are the living processes in it, as far as seen.
	ForkPIDs(name string) []int
	// ForkParent is the agent that made it.
	ForkParent(name string) (tasktree.Agent, error)
	// ForkConflicts are why its last merge was refused.
	ForkConflicts(name string) []ConflictEntry
}

// Gate is a node that not everybody may go through.
type Gate interface {
	// Enter is nil for those who may. Errors: NotYours.
	Enter(c Caller) error
}

// gated is a directory with a gate.
type gated struct {
	*dir
	enter func(c Caller) error
}

func (g *gated) Enter(c Caller) error { return g.enter(c) }

// forks adds `.tt/forks`, which lists the forks of this tree, and `.tt/forks.json`.
func forks(d builder, b Backend) {
	f, ok := b.(Forked)
	if !ok {
		return
	}
	d.file("forks.json", func(Caller) ([]byte, error) {
		all := f.Forks()
		for i := range all {
			all[i].Created = all[i].Created.UTC()
			if all[i].PIDs == nil {
				all[i].PIDs = []int{}
			}
		}
		if all == nil {
			all = []ForkInfo{}
		}
		return encode(all)
	})
	dir := newDir("forks")
	dir.d.find = func(name string) (Node, bool) {
		if !validName(name) || !f.HasFork(name) {
			return nil, false
		}
		return forked(f, name), true
	}
	dir.d.more = func() []Node {
		var all []Node
		for _, i := range f.Forks() {
			all = append(all, forked(f, i.Name))
		}
		return all
	}
	d.add("forks", dir.d)
}

// forked is `.tt/forks/NAME`.
func forked(f Forked, name string) Node {
	d := newDir("forks/" + name)
	d.foreign("tree", func(c Caller) (any, error) { return f.ForkTree(c, name) })
	d.file("diff", func(Caller) ([]byte, error) {
		var w bytes.Buffer
		err := f.DiffFork(&w, name)
		return w.Bytes(), err
	})
	d.file("files", func(Caller) ([]byte, error) {
		all, err := f.ForkFiles(name)
		return []byte(lines(all)), err
	})
	d.file("conflicts", func(Caller) ([]byte, error) { return conflictLines(f.ForkConflicts(name)), nil })
	d.file("pids", func(Caller) ([]byte, error) { return line(pidLines(f.ForkPIDs(name))), nil })
	d.file("parent", func(Caller) ([]byte, error) {
		p, err := f.ForkParent(name)
		return line(string(p)), err
	})
	return &gated{dir: d.d, enter: func(c Caller) error { return f.EnterFork(c, name) }}
}
