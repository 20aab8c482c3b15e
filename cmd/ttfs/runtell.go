package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/ttfs/ttfs/fs/control"
)

// maxTold bounds the paths that run names.
const maxTold = 10

// agentMark is where an agent was before something.
type agentMark struct {
	active uint64
}

// mark says where an agent is. One that is not there is before its first task.
func (m *mounted) mark(agent string) (agentMark, error) {
	var at agentMark
	var err error
	at.active, err = m.active(agent)
	if errors.Is(err, exitNoTask) {
		return at, nil
	}
	return at, err
}

// tell says what an agent changed since it was at a mark, and how to take it back.
func (m *mounted) tell(agent string, since agentMark, w io.Writer) error {
	done, err := m.tellChanges(agent, since, w)
	switch {
	case err != nil:
		return err
	case done > 1:
		fmt.Fprintf(w, "undo with: ttfs undo --agent %s     (its last task; ttfs switch %d --agent %s: all of them)\n", agent, since.active, agent)
	case done == 1:
		fmt.Fprintf(w, "undo with: ttfs undo --agent %s\n", agent)
	}
	return nil
}

// tellChanges says what an agent changed since it was at a mark. done is how many tasks that took; 0: it changed nothing.
func (m *mounted) tellChanges(agent string, since agentMark, w io.Writer) (done int, err error) {
	tasks, err := m.list("agents/" + agent + "/list.json")
	if err != nil {
		return 0, err
	}
	active, err := m.active(agent)
	if err != nil {
		return 0, err
	}
	var steps [][]change
	_, forth := wayBetween(since.active, active, tasks)
	for _, id := range forth {
		files, err := m.files(id)
		if err != nil {
			return 0, err
		}
		if len(files) > 0 {
			steps = append(steps, files)
		}
	}
	changed := net(steps)
	if len(changed) == 0 {
		fmt.Fprintf(w, "ttfs: %s changed nothing\n", agent)
		return 0, nil
	}
	fmt.Fprintf(w, "ttfs: %s changed %s:\n", agent, count(len(changed), "path"))
	printChanges(w, changed, maxTold)
	return len(forth), nil
}

// printChanges writes changes, a line each, at most so many.
func printChanges(w io.Writer, all []change, most int) {
	for i, c := range all {
		if i == most {
			fmt.Fprintf(w, "  ... and %d more\n", len(all)-i)
			return
		}
		fmt.Fprintf(w, "  %-8s %s\n", c.Op, control.Quote(c.Path))
	}
}

// count is a number and what it counts.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
