package overlay

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

var eventsMu sync.Mutex // tests change things at once

// event takes a line of the log and fails the test when it has not the shape that all have.
func (s *stand) event(line string) {
	eventsMu.Lock()
	defer eventsMu.Unlock()
	if _, err := parseEvent(line); err != nil {
		s.t.Errorf("%q: %v", line, err)
	}
	s.lines = append(s.lines, line)
}

var eventKey = regexp.MustCompile(`^ ([a-z]+)=`)

// parseEvent takes a line apart: the word is under "".
func parseEvent(line string) (map[string]string, error) {
	at, rest, _ := strings.Cut(line, " ")
	if _, err := time.Parse(time.RFC3339Nano, at); err != nil || !strings.HasSuffix(at, "Z") {
		return nil, fmt.Errorf("no time: %w", err)
	}
	word, _, _ := strings.Cut(rest, " ")
	if !regexp.MustCompile(`^[a-z]+$`).MatchString(word) {
		return nil, fmt.Errorf("%q is no word", word)
	}
	out := map[string]string{"": word}
	rest = rest[len(word):]
	for rest != "" {
		m := eventKey.FindStringSubmatch(rest)
		if m == nil || out[m[1]] != "" {
			return nil, fmt.Errorf("no key, or one twice, at %q", rest)
		}
		rest = rest[len(m[0]):]
		value := rest
		if strings.HasPrefix(rest, `"`) {
			q, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, err
			}
			rest = rest[len(q):]
			value, _ = strconv.Unquote(q)
		} else {
			if i := strings.IndexByte(rest, ' '); i >= 0 {
				value = rest[:i]
			}
			if value == "" || strings.ContainsAny(value, "\"=\n") {
				return nil, fmt.Errorf("a value is not quoted at %q", rest)
			}
			rest = rest[len(value):]
		}
		out[m[1]] = value
	}
	return out, nil
}

func TestQuoted(t *testing.T) {
	for in, want := range map[string]string{"": `""`, "a/b-c.d": "a/b-c.d", "a b": `"a b"`, `a"b`: `"a\"b"`, "a\nb": `"a\nb"`, "k=v": `"k=v"`, "é": "é", "\xff": `"\xff"`, "a\u2028b": `"a\u2028b"`} {
		if got := quoted(in).String(); got != want {
			t.Errorf("%q is %s, want %s", in, got, want)
		}
	}
}

// TestEvents: each kind of event writes its one line, with who and what in it.
func TestEvents(t *testing.T) {
	s := newStand(t, 1)
	s.set = func(o *Options) { o.Guard, o.Events = true, s.event }
	s.reopen()
	s.agent = "a"
	var from int
	// wrote are the new lines that begin with a word, without their times.
	wrote := func(word string) (out []string) {
		eventsMu.Lock()
		defer eventsMu.Unlock()
		for _, l := range s.lines[from:] {
			if m, err := parseEvent(l); err == nil && m[""] == word {
				_, l, _ = strings.Cut(l, " ")
				out = append(out, l)
			}
		}
		from = len(s.lines)
		return out
	}
	is := func(word string, want ...string) {
		t.Helper()
		if got := wrote(word); !slices.Equal(got, want) {
			t.Errorf("%s:\n\t%s\nwant\n\t%s", word, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
	}
	s.must(s.create("f f", "first", 0o644))
	is("task", `task agent=a task=1 title=automatic auto=true`)
	s.begin("say \"x\"")
	is("task", `task agent=a task=2 title="say \"x\""`)
	s.must(errors.Join(s.rewrite("f f", "second"), s.create("n", "", 0o644)))
	is("task")
	s.undo()
	is("undo", `undo agent=a from=2 to=1 changed=2 lost=0`)
	s.redo()
	is("redo", `redo agent=a from=1 to=2 changed=2 lost=0`)
	_, err := s.e.Switch("a", 1, MoveOptions{})
	s.must(err)
	is("switch", `switch agent=a from=2 to=1 changed=2 lost=0`)
	s.redo()
	_, err = s.e.Revert("a", 2, MoveOptions{})
	s.must(err)
	is("revert", `revert agent=a from=2 to=3 changed=2 lost=0`)
	_, err = s.e.Restore("a", 2, []string{"n"}, MoveOptions{})
	s.must(err)
	is("restore", `restore agent=a from=3 to=4 changed=1 lost=0`)
	s.begin("five")
	s.must(s.rewrite("f f", "third"))
	s.must(s.as(tasktree.User, func() error { return s.rewrite("f f", "of the user") }))
	wrote("")
	if _, err := s.e.Undo("a", MoveOptions{}); !errors.Is(err, Conflict) {
		t.Fatal(err)
	}
	is("refused", `refused op=undo agent=a path="f f" writer=user task=6 paths=1 decision=conflict`)
	if _, err := s.e.Revert("a", 5, MoveOptions{}); !errors.Is(err, Conflict) {
		t.Fatal(err)
	}
	is("refused", `refused op=revert agent=a path="f f" writer=user task=6 paths=1 decision=conflict`)
	if _, err := s.e.Undo("a", MoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if got := wrote("undo"); len(got) == 0 || !strings.HasSuffix(got[len(got)-1], " lost=0") {
		t.Errorf("undo force: %q", got)
	}
	s.e.SetGuard(false)
	is("guard", `guard on=false`)
	s.e.SetGuard(true)
	is("guard", `guard on=true`)
	s.e.AgentBegan("b", "a", 7)
	is("agent", `agent agent=b parent=a pid=7`)
	s.e.AgentBegan("c", "", 8)
	is("agent", `agent agent=c pid=8`)
	s.must(s.as("b", func() error { return s.readFile("f f", 100) }))
	s.must(s.as(tasktree.User, func() error { return s.rewrite("f f", "again") }))
	wrote("")
	if err := s.as("b", func() error { return s.rewrite("f f", "of b") }); !errors.Is(err, Stale) {
		t.Fatal(err)
	}
	if got := wrote("refused"); len(got) != 1 || !strings.HasPrefix(got[0], `refused op=`) || !strings.HasSuffix(got[0], ` agent=b path="f f" writer=user decision=stale`) {
		t.Errorf("refused: %q", got)
	}
	s.e.EndAgent("b")
	is("end", `end agent=b`)
	s.begin("late")
	entered := s.e.Active("a")
	s.undo()
	c := s.caller()
	c.Entered = entered
	wrote("")
	if _, err := s.e.Mkdir(c, RootNode, "late", 0o755); !errors.Is(err, Fenced) {
		t.Fatal(err)
	}
	is("refused", fmt.Sprintf(`refused op=change agent=a task=%d decision=fenced`, entered))
}
