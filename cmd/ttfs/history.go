package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/ttfs/ttfs/fs/control"
)

// taskInfo is one task, as `.tt/tasks/list.json` and `--json` have it. Fields are added, never renamed.
type taskInfo struct {
	ID          uint64     `json:"id"`
	Parent      uint64     `json:"parent"`
	Agent       string     `json:"agent"`
	Under       uint64     `json:"under"`
	Title       string     `json:"title"`
	Status      string     `json:"status"`
	HasBranches bool       `json:"has_branches"`
	Started     *time.Time `json:"started"`
	Ended       *time.Time `json:"ended"`
	Files       int        `json:"files"`
	// Pruned says that what the task changed is not kept any more.
	Pruned bool `json:"pruned,omitempty"`
	// Incomplete says that some of what it changed could not be kept: undoing it leaves that as it is.
	Incomplete bool `json:"incomplete,omitempty"`
	// Written is when it was last written to, as far as that is known.
	Written *time.Time `json:"written,omitempty"`
}

// wrote is when it was last written to, or began.
func (t *taskInfo) wrote() time.Time {
	var at time.Time
	for _, m := range []*time.Time{t.Started, t.Written} {
		if m != nil && m.After(at) {
			at = *m
		}
	}
	return at
}

// change is one path that a task changed (created, modified, deleted) or a move changes (create, modify, delete).
type change struct {
	Op   string `json:"op"`
	Path string `json:"path"`
}

// moveRequest is an undo, a redo or a switch.
type moveRequest struct {
	verb        string
	to          uint64 // of switch, revert and restore
	path        string // of restore, from the root of the workspace
	agent       string // "" for the caller
	force, skip bool
}

// moveResult is what it did, or would do.
type moveResult struct {
	DryRun bool     `json:"dry_run"`
	From   uint64   `json:"from"`
	To     uint64   `json:"to"`
	Paths  []change `json:"paths"`
}

// history is what the verbs of history ask and do. The mount and the detached store both are one.
// Errors: exitNoTask for a task or an agent that is not there, exitConflict for a move that was refused.
type history interface {
	// caller is the agent that asks.
	caller() (string, error)
	// tasks are an agent's, ascending; "" means every agent's.
	tasks(agent string) ([]taskInfo, error)
	task(id uint64) (taskInfo, error)
	children(id uint64) ([]uint64, error)
	active(agent string) (uint64, error)
	// files are what a task changed, sorted.
	files(id uint64) ([]change, error)
	// diffTask and diffRange write unified diffs, of the paths at or below paths, if there are any.
	diffTask(w io.Writer, id uint64, paths []string) error
	diffRange(w io.Writer, from, to uint64, paths []string) error
	// blame is the line of versions of a path from the root of the workspace, newest first.
	blame(name string) ([]control.Version, error)
	move(m moveRequest) (moveResult, error)
	preview(m moveRequest) (moveResult, error)
	// metrics are in Prometheus' text format.
	metrics(w io.Writer) error
	close() error
}

// open is the history of the workspace that a verb is about; write says that the verb will move.
func (g *global) open(write bool, s streams) (history, workspace, error) {
	w, err := g.find()
	if err != nil {
		return nil, w, err
	}
	if w.mounted {
		m, err := w.client()
		if err != nil {
			return nil, w, err
		}
		return m, w, nil
	}
	if !hasStore(w.dir) {
		return nil, w, notMounted(w)
	}
	d, err := openDetached(w.dir, !write, slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return nil, w, err
	}
	return d, w, nil
}

// withHistory opens a history, uses it and lets it go.
func (g *global) withHistory(write bool, s streams, f func(history, workspace) error) (err error) {
	h, w, err := g.open(write, s)
	if err != nil {
		return err
	}
	defer func() {
		if e := h.close(); e != nil && err == nil {
			err = failed("close the store of "+w.dir, e, "run `ttfs fsck`")
		}
	}()
	return f(h, w)
}

// activeTask is the task that a verb is about when none is named. Errors: exitNoTask when there is none.
func activeTask(h history) (uint64, error) {
	who, err := h.caller()
	if err != nil {
		return 0, err
	}
	id, err := h.active(who)
	if err == nil && id == 0 {
		err = &failure{code: exitNoTask, text: who + " has no active task", next: "name a task; `ttfs log --all` lists them"}
	}
	return id, err
}

func noTask(id uint64) error {
	return &failure{code: exitNoTask, text: "there is no task " + itoa(id), next: "`ttfs log --all` lists those that exist"}
}

func noAgent(name string) error {
	return &failure{code: exitNoTask, text: "there is no agent " + quoteArg(name), next: "`ttfs agents` lists those that exist"}
}
