package guard

// Op is what is about to happen.
type Op uint8

// The operations. Those up to Unlink may destroy something.
const (
	// TruncateOpen is open(O_TRUNC), and a truncation to nothing.
	TruncateOpen Op = iota + 1
	// Truncate sets the size to Question.From.
	Truncate
	// Punch takes [From, To) out: punch a hole, zero; collapse and insert take To = the size.
	Punch
	// Overwrite writes [From, To) in place, by whatever call.
	Overwrite
	// RenameOver replaces what Path names by another file.
	RenameOver
	// LinkOver replaces what Path names by a link.
	LinkOver
	// Exchange takes both ends away from their paths: the other one is Question.Other.
	Exchange
	// Unlink takes a name away: stale only.
	Unlink
	// Append writes with O_APPEND.
	Append
	// Create makes something where nothing is.
	Create
	// Metadata changes mode, owner, times, attributes.
	Metadata
)

var opNames = [...]string{"", "truncate", "truncate", "punch", "write", "rename over", "link over", "exchange", "unlink", "append", "create", "chmod"}

// String is the word for people.
func (o Op) String() string { return opNames[o] }

// atPath says that the operation finds the file by its path, not by a handle.
func (o Op) atPath() bool {
	switch o {
	case TruncateOpen, RenameOver, LinkOver, Exchange, Unlink:
		return true
	}
	return false
}

// Question asks whether Actor may do Op to the file that Path names: for a rename or a link, what it would replace.
type Question struct {
	Actor     Actor
	Op        Op
	File      File
	Path      Path
	From, To  int64
	SizeBytes int64
	Other     End
}

// BlindRule is --blind.
type BlindRule uint8

// The rules for content that was never read.
const (
	// Allow lets it pass.
	Allow BlindRule = iota
	// Contested refuses if the last writer but the agent is another live agent.
	Contested
	// Deny refuses whenever bytes are destroyed.
	Deny
)

// Policy is what the engine knows and the State does not.
type Policy struct {
	Blind BlindRule
	// Live says whether an agent is alive; nil: those are of which something is kept. It may not call the State.
	Live func(Agent) bool
	// Unguarded lets everything pass: the class of the path, a lock that the actor holds, or the guard is off.
	Unguarded bool
}

// Verdict is the answer. Its zero value is a refusal without a reason; the State never gives it.
type Verdict struct {
	Allow bool
	// Kind is why not: Stale, Partial, Blind or Busy.
	Kind Kind
	// Path is what would have been destroyed.
	Path Path
	// Writers are the others that changed it, oldest first: of Stale since the agent knew it, of Blind and Busy the one.
	Writers []Writer
	// Ranges are of Partial the bytes that would be destroyed unseen.
	Ranges []Span
}

// Err is the verdict as an error of the operation; nil if it is allowed.
func (v Verdict) Err(op string) error {
	if v.Allow {
		return nil
	}
	return &Error{Op: op, Path: string(v.Path), Kind: v.Kind, Writers: v.Writers}
}
