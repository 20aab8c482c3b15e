package overlay

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/ttfs/ttfs/guard"
	"github.com/ttfs/ttfs/tasktree"
)

// event writes a line of `.tt/log`. Shape: the time (RFC 3339, UTC), a word, and key=value, all with one blank between;
// a value is as it is, or quoted as Go does where it is empty or has other characters than those of names, numbers and
// paths without blanks. What happened in a fork ends with in=FORK. docs/design.md lists the words; a test holds every line of every test to the shape.
func (e *Engine) event(format string, args ...any) {
	if e.opt.Events != nil {
		line := e.clock().UTC().Format(time.RFC3339Nano) + " " + fmt.Sprintf(format, args...)
		if e.opt.fork != "" {
			line += " in=" + string(e.opt.fork)
		}
		e.opt.Events(line)
	}
}

// quoted is a value of an event.
type quoted string

// String quotes where it must.
func (q quoted) String() string {
	for _, r := range q {
		if r == utf8.RuneError || r <= ' ' || r == '"' || r == '=' || r == '\\' || r == 0x7f || !strconv.IsPrint(r) {
			return strconv.Quote(string(q))
		}
	}
	if q == "" {
		return `""`
	}
	return string(q)
}

// tellRefused writes that a move was refused for what others have changed: one line, with the first of the paths.
func (e *Engine) tellRefused(op string, a tasktree.Agent, report []ConflictEntry) {
	c, decision := report[0], "conflict"
	if c.Agent == a {
		decision = "protected"
	}
	e.event("refused op=%s agent=%s path=%s writer=%s task=%d paths=%d decision=%s", quoted(op), a, quoted(c.Path), c.Agent, c.Task, len(report), decision)
}

// AgentBegan writes that a process was made an agent.
func (e *Engine) AgentBegan(a, parent tasktree.Agent, pid int) {
	if parent == "" {
		e.event("agent agent=%s pid=%d", a, pid)
		return
	}
	e.event("agent agent=%s parent=%s pid=%d", a, parent, pid)
}

// decision is the word for a verdict of the guard's; the sentence is for `.tt/why`.
func decision(k guard.Kind) string {
	switch k {
	case guard.Stale:
		return "stale"
	case guard.Partial:
		return "partial"
	case guard.Blind:
		return "blind"
	case guard.Busy:
		return "busy"
	}
	return string(k)
}
