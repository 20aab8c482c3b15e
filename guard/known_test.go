package guard

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestKnowsAll: who has read all, or written all, of what is there now has nothing to learn, and nobody else.
func TestKnowsAll(t *testing.T) {
	for _, c := range []struct {
		story string // then it is asked of a.1 and p
		want  bool
	}{
		{"a.1 read p", true},
		{"a.1 read p 0-2; a.1 read p 2-4", true},
		{"a.1 read p 0-2; a.1 read p 3-4", false},
		{"a.1 open p", false},
		{"a.2 read p", true}, // the process is new: what its agent knows counts
		{"b read p", false},
		{"a.1 read p; b append p", false},
		{"a.1 read p; user edit p 0-1", false},
		{"a.1 read p; outside outside p", false},
		{"a.1 read p; b append p; a.2 read p", false}, // the process has seen the older one
		{"a.1 read p; b append p; a.1 read p", true},
		{"a.1 read p; a.1 append p", true},
		{"a.1 read p; a.2 edit p 1-2", true},
		{"a.1 rewrite p 5", true},
		{"a.1 rewrite p 5; b edit p 0-1", false},
		{"a.1 read p; a.1 forget p", false},
		{"a.1 read p; b rename q p", false},
		{"a.1 read p; a.1 read q; a.1 rename q p", true},
		{"a.1 read p; a end p", false},
	} {
		r := newRig(t)
		r.do("user create p 4")
		r.do("user create q 4")
		for line := range strings.SplitSeq(c.story, "; ") {
			if got := r.do(line); got != "ok" {
				t.Fatalf("%s: %s: %s", c.story, line, got)
			}
		}
		if got := r.s.KnowsAll(actor("a.1"), r.at["p"], "p", r.size[r.at["p"]]); got != c.want {
			t.Errorf("%s: %v, should be %v", c.story, got, c.want)
		}
	}
}

// TestKnowsAllAgainstModel: who knows all may destroy all by the strictest rule, as the naive model says it; and who has just
// read all knows all.
func TestKnowsAllAgainstModel(t *testing.T) {
	asked, knew := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t)
		r.oracle = &model{}
		r.pol = Policy{Blind: Deny, Live: func(Agent) bool { return true }}
		for range rapid.IntRange(5, 40).Draw(t, "lines") {
			line := oneLine(t)
			got := r.do(line)
			for _, who := range []string{"a", "a.1", "a.2", "b", "b.3"} {
				for p, f := range r.at {
					if r.size[f] == 0 {
						continue
					}
					knows := r.s.KnowsAll(actor(who), f, Path(p), r.size[f])
					if w := strings.Fields(line); got == "ok" && w[0] == who && w[1] == "read" && w[2] == p && len(w) == 3 && !knows {
						t.Fatalf("after %q it does not know all", line)
					}
					asked++
					if !knows {
						continue
					}
					knew++
					if v := r.ask(Question{Actor: actor(who), Op: TruncateOpen, File: f, Path: Path(p), SizeBytes: r.size[f]}); v != "ok" {
						t.Fatalf("after %q %s is said to know all of %s, but %s", line, who, p, v)
					}
				}
			}
		}
	})
	if knew*50 < asked || knew*2 > asked {
		t.Fatalf("%d of %d know all: the stories show nothing", knew, asked)
	}
}
