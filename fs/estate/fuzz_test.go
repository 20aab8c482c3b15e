package estate

import (
	"testing"

	"github.com/ttfs/ttfs/fs/overlay"
)

// FuzzLeft: whatever the records hold that a daemon left, the next one reads them to their end, drops them, and has room after.
func FuzzLeft(f *testing.F) {
	e, err := New()
	if err != nil {
		f.Fatal(err)
	}
	e.PutNode(0, &overlay.KeptNode{ID: 5, Ino: 1, Up: 1, Name: "a name that is longer than what one record has room for, and another one too"})
	e.PutNode(0, &overlay.KeptNode{ID: 6, Ino: 2, Up: 5, Name: "short"})
	e.PutHandle(&Handle{FH: 3, Node: 5, Kind: File, Agent: "a", Path: ".tt/log"})
	e.PutView(&View{Number: 2, Space: "fork", Agent: "b"})
	const head, few = 64, 8
	sound := make([]byte, 0, few*nodeSize)
	sound = append(sound, e.memory[nodesAt:nodesAt+few*nodeSize]...)
	f.Add(e.memory[:head], sound, e.memory[handlesAt:handlesAt+few*handleSize], e.memory[viewsAt:viewsAt+few*viewSize])
	circle := append([]byte(nil), sound...)
	circle[2*nodeSize+8] = 2 // what goes on with a name goes on with itself
	f.Add(e.memory[:head], circle, []byte{1, 0xff}, []byte{1})
	if err := e.Close(); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, top, nodes, handles, views []byte) {
		e := fresh(t)
		copy(e.memory[:head], top)
		e.head.magic, e.head.version = magic, version
		for _, r := range []struct {
			at, size int
			b        []byte
		}{{nodesAt, few * nodeSize, nodes}, {handlesAt, few * handleSize, handles}, {viewsAt, few * viewSize, views}} {
			copy(e.memory[r.at:r.at+r.size], r.b)
			e.memory[r.at], e.memory[r.at+1] = e.memory[r.at]%few, 0 // how far it was used: a region is gigabytes
			clear(e.memory[r.at+2 : r.at+8])
		}
		e = next(t, e)
		e.Agreement()
		e.Views(func(View) {})
		e.Handles(func(i uint32, _ Handle) { e.DropHandle(i) })
		seen := map[overlay.NodeID]bool{}
		e.Nodes(func(i uint32, n overlay.KeptNode) {
			if seen[n.ID] {
				t.Errorf("node %d twice", n.ID)
			}
			seen[n.ID] = true
			e.DropNode(i)
		})
		want := overlay.KeptNode{ID: 77, Ino: 1, Up: 1, Name: "a node of today, with a name that takes more than one record, as many as two"}
		if e.PutNode(0, &want) == 0 {
			t.Fatal("there is no room")
		}
		if got := nodesOf(e); len(got) != 1 || got[77] != want {
			t.Errorf("then there is %+v", got)
		}
	})
}
