package estate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/fs/overlay"
	"golang.org/x/sys/unix"
)

// next opens what a daemon leaves, as the one that follows it does.
func next(t *testing.T, e *Estate) *Estate {
	t.Helper()
	fd, err := unix.FcntlInt(uintptr(e.FD()), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	n.Taken()
	return n
}

func fresh(t *testing.T) *Estate {
	t.Helper()
	e, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func nodesOf(e *Estate) map[overlay.NodeID]overlay.KeptNode {
	all := map[overlay.NodeID]overlay.KeptNode{}
	e.Nodes(func(_ uint32, n overlay.KeptNode) { all[n.ID] = n })
	return all
}

// TestNodesAreLeft: nodes come back as they were put, with names of every length, and nothing is left of those that were dropped.
func TestNodesAreLeft(t *testing.T) {
	e := fresh(t)
	want := map[overlay.NodeID]overlay.KeptNode{}
	records := map[overlay.NodeID]uint32{}
	for i := range 256 {
		n := overlay.KeptNode{ID: overlay.NodeID(i + 2), Ino: uint64(i) * 7, Born: -int64(i), Kind: unix.S_IFREG, Lookups: uint64(i), Up: 1, Name: strings.Repeat("x", i)}
		n.InHold, n.Gone = i%3 == 1, i%3 == 2
		records[n.ID] = e.PutNode(0, &n)
		want[n.ID] = n
	}
	for id, n := range want {
		switch id % 4 {
		case 0:
			n.Name, n.Up = "moved"+n.Name[:len(n.Name)/2], 9
			records[id] = e.PutNode(records[id], &n)
			want[id] = n
		case 1:
			e.DropNode(records[id])
			delete(want, id)
		case 2:
			n.Lookups = 1 << 33
			e.LookedNode(records[id], n.Lookups)
			n.Lookups = 1<<32 - 1 // too many is no harm
			want[id] = n
		}
	}
	for range 2 {
		e = next(t, e)
		got := nodesOf(e)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%d nodes are left of %d, or others", len(got), len(want))
		}
		if e.NextNode() != 258 {
			t.Errorf("the next id is %d", e.NextNode())
		}
	}
	if e.Round() != 3 {
		t.Errorf("it is the daemon number %d", e.Round())
	}
	used := e.nodes.next
	e.Nodes(func(i uint32, _ overlay.KeptNode) { e.DropNode(i) })
	for i := range 300 {
		e.PutNode(0, &overlay.KeptNode{ID: overlay.NodeID(i + 1000), Name: "short"})
	}
	if e.nodes.next > max(used, 301) {
		t.Errorf("free records are not used again: %d and then %d", used, e.nodes.next)
	}
}

// TestDeathBetweenStores: when a death comes between the stores by which a node's record is replaced, one of the two counts.
func TestDeathBetweenStores(t *testing.T) {
	old := overlay.KeptNode{ID: 5, Ino: 1, Up: 1, Name: strings.Repeat("old", 40)}
	moved := overlay.KeptNode{ID: 5, Ino: 1, Up: 2, Name: strings.Repeat("new", 50)}
	for _, c := range []struct {
		name   string
		undone func(e *Estate, before, after uint32)
		want   overlay.KeptNode
	}{
		{"before it is marked", func(e *Estate, before, after uint32) { e.node(after).id.Store(0) }, old},
		{"after it is marked", func(e *Estate, before, after uint32) {
			e.node(after).id.Store(0)
			e.node(before).flags.Store(flagStale)
		}, old},
		{"before the old one is free", func(e *Estate, before, after uint32) { e.node(before).flags.Store(flagStale) }, moved},
	} {
		e := fresh(t)
		before := e.PutNode(0, &old)
		after := e.PutNode(0, &moved)
		c.undone(e, before, after)
		e = next(t, e)
		if got := nodesOf(e); len(got) != 1 || got[5] != c.want {
			t.Errorf("%s: %v is left", c.name, got)
		}
		if n := e.nodes.next - uint32(len(e.nodes.free)); n > 4 {
			t.Errorf("%s: %d records are taken by one node", c.name, n)
		}
	}
}

// TestHandlesAndViewsAreLeft: so do open files and views; what does not fit is refused.
func TestHandlesAndViewsAreLeft(t *testing.T) {
	e := fresh(t)
	h := Handle{FH: 3, Node: 8, Kind: Virtual, Mode: 2, Backed: true, Rewrites: true, Flags: unix.O_APPEND, Backing: 4, PID: 77, Start: 88, Agent: strings.Repeat("a", 64), Path: ".tt/log"}
	one := e.PutHandle(&h)
	two := e.PutHandle(&Handle{FH: 4, Kind: File, Privileged: true})
	e.ReleaseHandle(one)
	e.DropHandle(two)
	if e.PutHandle(&Handle{FH: 5, Path: strings.Repeat("p", 200)}) != 0 {
		t.Error("a path that is too long is kept")
	}
	v := View{Number: 2, Space: "fork/below", Own: true, Agent: "bob"}
	if !e.PutView(&v) || e.PutView(&View{Number: 3, Space: strings.Repeat("s", 300)}) {
		t.Error("a view is not kept, or one that does not fit is")
	}
	if err := e.SetAgreement([]byte("agreed")); err != nil || e.SetAgreement(make([]byte, agreementMost+1)) == nil {
		t.Errorf("what was agreed: %v", err)
	}
	e = next(t, e)
	h.Released = true
	e.Handles(func(i uint32, got Handle) {
		if i != one || got != h {
			t.Errorf("%+v is left of %+v", got, h)
		}
		h.FH = 0
	})
	e.Views(func(got View) {
		if got != v {
			t.Errorf("%+v is left of %+v", got, v)
		}
		v.Number = 0
	})
	if h.FH != 0 || v.Number != 0 || string(e.Agreement()) != "agreed" {
		t.Error("not everything is left")
	}
}

// TestOfAnotherVersion: what is not an estate, or one of another version, is refused.
func TestOfAnotherVersion(t *testing.T) {
	e := fresh(t)
	e.head.version++
	for _, fd := range []int{e.FD(), 0} {
		fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(fd); err == nil {
			t.Error("it is opened")
		}
	}
}

// TestKeeper: descriptors that a daemon has kept come to the one that follows, by their names.
func TestKeeper(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	k, err := NewKeeper(pair[1], map[string]int{NameGone + "7": pipe[1]})
	if err != nil {
		t.Fatal(err)
	}
	if k.Heir() {
		t.Error("without /dev/fuse it is an heir")
	}
	if err := k.Keep("one", pipe[0]); err != nil {
		t.Fatal(err)
	}
	unix.Close(pipe[0])
	got, err := Receive(pair[0])
	if err != nil || got.Keep != "one" || got.FD < 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	defer unix.Close(got.FD)
	if names := k.Rest(); len(names) != 1 || names[0] != NameGone+"7" {
		t.Errorf("what nobody took: %v", names)
	}
	if n, err := unix.Read(got.FD, make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("the other end of the pipe is not closed, or it is not the pipe: %d, %v", n, err)
	}
	for _, send := range []func() error{func() error { return k.Drop("one") }, func() error { return k.Say(Serving) }} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Receive(pair[0]); err != nil || got.Drop != "one" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Receive(pair[0]); err != nil || got.Say != Serving {
		t.Errorf("%+v, %v", got, err)
	}
	k.Close()
	if _, err := Receive(pair[0]); err == nil {
		t.Error("a daemon that is gone says something")
	}
	if k.Say(Over) == nil {
		t.Error("a keeper that was let go hears something")
	}
}
