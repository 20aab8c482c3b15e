package guard

import (
	"fmt"
	"testing"
)

func TestFilesOfAnAgentAreBounded(t *testing.T) {
	r := newRig(t)
	r.do("user create p 1")
	r.do("user create q 1")
	tell(r, "a.1 read p; a.1 read q")
	for i := range maxFiles - 1 {
		r.do(fmt.Sprintf("a.1 create n%d 1", i))
		if i == maxFiles/2 {
			r.do("a.1 read q") // used again
		}
	}
	g := r.s.agents["a"]
	if len(g.files) != maxFiles || len(g.procs[actor("a.1").Proc].files) != maxOfProcess {
		t.Fatalf("%d files, %d of the process", len(g.files), len(g.procs[actor("a.1").Proc].files))
	}
	check(t, r.s)
	tell(r, "b append p; b append q; a.2 rewrite q 1 = stale b; a.2 rewrite p 1")
	check(t, r.s)
	if n := len(r.s.files); n > maxFiles+10 {
		t.Fatalf("%d files are kept", n)
	}
}

func TestPathsOfAnAgentAreBounded(t *testing.T) {
	r := newRig(t)
	tell(r, "a create old 1; a create p 1")
	for i := range maxFiles + 100 {
		r.do(fmt.Sprintf("a link p l%d", i))
	}
	g := r.s.agents["a"]
	if len(g.names) != maxFiles || g.names["old"] != nil || len(r.s.places) != maxFiles {
		t.Fatalf("%d paths, %d places", len(g.names), len(r.s.places))
	}
	if g.names["l0"] != nil || g.names[Path(fmt.Sprintf("l%d", maxFiles+99))] == nil {
		t.Fatal("the oldest link did not go first")
	}
	check(t, r.s)
}

func TestRemovedFilesGoFirst(t *testing.T) {
	r := newRig(t)
	r.do("user create p 1")
	tell(r, "a read p")
	for i := range 2 * maxFiles {
		tell(r, fmt.Sprintf("a create t%d 1; a unlink t%d", i, i))
	}
	tell(r, "b append p; a rewrite p 1 = stale b")
	check(t, r.s)
}

func TestProcessesAreBounded(t *testing.T) {
	r := newRig(t)
	r.do("user create p 1")
	tell(r, "a.1 read p; a.2 read p; b append p; a.3 read p")
	for i := range maxProcesses {
		if i == 100 {
			tell(r, "a.2 append p")
		}
		r.do(fmt.Sprintf("a.%d create n%d 1", i+10, i))
	}
	if n := len(r.s.agents["a"].procs); n != maxProcesses {
		t.Fatalf("%d processes", n)
	}
	tell(r, "a.2 rewrite p 1 = stale b; a.1 rewrite p 1")
	check(t, r.s)
}

func TestAgentsAreBounded(t *testing.T) {
	r := newRig(t)
	r.do("user create p 1")
	tell(r, "a read p; b read p; b begin p")
	for i := range maxAgents - 1 {
		r.do(fmt.Sprintf("x%d create n%d 1", i, i))
		if i == 500 {
			tell(r, "a read p")
		}
	}
	if !r.s.Knows("a") || r.s.Knows("b") || len(r.s.Agents()) != maxAgents {
		t.Fatalf("%d agents, a %v, b %v", len(r.s.Agents()), r.s.Knows("a"), r.s.Knows("b"))
	}
	tell(r, "a may p = busy b") // to be forgotten is not to be ended
	check(t, r.s)
}

// What all have forgotten takes no room.
func TestNothingStays(t *testing.T) {
	r := newRig(t)
	r.do("user create p 1")
	tell(r, "a.1 read p; b.2 append p; a create d/x 3; b read d/x; a mvdir d e; c rename e/x p = ok; user rename p q; a.1 begin q")
	tell(r, "a end; b end; c end; user rewrite q 2; user create p 1; user link q l; user rename l m; user exchange p q; user unlink m; user outside q")
	if st := r.s.Stats(); st != (Stats{}) || len(r.s.busy) != 0 {
		t.Fatalf("%+v", st)
	}
}

func TestStats(t *testing.T) {
	r := newRig(t)
	r.do("user create p 1")
	tell(r, "a.1 read p; a.2 read p; b create q 1")
	if st := r.s.Stats(); st != (Stats{Agents: 2, Processes: 2, Files: 2, Paths: 2, Knowledge: 2}) {
		t.Fatalf("%+v", st)
	}
	if v := r.s.Version(r.at["q"]); v == 0 || v != r.s.Now() || r.s.Version(99) != 0 {
		t.Fatalf("version %d of %d", v, r.s.Now())
	}
}

// A number of a file that is used again is another file.
func TestNumbersUsedAgain(t *testing.T) {
	s, a, b := New(), actor("a.1"), actor("b")
	s.Created(a, 7, "p")
	s.Wrote(a, 7, "p", 0, 5, 5)
	s.Removed(a, 7, "p")
	s.Created(b, 7, "q")
	s.Wrote(b, 7, "q", 0, 5, 5)
	ask := func(a Actor, p Path) string {
		return told(s.Decide(&Question{Actor: a, Op: TruncateOpen, File: 7, Path: p, SizeBytes: 5}, &Policy{Blind: Contested}))
	}
	if got := ask(a, "q"); got != "blind b" {
		t.Error(got)
	}
	s.Created(b, 7, "p")
	if got := ask(a, "p"); got != "stale b" {
		t.Error(got)
	}
	s.Read(a, 7, "p", 1, 0, 5) // begun in its former life
	if got := ask(a, "q"); got != "blind b" {
		t.Error(got)
	}
	check(t, s)
}

// Nameless files, and handles whose path names something else by now.
func TestHandlesWithoutPath(t *testing.T) {
	s, a, b := New(), actor("a.1"), actor("b")
	s.Created(a, 1, "")
	s.Wrote(a, 1, "", 0, 5, 5)
	s.Linked(a, 1, "p")
	s.Created(b, 2, "t")
	s.Renamed(b, 2, "t", "p", false)
	s.Wrote(a, 1, "p", 0, 5, 5) // by the old handle
	s.Read(a, 1, "p", s.Now(), 0, 5)
	q := Question{Actor: a, Op: TruncateOpen, File: 2, Path: "p", SizeBytes: 5}
	if got := told(s.Decide(&q, &Policy{})); got != "stale b" {
		t.Error(got)
	}
	q.File, q.Op, q.To = 1, Overwrite, 5
	if got := told(s.Decide(&q, &Policy{})); got != "ok" {
		t.Error(got)
	}
	s.Exchanged(b, End{Path: "d", Dir: true}, End{File: 2, Path: "p"})
	check(t, s)
	if e := s.Stale("a"); len(e) != 1 || e[0].Path != "p" || e[0].File != 0 {
		t.Errorf("%+v", e)
	}
}

func TestActors(t *testing.T) {
	s := New()
	s.Created(actor("a"), 1, "p")
	s.Wrote(actor("a"), 1, "p", 0, 9, 9)
	for _, who := range []Actor{{}, {User: true}, {Agent: User}, {Agent: "root", User: true}, {Agent: Outside}} {
		s.Opened(who, 1, "p", 9, ForReading)
		s.Read(who, 1, "p", s.Now(), 0, 9)
		s.Wrote(who, 1, "p", 0, 9, 9)
		s.Removed(who, 1, "p")
		s.Created(who, 1, "p")
		q := Question{Actor: who, Op: TruncateOpen, File: 1, Path: "p", SizeBytes: 9}
		if !s.Decide(&q, &Policy{Blind: Deny}).Allow {
			t.Errorf("%+v refused", who)
		}
	}
	if got := s.Agents(); len(got) != 1 {
		t.Errorf("kept of %v", got)
	}
	if e := s.Stale("a"); len(e) != 1 || len(e[0].Agents()) != 3 {
		t.Errorf("%+v", e)
	}
	check(t, s)
}

// What is written to an emptied file without a report (passthrough) is the agent's own; what it knew past a cut is not.
func TestUnreportedBytes(t *testing.T) {
	s, a := New(), actor("a.1")
	q := Question{Actor: a, Op: TruncateOpen, File: 1, Path: "p", SizeBytes: 8 * block}
	s.Opened(a, 1, "p", q.SizeBytes, ForReading)
	s.Read(a, 1, "p", s.Now(), 0, q.SizeBytes)
	s.Wrote(a, 1, "p", block, block, block)
	if got := told(s.Decide(&q, &Policy{})); got != "partial 1-8" {
		t.Error(got)
	}
	s.Wrote(a, 1, "p", 0, 0, 0)
	s.Read(a, 1, "p", s.Now(), 0, block)
	if got := told(s.Decide(&q, &Policy{Blind: Deny})); got != "ok" {
		t.Error(got)
	}
	s.Wrote(actor("user"), 1, "p", 0, 0, 0)
	if got := told(s.Decide(&q, &Policy{})); got != "stale user" {
		t.Error(got)
	}
}
