package control

import (
	"errors"

	"github.com/ttfs/ttfs/tasktree"
)

// Previewer says what an undo and a redo of an agent would do. Errors: AtRoot or NoTask when there is nothing to do. It
// changes nothing.
type Previewer interface {
	PreviewUndo(a tasktree.Agent) (Moved, error)
	PreviewRedo(a tasktree.Agent) (Moved, error)
}

// previews adds `undo` and `redo` to `.tt/agents/NAME`: the reply that the command would have, nothing where it would be
// refused for want of a task.
func previews(d builder, b Backend, name tasktree.Agent) {
	p, ok := b.(Previewer)
	if !ok {
		return
	}
	preview := func(file string, ask func(tasktree.Agent) (Moved, error)) {
		d.file(file, func(Caller) ([]byte, error) {
			m, err := ask(name)
			if errors.Is(err, AtRoot) || errors.Is(err, NoTask) {
				return nil, nil
			}
			if err != nil {
				return nil, err
			}
			return []byte(reply(m)), nil
		})
	}
	preview("undo", p.PreviewUndo)
	preview("redo", p.PreviewRedo)
}
