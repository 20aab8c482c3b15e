package guard

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSpansAgainstBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s spans
		var bytes [40]bool
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			from := rapid.Int64Range(-2, 39).Draw(t, "from")
			to := rapid.Int64Range(-2, 40).Draw(t, "to")
			if rapid.IntRange(0, 6).Draw(t, "cut") == 0 {
				s.cut(max(from, 0))
				clear(bytes[max(from, 0):])
			} else {
				s.add(from, to)
				for i := max(from, 0); i < to; i++ {
					bytes[i] = true
				}
			}
			for i, v := range s {
				if v.From >= v.To || i > 0 && s[i-1].To >= v.From {
					t.Fatalf("spans %v", s)
				}
			}
			x, y := rapid.Int64Range(0, 39).Draw(t, "x"), rapid.Int64Range(0, 40).Draw(t, "y")
			all, gaps := true, []Span(nil)
			for i := x; i < y; i++ {
				all = all && bytes[i]
				switch n := len(gaps); {
				case bytes[i]:
				case n > 0 && gaps[n-1].To == i:
					gaps[n-1].To++
				default:
					gaps = append(gaps, Span{i, i + 1})
				}
			}
			if s.covers(x, y) != all || !slices.Equal(s.missing(x, y), gaps) {
				t.Fatalf("%v of %d-%d: covers %v, misses %v, not %v", s, x, y, s.covers(x, y), s.missing(x, y), gaps)
			}
		}
	})
}

func TestCovers(t *testing.T) {
	s := spans{{0, 5}, {6, 9}}
	for v, want := range map[Span]bool{{0, 5}: true, {1, 4}: true, {6, 8}: true, {6, 9}: true, {5, 6}: false, {4, 6}: false, {5, 9}: false, {8, 10}: false, {9, 10}: false, {7, 7}: true, {9, 9}: true} {
		if s.covers(v.From, v.To) != want {
			t.Errorf("%v", v)
		}
	}
}

func TestSpansAreBounded(t *testing.T) {
	var s spans
	s.add(0, 100)
	for i := range int64(maxSpans + 500) {
		s.add(1000+i*10, 1000+i*10+2)
	}
	if len(s) != maxSpans || !s.covers(0, 100) {
		t.Fatalf("%d spans, the big one kept: %v", len(s), s.covers(0, 100))
	}
	if last := int64(1000 + (maxSpans+499)*10); !s.covers(last, last+2) {
		t.Fatal("the newest was forgotten")
	}
}

func TestLedgerKeepsNewest(t *testing.T) {
	var l ledger
	l.add(Writer{"z", 1}, 1)
	for i := range 40 {
		l.add(Writer{"a", Task(i)}, Seq(i+1))
	}
	for i := range 60 {
		l.add(Writer{Agent(fmt.Sprint("b", i)), 1}, Seq(i+100))
	}
	if len(l.entries) != maxWriters || !l.foreign("x", 158) || l.foreign("x", 159) || l.last != 159 {
		t.Fatalf("%d entries, last %d", len(l.entries), l.last)
	}
	// An agent's older tasks went first: its newest is there, and an older agent.
	for _, w := range []Writer{{"a", 39}, {"z", 1}} {
		if !slices.ContainsFunc(l.entries, func(e entry) bool { return e.Writer == w }) {
			t.Fatalf("%v is gone", w)
		}
	}
	for i := range 10 {
		l.add(Writer{Agent(fmt.Sprint("c", i)), 1}, Seq(i+200))
	}
	if slices.ContainsFunc(l.entries, func(e entry) bool { return e.Agent == "a" }) {
		t.Fatal("the oldest of all did not go")
	}
	for _, as := range []Seq{0, 39, 40, 100, 158, 208} {
		if !l.foreign("a", as) {
			t.Fatalf("nobody is left after %d", as)
		}
	}
}

// One agent with many tasks on a file is never stale for itself.
func TestManyTasksOfOneAgent(t *testing.T) {
	r := newRig(t)
	r.do("a.9 create p 1")
	for i := range 3 * maxWriters {
		tell(r, fmt.Sprintf("a.1/%d rewrite p 1", i+1))
	}
	tell(r, "a.9 rewrite p 1; a.1 rewrite p 1")
	check(t, r.s)
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		v    Verdict
		kind Kind
		want string
	}{
		{Verdict{Kind: Stale, Path: "d/p", Writers: []Writer{{"b", 7}}}, Stale, "write d/p refused: b (task 7) changed it after you read it. Read it again, then write."},
		{Verdict{Kind: Stale, Path: "p", Writers: []Writer{{"b", 7}, {"c", 0}, {"user", 0}}}, Stale, "write p refused: b (task 7), c and user changed it after you read it. Read it again, then write."},
		{Verdict{Kind: Partial, Path: "p"}, Partial, "write p refused: you have read only a part of what this would destroy. Read the rest, then write."},
		{Verdict{Kind: Blind, Path: "p"}, Blind, "write p refused: you have never read it, and somebody else wrote it. Read it, then write."},
		{Verdict{Kind: Busy, Path: "p", Writers: []Writer{{"b", 0}}}, Busy, "write p refused: b is writing it. Wait until it is done, read it, then write."},
	} {
		err := c.v.Err("write")
		if !errors.Is(err, c.kind) || err.Error() != c.want {
			t.Errorf("%v", err)
		}
		if errors.Is(err, Format) {
			t.Errorf("%v is of every kind", err)
		}
	}
	if allowed.Err("write") != nil {
		t.Error("allowed is an error")
	}
	if got := Stale.Error(); got != "changed since you read it" {
		t.Error(got)
	}
	for op, want := range map[Op]string{TruncateOpen: "truncate", Punch: "punch", Overwrite: "write", RenameOver: "rename over", LinkOver: "link over", Exchange: "exchange", Unlink: "unlink", Append: "append", Create: "create", Metadata: "chmod"} {
		if op.String() != want {
			t.Errorf("%d is %q", op, op)
		}
	}
}
