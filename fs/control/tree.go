package control

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/ttfs/ttfs/tasktree"
)

// readme is how to use these files, for an agent to read.
//
//go:embed README.md
var readme []byte

// root is `.tt`.
func root(b Backend) Node {
	d := newDir("")
	d.d.mode = 0o700
	d.file("README", func(Caller) ([]byte, error) { return bytes.Clone(readme), nil })
	c := d.at("ctl")
	c.mode = 0o600
	d.add("ctl", ctl{c})
	d.file("status", func(c Caller) ([]byte, error) { return statusText(b, c), nil })
	d.file("status.json", func(c Caller) ([]byte, error) { return statusJSON(b, c) })
	d.file("why", func(c Caller) ([]byte, error) { return line(b.Why(c.Agent)), nil })
	d.file("why.json", func(c Caller) ([]byte, error) { return whyJSON(b, c) })
	stale(d, b, "")
	conflicts(d, b)
	d.foreign("log", func(Caller) (any, error) { return b.Log() })
	d.file("metrics", func(Caller) ([]byte, error) {
		var w bytes.Buffer
		b.Metrics(&w)
		return w.Bytes(), nil
	})
	blame(d, b)
	fsck(d, b)
	d.add("tasks", tasks(b))
	d.add("at", at(b))
	d.add("agents", agents(b))
	forks(d, b)
	return d.d
}

// tasks is `.tt/tasks`.
func tasks(b Backend) Node {
	d := newDir("tasks")
	d.file("list", func(c Caller) ([]byte, error) { return listText(b, c.Agent), nil })
	d.file("list.json", func(c Caller) ([]byte, error) { return listJSON(b, c.Agent) })
	d.d.find = func(name string) (Node, bool) {
		id, ok := parseID(name)
		if !ok {
			return nil, false
		}
		if _, ok = b.Task(id); !ok {
			return nil, false
		}
		return task(b, id), true
	}
	d.d.more = func() []Node {
		var all []Node
		for _, t := range b.Tasks() {
			all = append(all, task(b, t.ID))
		}
		return all
	}
	return d.d
}

// task is `.tt/tasks/N`.
func task(b Backend, id tasktree.TaskID) Node {
	d := newDir("tasks/" + strconv.FormatUint(uint64(id), 10))
	field := func(name string, value func(t tasktree.Task) string) {
		d.file(name, func(Caller) ([]byte, error) {
			t, ok := b.Task(id)
			if !ok {
				return nil, d.d.missing(name)
			}
			return line(value(t)), nil
		})
	}
	field("title", func(t tasktree.Task) string { return t.Title })
	field("agent", func(t tasktree.Task) string { return string(t.Agent) })
	field("parent", func(t tasktree.Task) string { return fmt.Sprint(t.Parent) })
	field("children", func(tasktree.Task) string {
		var ids []string
		for _, c := range b.Children(id) {
			ids = append(ids, fmt.Sprint(c))
		}
		return strings.Join(ids, "\n")
	})
	field("status", func(tasktree.Task) string { return string(b.StatusOf(id)) })
	field("started", func(t tasktree.Task) string { return stamp(t.Started) })
	field("ended", func(t tasktree.Task) string { return stamp(t.Ended) })
	d.file("files", func(Caller) ([]byte, error) {
		changes, err := b.Files(id)
		return []byte(lines(changes)), err
	})
	d.file("diff", func(Caller) ([]byte, error) {
		var w bytes.Buffer
		err := b.DiffTask(&w, id)
		return w.Bytes(), err
	})
	d.file("preview", func(c Caller) ([]byte, error) {
		changes, err := b.Preview(c.Agent, id)
		return []byte(lines(changes)), err
	})
	d.foreign("before", func(Caller) (any, error) { return b.Before(id) })
	return d.d
}

// at is `.tt/at`.
func at(b Backend) Node {
	d := newDir("at")
	view := func(id tasktree.TaskID) Node {
		n := d.at(strconv.FormatUint(uint64(id), 10))
		n.mode = 0o555
		return &foreign{none: n, open: func(c Caller) (any, error) { return b.At(c.Agent, id) }}
	}
	d.d.find = func(name string) (Node, bool) {
		id, ok := parseID(name)
		if ok && id != 0 {
			_, ok = b.Task(id)
		}
		if !ok {
			return nil, false
		}
		return view(id), true
	}
	d.d.more = func() []Node {
		all := []Node{view(0)}
		for _, t := range b.Tasks() {
			all = append(all, view(t.ID))
		}
		return all
	}
	return d.d
}

// agents is `.tt/agents`.
func agents(b Backend) Node {
	d := newDir("agents")
	d.d.find = func(name string) (Node, bool) {
		if !validName(name) || !exists(tasktree.Agent(name), b) {
			return nil, false
		}
		return agent(b, tasktree.Agent(name)), true
	}
	d.d.more = func() []Node {
		var all []Node
		for _, a := range b.Agents() {
			all = append(all, agent(b, a.Name))
		}
		return all
	}
	return d.d
}

// agent is `.tt/agents/NAME`.
func agent(b Backend, name tasktree.Agent) Node {
	d := newDir("agents/" + string(name))
	d.file("list", func(Caller) ([]byte, error) { return listText(b, name), nil })
	d.file("list.json", func(Caller) ([]byte, error) { return listJSON(b, name) })
	d.file("active", func(Caller) ([]byte, error) { return line(fmt.Sprint(b.Active(name))), nil })
	stale(d, b, name)
	previews(d, b, name)
	d.file("writes", func(Caller) ([]byte, error) { return writesText(b, name) })
	info := func(file string, value func(a AgentInfo) string) {
		d.file(file, func(Caller) ([]byte, error) {
			for _, a := range b.Agents() {
				if a.Name == name {
					return line(value(a)), nil
				}
			}
			return nil, d.d.missing(file)
		})
	}
	info("parent", func(a AgentInfo) string { return string(a.Parent) })
	info("isolation", func(a AgentInfo) string { return cmp.Or(a.Isolation, "none") })
	info("pids", func(AgentInfo) string { return pidLines(b.PIDs(name)) })
	return d.d
}

// pidLines is a number a line, without a newline at its end.
func pidLines(pids []int) string {
	var s []string
	for _, p := range pids {
		s = append(s, strconv.Itoa(p))
	}
	return strings.Join(s, "\n")
}
