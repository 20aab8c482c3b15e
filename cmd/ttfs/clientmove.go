package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

func (r moveRequest) command() string {
	s := r.verb
	if r.verb != "undo" && r.verb != "redo" {
		s += " " + itoa(r.to)
	}
	if r.path != "" {
		s += " " + r.path
	}
	if r.agent != "" {
		s += " agent=" + r.agent
	}
	switch {
	case r.force:
		s += " force"
	case r.skip:
		s += " skip"
	}
	return s
}

func (m *mounted) move(r moveRequest) (moveResult, error) {
	reply, err := m.ctl(r.command())
	if err != nil {
		return moveResult{}, err
	}
	return parseReply(reply)
}

// parseReply reads `ok TO`, `from FROM`, `changed N` and the paths.
func parseReply(reply string) (moveResult, error) {
	var res moveResult
	var count int
	if n, err := fmt.Sscanf(reply, "ok %d\nfrom %d\nchanged %d\n", &res.To, &res.From, &count); n != 3 {
		return res, &failure{code: exitFailed, text: "the daemon's reply is not understood", err: err, next: "it was done; see `ttfs log`"}
	}
	lines := strings.SplitAfterN(reply, "\n", 4)
	res.Paths = parseChanges(lines[3])
	return res, nil
}

// preview says what a move would do. The daemon tells it of the caller's own tasks; of others' it is put together from
// what each task changed.
func (m *mounted) preview(r moveRequest) (moveResult, error) {
	caller, err := m.caller()
	if err != nil {
		return moveResult{}, err
	}
	agent := r.agent
	if agent == "" {
		agent = caller
	}
	tasks, err := m.tasks(agent)
	if err != nil {
		return moveResult{}, err
	}
	from, err := m.active(agent)
	if err != nil {
		return moveResult{}, err
	}
	to, err := goal(r, from, tasks)
	if err != nil {
		return moveResult{}, err
	}
	res := moveResult{DryRun: true, From: from, To: to, Paths: []change{}}
	if to != 0 && agent == caller {
		b, err := m.read(fmt.Sprintf("tasks/%d/preview", to))
		if errors.Is(err, os.ErrNotExist) {
			return res, noTask(to)
		}
		if err != nil {
			return res, err
		}
		res.Paths = parseChanges(string(b))
		return res, nil
	}
	back, forth := wayBetween(from, to, tasks)
	var steps [][]change
	for _, id := range back {
		files, err := m.files(id)
		if err != nil {
			return res, err
		}
		steps = append(steps, inverse(files))
	}
	for _, id := range forth {
		files, err := m.files(id)
		if err != nil {
			return res, err
		}
		steps = append(steps, files)
	}
	res.Paths = imperative(net(steps))
	return res, nil
}

// goal is the task that a move leads to. Errors: exitNoTask.
func goal(r moveRequest, from uint64, tasks []taskInfo) (uint64, error) {
	switch r.verb {
	case "switch":
		if r.to != 0 && !slices.ContainsFunc(tasks, func(t taskInfo) bool { return t.ID == r.to }) {
			return 0, noTask(r.to)
		}
		return r.to, nil
	case "undo":
		for _, t := range tasks {
			if t.ID == from {
				return t.Parent, nil
			}
		}
		return 0, &failure{code: exitNoTask, text: "undo: Already at root task", next: "`ttfs log` shows the timeline"}
	}
	var next []string
	var to uint64
	for _, t := range tasks {
		if t.Parent == from {
			next = append(next, itoa(t.ID))
			to = t.ID
		}
	}
	switch len(next) {
	case 0:
		return 0, &failure{code: exitNoTask, text: "redo: Nothing to redo", next: "`ttfs log` shows the timeline"}
	case 1:
		return to, nil
	}
	return 0, &failure{code: exitFailed, text: fmt.Sprintf("redo --dry-run: more than one task follows task %d: %s", from, strings.Join(next, ", ")),
		next: "look at one with `ttfs switch N --dry-run`"}
}

// wayBetween are the tasks to take back, newest first, and those to do again, oldest first.
func wayBetween(from, to uint64, tasks []taskInfo) (back, forth []uint64) {
	parent := map[uint64]uint64{}
	for _, t := range tasks {
		parent[t.ID] = t.Parent
	}
	for from != to { // a parent's number is smaller than its child's
		if from > to {
			back, from = append(back, from), parent[from]
		} else {
			forth, to = append(forth, to), parent[to]
		}
	}
	slices.Reverse(forth)
	return back, forth
}
