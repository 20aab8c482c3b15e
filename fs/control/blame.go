package control

import (
	"fmt"
	"strings"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// Version is what one task did to a path. Fields are added, never renamed.
type Version struct {
	Task    uint64     `json:"task"`
	Agent   string     `json:"agent"`
	Title   string     `json:"title"`
	Started *time.Time `json:"started"`
	// Status is current, past or undone; what an undone task did is not there.
	Status string `json:"status"`
	// What are created, renamed, modified, mode, owner, attributes and deleted, in this order.
	What []string `json:"what"`
	// From is the path that it was renamed from, To the one that it was renamed to; "" when it was not.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Blamer tells who changed a path. Without it there is no `.tt/blame`.
type Blamer interface {
	// Blame is the line of versions of a path, newest first. Errors: NoFile when it is not there and never was.
	Blame(path string) ([]Version, error)
	// WasDir says whether a path is or was a directory, and whether anything is or was at it.
	WasDir(path string) (dir, known bool, err error)
}

// selfName is the name in a directory below `.tt/blame` of what is told of the directory itself. The workspace has no such
// name in its root.
const selfName = ".tt"

// blame adds `.tt/blame` and `.tt/blame.json`: below them stands every path that is in the workspace or ever was.
func blame(d builder, b Backend) {
	if bl, ok := b.(Blamer); ok {
		d.add("blame", &blamed{none: d.at("blame"), b: bl, show: blameText})
		d.add("blame.json", &blamed{none: d.at("blame.json"), b: bl, show: func(all []Version) ([]byte, error) { return encode(all) }})
	}
}

// blamed is a path of the workspace below `.tt/blame`: a directory for what is or was one, else a file. It lists nothing,
// so that who walks through `.tt` does not walk through the workspace.
type blamed struct {
	none
	b    Blamer
	sub  string // the path of the workspace
	show func([]Version) ([]byte, error)
}

// Kind asks: what was a file may be a directory by now.
func (n *blamed) Kind() NodeKind {
	if n.sub == "" {
		return Dir
	}
	if dir, _, err := n.b.WasDir(n.sub); err == nil && dir {
		return Dir
	}
	return File
}

func (n *blamed) Mode() uint32 {
	if n.Kind() == Dir {
		return 0o555
	}
	return n.mode
}

func (n *blamed) List() ([]Node, error) { return nil, nil }

func (n *blamed) Lookup(name string) (Node, error) {
	at := none{path: n.path + "/" + name, mode: n.mode}
	if name == selfName {
		return &file{none: at, content: n.Content}, nil
	}
	sub := strings.TrimPrefix(n.sub+"/"+name, "/")
	_, known, err := n.b.WasDir(sub)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, n.missing(name)
	}
	return &blamed{none: at, b: n.b, sub: sub, show: n.show}, nil
}

func (n *blamed) Content(Caller) ([]byte, error) {
	all, err := n.b.Blame(n.sub)
	if err != nil {
		return nil, err
	}
	if all == nil {
		all = []Version{}
	}
	return n.show(all)
}

// blameText is a line a version. Shape: the mark as in tasks/list, the number, then after tabs the agent, when the task
// began, what it did, and its title.
func blameText(all []Version) ([]byte, error) {
	var s []byte
	for _, v := range all {
		started := ""
		if v.Started != nil {
			started = stamp(*v.Started)
		}
		s = fmt.Appendf(s, "%s %d\t%s\t%s\t%s\t%s\n", mark(tasktree.Status(v.Status)), v.Task, v.Agent, started, v.Did(), v.Title)
	}
	return s, nil
}

// Did is what a version did, for a person.
func (v *Version) Did() string {
	var out []string
	for _, what := range v.What {
		if what == "renamed" {
			if v.From != "" {
				what += " from " + Quote(v.From)
			}
			if v.To != "" {
				what += " to " + Quote(v.To)
			}
		}
		out = append(out, what)
	}
	return strings.Join(out, ", ")
}
