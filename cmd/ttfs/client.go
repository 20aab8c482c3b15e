package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ttfs/ttfs/fs/control"
)

// mounted is the history of a mounted workspace: the files under its `.tt/` and nothing else.
type mounted struct {
	dir string
}

// client talks to the daemon of a mounted workspace. Errors: exitNotMounted when it is dead.
func (w workspace) client() (*mounted, error) {
	m := &mounted{dir: w.root()}
	if _, err := os.Stat(m.path("ctl")); err != nil {
		switch {
		case isDead(err):
			return nil, &failure{code: exitNotMounted, text: "the daemon of " + w.dir + " has died", next: "`ttfs mount " + quoteArg(w.dir) + "` mounts it again; nothing that was acknowledged is lost"}
		case errors.Is(err, os.ErrPermission):
			return nil, &failure{code: exitFailed, text: "the history of " + w.dir + " is its owner's", err: err, next: "run this as the owner"}
		}
		return nil, failed("talk to the daemon of "+w.dir, err, "see `ttfs status`")
	}
	return m, nil
}

func (m *mounted) path(name string) string { return filepath.Join(m.dir, ".tt", name) }

func (m *mounted) close() error { return nil }

// read is the content of a file under `.tt/`.
func (m *mounted) read(name string) ([]byte, error) {
	b, err := os.ReadFile(m.path(name))
	if err != nil {
		return nil, failed("", err, "")
	}
	return b, nil
}

// word is the content of a file of one line.
func (m *mounted) word(name string) (string, error) {
	b, err := m.read(name)
	return strings.TrimSuffix(string(b), "\n"), err
}

// ctl writes one command and reads its reply from the same open file. A refusal has the sentence of the reply.
func (m *mounted) ctl(command string) (string, error) {
	f, err := os.OpenFile(m.path("ctl"), os.O_RDWR, 0)
	if err != nil {
		return "", failed("", err, "")
	}
	defer f.Close()
	_, refused := f.Write([]byte(command + "\n")) // a path may end in one of its own
	reply, err := io.ReadAll(f)
	if refused != nil {
		said, protected := control.CutProtected(string(reply))
		code := refusalCode(refused)
		if protected {
			code = exitConflict
		}
		text := strings.TrimPrefix(strings.TrimSpace(said), "error: ")
		if text == "" {
			text = strings.Fields(command)[0] + ": " + refused.Error() + "; see `ttfs why`"
		}
		return "", &failure{code: code, text: text}
	}
	if err != nil {
		return "", failed("read the reply to "+strings.Fields(command)[0], err, "it was done all the same; see `ttfs log`")
	}
	return string(reply), nil
}

func (m *mounted) status() (map[string]string, error) {
	b, err := m.read("status")
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		all[key] = control.Unquote(value)
	}
	return all, nil
}

func (m *mounted) caller() (string, error) {
	s, err := m.status()
	return s["agent"], err
}

// fork is the whole name of the fork that is seen here; "" for the workspace itself.
func (m *mounted) fork() (string, error) {
	s, err := m.status()
	return s["fork"], err
}

// pid is the daemon's.
func (m *mounted) pid() (int, error) {
	s, err := m.status()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(s["pid"])
}

func (m *mounted) list(name string) ([]taskInfo, error) {
	b, err := m.read(name)
	if err != nil {
		return nil, err
	}
	var all []taskInfo
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, failed(m.path(name), err, "the daemon is of another version: unmount and mount again")
	}
	return all, nil
}

// agents are the names of those that the workspace knows, sorted.
func (m *mounted) agents() ([]string, error) {
	entries, err := os.ReadDir(m.path("agents"))
	if err != nil {
		return nil, failed("", err, "")
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, nil
}

func (m *mounted) tasks(agent string) ([]taskInfo, error) {
	if agent != "" {
		all, err := m.list("agents/" + agent + "/list.json")
		if errors.Is(err, os.ErrNotExist) {
			if who, e := m.caller(); e == nil && who == agent {
				return m.list("tasks/list.json") // it has not done anything yet
			}
			return nil, noAgent(agent)
		}
		return all, err
	}
	names, err := m.agents()
	if err != nil {
		return nil, err
	}
	all := []taskInfo{}
	for _, name := range names {
		more, err := m.list("agents/" + name + "/list.json")
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	slices.SortFunc(all, func(a, b taskInfo) int { return compareIDs(a.ID, b.ID) })
	return all, nil
}

func (m *mounted) task(id uint64) (taskInfo, error) {
	agent, err := m.word(fmt.Sprintf("tasks/%d/agent", id))
	if errors.Is(err, os.ErrNotExist) {
		return taskInfo{}, noTask(id)
	}
	if err != nil {
		return taskInfo{}, err
	}
	all, err := m.tasks(agent)
	if err != nil {
		return taskInfo{}, err
	}
	for _, t := range all {
		if t.ID == id {
			return t, nil
		}
	}
	return taskInfo{}, noTask(id)
}

func (m *mounted) children(id uint64) ([]uint64, error) {
	b, err := m.read(fmt.Sprintf("tasks/%d/children", id))
	if err != nil {
		return nil, err
	}
	ids := []uint64{}
	for _, word := range strings.Fields(string(b)) {
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return nil, failed("the children of task "+itoa(id), err, "")
		}
		ids = append(ids, n)
	}
	return ids, nil
}

func (m *mounted) active(agent string) (uint64, error) {
	word, err := m.word("agents/" + agent + "/active")
	if errors.Is(err, os.ErrNotExist) {
		if who, e := m.caller(); e == nil && who == agent {
			return 0, nil
		}
		return 0, noAgent(agent)
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(word, 10, 64)
}

func (m *mounted) files(id uint64) ([]change, error) {
	b, err := m.read(fmt.Sprintf("tasks/%d/files", id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, m.gone(id)
	}
	if err != nil {
		return nil, err
	}
	return parseChanges(string(b)), nil
}

func (m *mounted) metrics(w io.Writer) error {
	b, err := m.read("metrics")
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}
