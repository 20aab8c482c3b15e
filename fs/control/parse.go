package control

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ttfs/ttfs/fs/identity"
	"github.com/ttfs/ttfs/tasktree"
)

// Verb is the first word of a command.
type Verb string

// The verbs.
const (
	Task    Verb = "task"
	Undo    Verb = "undo"
	Redo    Verb = "redo"
	Switch  Verb = "switch"
	Revert  Verb = "revert"
	Restore Verb = "restore"
	Agent   Verb = "agent"
	End     Verb = "end"
	Fork    Verb = "fork"
	Merge   Verb = "merge"
	Discard Verb = "discard"
	Guard   Verb = "guard"
)

// usages says how each verb is written; it is also the order in which they are named to a person.
var usages = []struct {
	verb  Verb
	usage string
}{
	{Task, "task [TITLE]"},
	{Undo, "undo [agent=A] [force|skip]"},
	{Redo, "redo [agent=A] [force|skip]"},
	{Switch, "switch N [agent=A] [force|skip]"},
	{Revert, "revert N [agent=A] [force|skip]"},
	{Restore, "restore [force|skip] N PATH"},
	{Agent, "agent NAME [parent=P] [isolation=none|fork|ro] [pid=N]"},
	{End, "end [NAME]"},
	{Fork, "fork NAME [at=N]"},
	{Merge, "merge NAME [strict] [force=mine|theirs] [dry-run]"},
	{Discard, "discard NAME [force]"},
	{Guard, "guard on|off"},
	{Prune, "prune [keep=30d] [max=10G] [dry]"},
}

// Command is one line of ctl, understood. Only the fields of its verb are set.
type Command struct {
	Verb Verb
	// Title is one line of at most 60 characters.
	Title string
	// ID is the task of switch, revert and restore.
	ID tasktree.TaskID
	// Path is clean and relative to the workspace.
	Path string
	// Name is the agent or fork that the command is about; "" where end leaves it out.
	Name tasktree.Agent
	// Agent is whom a move is to move; "" for the caller.
	Agent tasktree.Agent
	// Force and Skip are never both set.
	Force, Skip bool
	Parent      tasktree.Agent
	// Isolation is none, fork or ro, "" when it was left out: the agent keeps what it has.
	Isolation string
	// PID is the process to register; 0: the caller.
	PID int
	// At is the task that a fork starts from; nil: the live state.
	At     *tasktree.TaskID
	Strict bool
	// Prefer is "", mine or theirs.
	Prefer string
	// DryRun says what a merge would do, and does nothing.
	DryRun bool
	// On is what guard is to be.
	On bool
	// Prune is what prune is to keep.
	Prune PruneRequest
}

// maxCommandBytes is the longest write that can be a command.
const maxCommandBytes = 64 << 10

// Parse takes one write to ctl apart. Errors: Invalid, with a sentence that says how to write it.
func Parse(line []byte) (Command, error) {
	if len(line) > maxCommandBytes {
		return Command{}, refuse("ctl", "a command is at most 64 KiB long; write one short line")
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	if bytes.IndexByte(line, 0) >= 0 {
		return Command{}, refuse("ctl", "a command is text, and this has a NUL byte in it; write one line such as \"task fix the parser\"")
	}
	text := strings.TrimLeft(string(line), " \t")
	word, rest := text, ""
	if i := strings.IndexAny(text, " \t\n"); i >= 0 {
		word, rest = text[:i], text[i:]
	}
	verb := Verb(word)
	if verb != Restore { // whose path may end so
		word, rest = strings.TrimSuffix(word, "\r"), strings.TrimSuffix(rest, "\r")
		verb = Verb(word)
	}
	parse, ok := parsers[verb]
	switch {
	case word == "":
		return Command{}, refuse("ctl", "the command is empty; "+known())
	case !ok:
		return Command{}, refuse(clip(word), "unknown command; "+known())
	case strings.Contains(rest, "\n") && verb != Restore:
		return Command{}, refuse(word, "a command is one line; write each command by itself")
	case !utf8.ValidString(rest) && verb != Restore:
		return Command{}, refuse(word, "the text is not UTF-8; write it in UTF-8")
	}
	c, detail := parse(rest)
	if detail != "" {
		return Command{}, refuse(word, detail+"; write: "+usage(verb))
	}
	c.Verb = verb
	return c, nil
}

// parsers take what follows a verb, with the blank before it, and say what is wrong with it, "" for nothing.
var parsers = map[Verb]func(rest string) (Command, string){
	Task:    parseTask,
	Undo:    func(rest string) (Command, string) { return parseMove(words(rest)) },
	Redo:    func(rest string) (Command, string) { return parseMove(words(rest)) },
	Switch:  parseMoveTo,
	Revert:  parseMoveTo,
	Restore: parseRestore,
	Agent:   parseAgent,
	End:     parseEnd,
	Fork:    parseFork,
	Merge:   parseMerge,
	Discard: parseDiscard,
	Guard:   parseGuard,
	Prune:   parsePrune,
}

// refuse is the error of a command that is not understood.
func refuse(op, detail string) error { return &Error{Op: op, Kind: Invalid, Detail: detail} }

// known names all verbs.
func known() string {
	var names []string
	for _, u := range usages {
		names = append(names, string(u.verb))
	}
	return "the commands are " + strings.Join(names, ", ") + " (see .tt/README)"
}

// usage is how a verb is written.
func usage(v Verb) string {
	for _, u := range usages {
		if u.verb == v {
			return u.usage
		}
	}
	return ""
}

// clip makes a word that may be anything fit for a message.
func clip(word string) string {
	if len(word) > 32 {
		word = word[:32] + "..."
	}
	quoted := strconv.Quote(word)
	if quoted == `"`+word+`"` {
		return word
	}
	return quoted
}

// words are what blanks and tabs keep apart, and only they: a line is not to look like another one.
func words(rest string) []string {
	return strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '\t' })
}

// parseID reads the one spelling of a task's number.
func parseID(word string) (tasktree.TaskID, bool) {
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != word {
		return 0, false
	}
	return tasktree.TaskID(n), true
}

// validName is the rule of agents' names, which is also that of forks.
func validName(s string) bool { return identity.ValidName(tasktree.Agent(s)) }

// badName is the sentence for a name that is none.
func badName(s string) string {
	return fmt.Sprintf("%s is not a name (1 to 64 letters, digits, dots, dashes and underscores, not starting with a dot)", clip(s))
}

// badID is the sentence for a number that is none.
func badID(s string) string {
	return fmt.Sprintf("%s is not the number of a task (see .tt/tasks/list)", clip(s))
}

func parseTask(rest string) (Command, string) {
	title := strings.TrimSpace(strings.ReplaceAll(rest, "\t", " "))
	for _, r := range title {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return Command{}, "a title is one line of text without control characters"
		}
	}
	return Command{Title: cut(title)}, ""
}

// cut shortens a title to 57 characters and "..." when it has more than 60.
func cut(title string) string {
	runes := []rune(title)
	if len(runes) <= 60 {
		return title
	}
	return string(runes[:57]) + "..."
}

// parseMove reads [agent=A] [force|skip], in any order, each once.
func parseMove(args []string) (Command, string) {
	var c Command
	for _, w := range args {
		switch name, isAgent := strings.CutPrefix(w, "agent="); {
		case isAgent && c.Agent != "":
			return c, "agent= is there twice"
		case isAgent && !validName(name):
			return c, badName(name)
		case isAgent:
			c.Agent = tasktree.Agent(name)
		case (w == "force" || w == "skip") && (c.Force || c.Skip):
			return c, "force or skip, only one of them and only once"
		case w == "force":
			c.Force = true
		case w == "skip":
			c.Skip = true
		default:
			return c, clip(w) + " is not understood here"
		}
	}
	return c, ""
}

func parseMoveTo(rest string) (Command, string) {
	args := words(rest)
	if len(args) == 0 {
		return Command{}, "the number of a task is missing (see .tt/tasks/list)"
	}
	id, ok := parseID(args[0])
	if !ok {
		return Command{}, badID(args[0])
	}
	c, detail := parseMove(args[1:])
	c.ID = id
	return c, detail
}

// parseRestore takes all that follows the one blank after the number as the path: a name may hold any byte but NUL. So how to
// restore stands before the number.
func parseRestore(rest string) (Command, string) {
	var c Command
	word, name, found := strings.Cut(strings.TrimLeft(rest, " \t"), " ")
	if c.Force, c.Skip = word == "force", word == "skip"; c.Force || c.Skip {
		word, name, found = strings.Cut(strings.TrimLeft(name, " \t"), " ")
	}
	var ok bool
	c.ID, ok = parseID(word)
	switch {
	case word == "":
		return Command{}, "the number of a task and a path are missing"
	case !ok:
		return Command{}, badID(word)
	case !found || name == "":
		return Command{}, "the path is missing"
	case strings.HasPrefix(name, "/"):
		return Command{}, "the path must be relative to the root of the workspace"
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return Command{}, "the path must not leave the workspace"
		}
	}
	name = path.Clean(name)
	if name == ".tt" || strings.HasPrefix(name, ".tt/") {
		return Command{}, ".tt is not part of the history"
	}
	c.Path = name
	return c, ""
}
