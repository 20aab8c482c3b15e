package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

func (r moveRequest) command() string {
	s, how := r.verb, ""
	switch {
	case r.force:
		how = " force"
	case r.skip:
		how = " skip"
	}
	if r.verb == "restore" { // all that follows the number is the path
		return s + how + " " + itoa(r.to) + " " + r.path
	}
	if r.verb != "undo" && r.verb != "redo" {
		s += " " + itoa(r.to)
	}
	if r.agent != "" {
		s += " agent=" + r.agent
	}
	return s + how
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
	lines := strings.SplitAfterN(reply, "\n", 4)
	if n, err := fmt.Sscanf(reply, "ok %d\nfrom %d\nchanged %d\n", &res.To, &res.From, &count); n != 3 || len(lines) < 4 {
		return res, &failure{code: exitFailed, text: "the daemon's reply is not understood", err: err, next: "it was done; see `ttfs log`"}
	}
	res.Paths = parseChanges(lines[3])
	return res, nil
}

// preview says what a move would do. The daemon tells it of an undo and a redo, and of a switch to a task of the caller's;
// of others' it is put together from what each task changed.
func (m *mounted) preview(r moveRequest) (moveResult, error) {
	caller, err := m.caller()
	if err != nil {
		return moveResult{}, err
	}
	agent := r.agent
	if agent == "" {
		agent = caller
	}
	if r.verb != "switch" {
		return m.previewStep(r.verb, agent, agent == caller)
	}
	tasks, err := m.tasks(agent)
	if err != nil {
		return moveResult{}, err
	}
	from, err := m.active(agent)
	if err != nil {
		return moveResult{}, err
	}
	to := r.to
	if to != 0 && !slices.ContainsFunc(tasks, func(t taskInfo) bool { return t.ID == to }) {
		return moveResult{}, noTask(to)
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

// previewStep is the preview of an undo or a redo. self says that the agent is the caller, who may not have begun yet.
func (m *mounted) previewStep(verb, agent string, self bool) (moveResult, error) {
	b, err := m.read("agents/" + agent + "/" + verb)
	if errors.Is(err, os.ErrNotExist) && !self {
		return moveResult{}, noAgent(agent)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return moveResult{}, err
	}
	if len(b) == 0 {
		why := map[string]string{"undo": "Already at root task", "redo": "Nothing to redo"}[verb]
		return moveResult{}, &failure{code: exitNoTask, text: verb + ": " + why, next: "`ttfs log` shows the timeline"}
	}
	res, err := parseReply(string(b))
	res.DryRun = true
	return res, err
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
