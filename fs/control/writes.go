package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ttfs/ttfs/tasktree"
)

// The bounds of `.tt/agents/NAME/writes`: each task costs a comparison of what was with what is. Past one of them, and
// from the newest pruned task on, older tasks are left out, and the last line says so.
const (
	maxWritesTasks = 1000
	maxWritesPaths = 10000
)

// span is what the oldest and the newest task that changed a path did to it.
type span struct{ first, last string }

// op is what is left of both; "" when it was created and deleted again.
func (s span) op() string {
	had, has := s.first != "created", s.last != "deleted"
	switch {
	case had && has:
		return "modified"
	case has:
		return "created"
	case had:
		return "deleted"
	}
	return ""
}

// writes are the paths that an agent's tasks changed and that are not undone, sorted by path. rest is the newest task that
// was left out for the bounds, 0 for none.
func writes(b Backend, a tasktree.Agent) (all []Change, rest tasktree.TaskID, err error) {
	spans := map[string]span{}
	id := b.Active(a)
	for n := 0; id != 0; n++ {
		k, ok := b.Task(id)
		if !ok {
			return nil, 0, errors.New("a task of the chain is not there")
		}
		if n == maxWritesTasks || len(spans) >= maxWritesPaths || k.Pruned { // and so are all before it
			rest = id
			break
		}
		files, err := b.Files(id)
		if err != nil {
			return nil, 0, err
		}
		for _, c := range files {
			s, later := spans[c.Path]
			if !later {
				s.last = c.Op
			}
			s.first = c.Op
			spans[c.Path] = s
		}
		id = k.Parent
	}
	for path, s := range spans {
		if op := s.op(); op != "" {
			all = append(all, Change{Op: op, Path: path})
		}
	}
	slices.SortFunc(all, func(x, y Change) int { return strings.Compare(x.Path, y.Path) })
	return all, rest, nil
}

// writesText is `.tt/agents/NAME/writes`.
func writesText(b Backend, a tasktree.Agent) ([]byte, error) {
	all, rest, err := writes(b, a)
	if err != nil {
		return nil, err
	}
	text := lines(all)
	if rest != 0 {
		text += fmt.Sprintf("... and what task %d and those before it changed\n", rest)
	}
	return []byte(text), nil
}
