package control

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ttfs/ttfs/fs/identity"
	"github.com/ttfs/ttfs/tasktree"
)

func TestParse(t *testing.T) {
	seven := tasktree.TaskID(7)
	zero := tasktree.TaskID(0)
	long := strings.Repeat("ä", 61)
	for line, want := range map[string]Command{
		"task":                       {Verb: Task},
		"task\n":                     {Verb: Task},
		"task ":                      {Verb: Task},
		"task fix the parser\n":      {Verb: Task, Title: "fix the parser"},
		"task fix the parser\r\n":    {Verb: Task, Title: "fix the parser"},
		"  task\tfix\tit  ":          {Verb: Task, Title: "fix it"},
		"task undo":                  {Verb: Task, Title: "undo"},
		"task agent=x force":         {Verb: Task, Title: "agent=x force"},
		"task " + long:               {Verb: Task, Title: strings.Repeat("ä", 57) + "..."},
		"task " + long[:120]:         {Verb: Task, Title: strings.Repeat("ä", 60)},
		"undo":                       {Verb: Undo},
		"undo\n":                     {Verb: Undo},
		"undo force":                 {Verb: Undo, Force: true},
		"undo agent=a1 skip":         {Verb: Undo, Agent: "a1", Skip: true},
		"undo skip agent=a1":         {Verb: Undo, Agent: "a1", Skip: true},
		"redo agent=user":            {Verb: Redo, Agent: "user"},
		"switch 7":                   {Verb: Switch, ID: 7},
		"switch 0":                   {Verb: Switch},
		"switch 4294967297":          {Verb: Switch, ID: 4294967297},
		"switch 7 force agent=b":     {Verb: Switch, ID: 7, Force: true, Agent: "b"},
		"revert 7 skip":              {Verb: Revert, ID: 7, Skip: true},
		"restore 7 a":                {Verb: Restore, ID: 7, Path: "a"},
		"restore force 7 a b":        {Verb: Restore, ID: 7, Path: "a b", Force: true},
		"restore \t skip \t7 skip":   {Verb: Restore, ID: 7, Path: "skip", Skip: true},
		"restore 7 force":            {Verb: Restore, ID: 7, Path: "force"},
		"restore 7 a force":          {Verb: Restore, ID: 7, Path: "a force"},
		"restore 7 a b/c \n":         {Verb: Restore, ID: 7, Path: "a b/c "},
		"restore 7  a":               {Verb: Restore, ID: 7, Path: " a"},
		"restore 0 ./x//y/":          {Verb: Restore, Path: "x/y"},
		"restore 7 a\nb":             {Verb: Restore, ID: 7, Path: "a\nb"},
		"restore 7 \xff":             {Verb: Restore, ID: 7, Path: "\xff"},
		"restore 7 .ttx":             {Verb: Restore, ID: 7, Path: ".ttx"},
		"restore 7 a/..b/...":        {Verb: Restore, ID: 7, Path: "a/..b/..."},
		"agent bob":                  {Verb: Agent, Name: "bob"},
		"agent bob parent=al pid=12": {Verb: Agent, Name: "bob", Parent: "al", PID: 12},
		"agent bob isolation=ro":     {Verb: Agent, Name: "bob", Isolation: "ro"},
		"agent bob isolation=fork":   {Verb: Agent, Name: "bob", Isolation: "fork"},
		"agent bob isolation=none":   {Verb: Agent, Name: "bob", Isolation: "none"},
		"end":                        {Verb: End},
		"end bob":                    {Verb: End, Name: "bob"},
		"fork f1":                    {Verb: Fork, Name: "f1"},
		"fork f1 at=7":               {Verb: Fork, Name: "f1", At: &seven},
		"fork f1 at=0":               {Verb: Fork, Name: "f1", At: &zero},
		"merge f1":                   {Verb: Merge, Name: "f1"},
		"merge f1 strict force=mine": {Verb: Merge, Name: "f1", Strict: true, Prefer: "mine"},
		"merge f1 dry-run":           {Verb: Merge, Name: "f1", DryRun: true},
		"merge f1 force=theirs":      {Verb: Merge, Name: "f1", Prefer: "theirs"},
		"discard f1":                 {Verb: Discard, Name: "f1"},
		"discard f1 force":           {Verb: Discard, Name: "f1", Force: true},
		"guard on":                   {Verb: Guard, On: true},
		"guard off\n":                {Verb: Guard},
		"prune":                      {Verb: Prune},
		"prune keep=30d":             {Verb: Prune, Prune: PruneRequest{Keep: 30 * 24 * time.Hour}},
		"prune dry max=10G keep=2w":  {Verb: Prune, Prune: PruneRequest{Keep: 14 * 24 * time.Hour, MaxBytes: 10 << 30, Dry: true}},
		"prune max=67108864":         {Verb: Prune, Prune: PruneRequest{MaxBytes: 64 << 20}},
	} {
		got, err := Parse([]byte(line))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v, want %+v", line, got, err, want)
		}
	}
}

func TestParseRefused(t *testing.T) {
	for _, line := range []string{
		"", "\n", " ", "\t\n", "\r\n", "x", "TASK", "Undo", "undo\x00", "\x00", "task a\x00b", "\xff\xfe", "task \xff", "\x7fELF\x02\x01",
		"task a\nb", "task a\n\n", "undo\nundo", "\nundo", "task\x1b[31mred", "task \x1b[31mred", "task a\rb", "task a\u2028b", "task a\u0085b", "undo\u00a0force", "undo \vforce", "switch 1\u00a0", "guard\u2003on", "tasks", "task\vx",
		"undo 1", "undo all", "undo force skip", "undo force force", "undo skip skip", "undo agent=", "undo agent=a agent=b",
		"undo agent=.x", "undo agent=a/b", "undo Force", "redo 1", "redo x",
		"switch", "switch ", "switch -1", "switch +1", "switch x", "switch 01", "switch 00", "switch 1 2", "switch 1.0", "switch 0x1",
		"switch 1,2", "switch 18446744073709551616", "switch 1_0", "switch ١", "switch force 1",
		"revert", "revert -1", "revert 1 2", "revert x",
		"restore", "restore 1", "restore 1 ", "restore x a", "restore -1 a", "restore 1 /a", "restore 1 ../a", "restore 1 a/../../b",
		"restore force", "restore skip 1", "restore force skip 1 a", "restore force force 1 a", "restore forced 1 a", "restore\nforce 1 a",
		"restore 1 a/../b", "restore 1 .tt", "restore 1 ./.tt/ctl", "restore 1 a\x00b",
		"agent", "agent user", "agent .x", "agent ..", "agent a b", "agent a parent=", "agent a parent=.x", "agent a isolation=", "agent a isolation=vm",
		"agent a pid=0", "agent a pid=-1", "agent a pid=x", "agent a pid=01", "agent a pid=4294967297", "agent a pid=1 pid=2", "agent a pid",
		"agent a parent=b parent=c", "agent a foo=1", "agent " + strings.Repeat("x", 65),
		"end a b", "end .x", "fork", "fork a b", "fork a at=", "fork a at=x", "fork a at=-1", "fork a at=1 at=2", "fork /",
		"merge", "merge a b", "merge a force", "merge a force=both", "merge a strict strict", "merge a force=mine force=theirs", "merge ..",
		"discard", "discard a b", "discard a force force", "guard", "guard maybe", "guard on off", "guard On",
		"prune 30d", "prune keep", "prune keep=", "prune keep=30", "prune keep=d", "prune keep=0d", "prune keep=-1d", "prune keep=1.5d", "prune keep=1dd",
		"prune keep=1d keep=2d", "prune keep=4000000000w", "prune keep=18446744073709551616s", "prune max=", "prune max=1M", "prune max=0", "prune max=-1G", "prune max=1GG",
		"prune max=1G max=1G", "prune max=9223372036854775807T", "prune max=1X", "prune dry dry", "prune dry=1 x",
		strings.Repeat("x", maxCommandBytes+1), "task " + strings.Repeat("x", maxCommandBytes),
	} {
		c, err := Parse([]byte(line))
		shown := line[:min(len(line), 40)]
		if !errors.Is(err, Invalid) {
			t.Errorf("%q: %+v, %v", shown, c, err)
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Detail == "" {
			t.Errorf("%q: no sentence in %v", shown, err)
		}
		if msg := err.Error(); len(msg) > 400 || strings.ContainsAny(msg, "\n\x00\x1b") || !utf8.ValidString(msg) {
			t.Errorf("%q: the message is not fit for a person: %q", shown, msg)
		}
	}
}

// Each verb's usage is taken by the parser, so that a message never advises what is refused.
func TestUsages(t *testing.T) {
	if len(usages) != len(parsers) {
		t.Fatalf("%d usages of %d verbs", len(usages), len(parsers))
	}
	fill := strings.NewReplacer("[TITLE]", "title", "agent=A", "agent=a", "force|skip", "force", "NAME", "name", "N", "1", "PATH", "path",
		"parent=P", "parent=p", "none|fork|ro", "none", "mine|theirs", "mine", "on|off", "on", "[", "", "]", "")
	for _, u := range usages {
		if c, err := Parse([]byte(fill.Replace(u.usage))); err != nil || c.Verb != u.verb {
			t.Errorf("%s: %+v, %v", u.usage, c, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, u := range usages {
		f.Add([]byte(u.usage))
	}
	for _, s := range []string{"", "\n", "task ", "task a\nb", "switch 7", "switch -1", "switch 1 2", "switch 4294967297", "undo agent=a force",
		"restore 7 a b\n", "restore force 7 a", "restore skip 7 force", "restore 7 ../x", "restore 1 .tt/x", "agent a parent=b isolation=ro pid=3", "end", "fork f at=1", "merge f strict force=mine",
		"discard f force", "guard off", "task " + strings.Repeat("ä", 70), "task \xf0\x9f", "\x00\x01\x02", "undo\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		c, err := Parse(line)
		if err != nil {
			if !errors.Is(err, Invalid) || Errno(err) == 0 {
				t.Fatalf("%q: %v", line, err)
			}
			if msg := err.Error(); strings.ContainsAny(msg, "\n\x00") || len(msg) > 600 {
				t.Fatalf("%q: %q", line, msg)
			}
			return
		}
		if parsers[c.Verb] == nil {
			t.Fatalf("%q: verb %q", line, c.Verb)
		}
		if n := utf8.RuneCountInString(c.Title); n > 60 || !utf8.ValidString(c.Title) || strings.ContainsAny(c.Title, "\n\x00\x1b") {
			t.Fatalf("%q: title %q", line, c.Title)
		}
		for _, a := range []tasktree.Agent{c.Name, c.Agent, c.Parent} {
			if a != "" && !identity.ValidName(a) {
				t.Fatalf("%q: name %q", line, a)
			}
		}
		if c.Force && c.Skip || c.PID < 0 {
			t.Fatalf("%q: %+v", line, c)
		}
		if c.Verb == Restore {
			if c.Path == "" || c.Path[0] == '/' || strings.ContainsRune(c.Path, 0) || c.Path == ".tt" ||
				strings.HasPrefix(c.Path, ".tt/") || strings.Contains("/"+c.Path+"/", "/../") {
				t.Fatalf("%q: path %q", line, c.Path)
			}
		}
		again, err := Parse(append(line, '\n'))
		if last := len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r'); !last && len(line) < maxCommandBytes &&
			(err != nil || !reflect.DeepEqual(again, c)) {
			t.Fatalf("%q: a trailing newline matters: %+v, %v", line, again, err)
		}
	})
}
