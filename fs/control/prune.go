package control

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// Prune gives up old history.
const Prune Verb = "prune"

// PruneRequest says how much history is to be kept. Neither: what the configuration says.
type PruneRequest struct {
	// Keep is for how long tasks are kept; 0: not given.
	Keep time.Duration
	// MaxBytes is what the store may take; 0: not given.
	MaxBytes int64
	// Dry changes nothing and says what would go.
	Dry bool
}

// PruneReply is what went, or would go.
type PruneReply struct {
	Tasks []tasktree.TaskID
	// Before and After are the size of the store in bytes.
	Before, After int64
}

// Pruner gives up old history.
type Pruner interface {
	Prune(by Caller, r PruneRequest) (PruneReply, error)
}

// What a limit can be. A store that is smaller than leastBytes is not worth emptying: what it takes for itself is no history.
const (
	leastBytes = 64 << 20
	mostBytes  = 1 << 50
	mostKeep   = 100 * 366 * 24 * time.Hour
)

// ParseKeep reads for how long history is kept: a number and s, m, h, d (days) or w (weeks).
func ParseKeep(s string) (time.Duration, error) {
	units := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}
	digits := strings.TrimRight(s, "smhdw")
	unit, known := units[s[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || !known || n == 0 || n > uint64(mostKeep/unit) {
		return 0, fmt.Errorf("%s is no time: a number and s, m, h, d or w, such as 30d", clip(s))
	}
	return time.Duration(n) * unit, nil
}

// ParseBytes reads how much history is kept: a number and K, M, G or T, 64M at least.
func ParseBytes(s string) (int64, error) {
	shifts := map[string]uint{"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
	digits := strings.TrimRight(s, "KMGT")
	shift, known := shifts[s[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || !known || n > mostBytes>>shift || n<<shift < leastBytes {
		return 0, fmt.Errorf("%s is no size: a number and K, M, G or T, such as 10G, and 64M at least", clip(s))
	}
	return int64(n << shift), nil
}

// parsePrune reads [keep=30d] [max=10G] [dry], in any order, each once.
func parsePrune(rest string) (Command, string) {
	var c Command
	for _, w := range words(rest) {
		name, value, _ := strings.Cut(w, "=")
		var err error
		switch {
		case name == "keep" && c.Prune.Keep == 0:
			c.Prune.Keep, err = ParseKeep(value)
		case name == "max" && c.Prune.MaxBytes == 0:
			c.Prune.MaxBytes, err = ParseBytes(value)
		case w == "dry" && !c.Prune.Dry:
			c.Prune.Dry = true
		default:
			return Command{}, clip(w) + " is not understood here"
		}
		if err != nil {
			return Command{}, err.Error()
		}
	}
	return c, ""
}

// prune runs the command. Shape of the reply: `ok N`, the bytes before and after, and the N tasks, a line each.
func prune(c Command, by Caller, b Backend) (string, error) {
	p, ok := b.(Pruner)
	if !ok {
		return "", unsupported(c)
	}
	r, err := p.Prune(by, c.Prune)
	if err != nil {
		return "", wrap(c, err)
	}
	var s strings.Builder
	fmt.Fprintf(&s, "ok %d\nbefore %d\nafter %d\n", len(r.Tasks), r.Before, r.After)
	for _, id := range r.Tasks {
		fmt.Fprintf(&s, "%d\n", id)
	}
	return s.String(), nil
}
