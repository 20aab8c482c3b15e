package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/ttfs/ttfs/fs"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/tasktree"
)

// detached is the history of a workspace that is not mounted: its store.
type detached struct {
	store *fs.Detached
}

func openDetached(dir string, readOnly bool, log *slog.Logger) (*detached, error) {
	d, err := fs.OpenDetached(dir, readOnly, log)
	if err != nil {
		return nil, failed("open the store of "+dir, err, "")
	}
	return &detached{store: d}, nil
}

func (d *detached) close() error { return d.store.Close() }

// caller is TTFS_AGENT, else the user: there is no daemon that would look at processes.
func (d *detached) caller() (string, error) {
	if name := os.Getenv("TTFS_AGENT"); name != "" {
		return name, nil
	}
	return string(tasktree.User), nil
}

func (d *detached) who(agent string) (tasktree.Agent, error) {
	if agent == "" {
		name, err := d.caller()
		return tasktree.Agent(name), err
	}
	if a := tasktree.Agent(agent); a != tasktree.User && !slices.Contains(d.store.Engine.Agents(), a) {
		return "", noAgent(agent)
	}
	return tasktree.Agent(agent), nil
}

func (d *detached) info(t tasktree.Task) taskInfo {
	e := d.store.Engine
	return taskInfo{
		ID: uint64(t.ID), Parent: uint64(t.Parent), Agent: string(t.Agent), Under: uint64(t.Under), Title: t.Title,
		Status: string(e.StatusOf(t.ID)), HasBranches: e.HasBranches(t.ID),
		Started: moment(t.Started), Ended: moment(t.Ended), Files: e.FileCount(t), Pruned: t.Pruned, Incomplete: t.Incomplete,
		Written: moment(t.Touched),
	}
}

// moment is nil for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func (d *detached) tasks(agent string) ([]taskInfo, error) {
	if agent != "" {
		if _, err := d.who(agent); err != nil {
			if caller, _ := d.caller(); caller != agent {
				return nil, err
			}
		}
	}
	all := []taskInfo{}
	for _, t := range d.store.Engine.Tasks() {
		if agent == "" || string(t.Agent) == agent {
			all = append(all, d.info(t))
		}
	}
	return all, nil
}

func (d *detached) task(id uint64) (taskInfo, error) {
	t, ok := d.store.Engine.Task(tasktree.TaskID(id))
	if !ok {
		return taskInfo{}, noTask(id)
	}
	return d.info(t), nil
}

func (d *detached) children(id uint64) ([]uint64, error) {
	ids := []uint64{}
	for _, c := range d.store.Engine.Children(tasktree.TaskID(id)) {
		ids = append(ids, uint64(c))
	}
	return ids, nil
}

func (d *detached) active(agent string) (uint64, error) {
	return uint64(d.store.Engine.Active(tasktree.Agent(agent))), nil
}

func (d *detached) files(id uint64) ([]change, error) {
	if _, err := d.task(id); err != nil {
		return nil, err
	}
	files, err := d.store.Engine.Files(tasktree.TaskID(id))
	if err != nil {
		return nil, failed("", err, "")
	}
	all := []change{}
	for _, f := range files {
		all = append(all, change(f))
	}
	return all, nil
}

func (d *detached) diffTask(w io.Writer, id uint64, paths []string) error {
	if _, err := d.task(id); err != nil {
		return err
	}
	return d.store.Engine.DiffTask(w, tasktree.TaskID(id), paths)
}

func (d *detached) diffRange(w io.Writer, from, to uint64, paths []string) error {
	return d.store.Engine.Diff(w, tasktree.TaskID(from), tasktree.TaskID(to), paths)
}

func (d *detached) preview(r moveRequest) (moveResult, error) {
	return d.moveWith(r, overlay.MoveOptions{DryRun: true})
}

func (d *detached) move(r moveRequest) (moveResult, error) {
	by, err := d.caller()
	if err != nil {
		return moveResult{}, err
	}
	return d.moveWith(r, overlay.MoveOptions{Force: r.force, Skip: r.skip, By: tasktree.Agent(by), Protect: by != string(tasktree.User)})
}

func (d *detached) moveWith(r moveRequest, o overlay.MoveOptions) (moveResult, error) {
	who, err := d.who(r.agent)
	if err != nil {
		return moveResult{}, err
	}
	var res overlay.MoveResult
	switch e := d.store.Engine; r.verb {
	case "undo":
		res, err = e.Undo(who, o)
	case "redo":
		res, err = e.Redo(who, o)
	case "revert":
		res, err = e.Revert(who, tasktree.TaskID(r.to), o)
	case "restore":
		res, err = e.Restore(who, tasktree.TaskID(r.to), []string{r.path}, o)
	default:
		res, err = e.Switch(who, tasktree.TaskID(r.to), o)
	}
	if err != nil {
		return moveResult{}, failed("", err, "`ttfs log` shows the timeline")
	}
	out := moveResult{DryRun: o.DryRun, From: uint64(res.From), To: uint64(res.To), Paths: []change{}}
	for _, c := range res.Paths {
		out.Paths = append(out.Paths, change(c))
	}
	return out, nil
}

// metrics has, beside the counters, what is in the store: nobody counted while it was not mounted.
func (d *detached) metrics(w io.Writer) error {
	s, err := d.store.Engine.Stats()
	if err != nil {
		return failed("", err, "run `ttfs fsck`")
	}
	var b bytes.Buffer
	d.store.Engine.Metrics(&b)
	for _, g := range []struct {
		name, help string
		value      int64
	}{
		{"ttfs_tasks", "Tasks that are kept.", int64(s.Tasks)},
		{"ttfs_agents", "Agents that have tasks.", int64(s.Agents)},
		{"ttfs_incomplete_tasks", "Tasks of which a before-image is missing.", int64(s.Incomplete)},
		{"ttfs_hold_files", "Inodes and copies that are held.", int64(s.HoldCount)},
		{"ttfs_hold_bytes", "Bytes allocated for them.", s.HoldBytes},
	} {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n%s %d\n", g.name, g.help, g.name, g.name, g.value)
	}
	_, err = w.Write(b.Bytes())
	return err
}
