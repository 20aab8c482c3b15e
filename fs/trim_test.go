package fs

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/overlay"
	"golang.org/x/sys/unix"
)

// forgetful is a kernel that drops what it is asked to.
type forgetful struct {
	deaf
	f     *face
	mu    sync.Mutex
	held  map[uint64]uint64 // lookups by inode
	asked chan []uint64     // of each notification, after its forgets
}

func (k *forgetful) PruneNotify(ids []uint64) fuse.Status {
	k.mu.Lock()
	for _, id := range ids {
		if n := k.held[id]; n > 0 {
			delete(k.held, id)
			k.f.Forget(id, n)
		}
	}
	k.mu.Unlock()
	k.asked <- ids
	return fuse.OK
}

// look is a lookup that the kernel remembers.
func (k *forgetful) look(t *testing.T, name string) uint64 {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	id := find(t, k.f, 1, name).NodeId
	k.held[id]++
	return id
}

// TestTrim: a kernel that looks at more and more files is asked to drop those that it does not use, and the nodes stay few; what is
// open, and a directory below which something is known, is not asked for.
func TestTrim(t *testing.T) {
	const limit, files = 400, 3000
	names := map[string]string{}
	for i := range files {
		names[fmt.Sprintf("f%d", i)] = ""
	}
	f, _ := twoSpaces(t)
	k := &forgetful{f: f, held: map[uint64]uint64{}, asked: make(chan []uint64)}
	f.server = k
	sp := testSpaceWith(t, f, names, func(o *overlay.Options) {
		o.Nodes = limit
	})
	f.main = sp
	var open fuse.OpenOut
	first := k.look(t, "f0")
	if s := f.Open(nil, &fuse.OpenIn{InHeader: header(first), Flags: unix.O_RDONLY}, &open); !s.Ok() {
		t.Fatal(s)
	}
	trims := 0
	for i := 1; i < files; i++ {
		k.look(t, fmt.Sprintf("f%d", i))
		for sp.trimming.Load() {
			select {
			case ids := <-k.asked:
				trims++
				for _, id := range ids {
					if id == first || id == 1 {
						t.Fatalf("it was asked to drop %d, which is in use", id)
					}
				}
			case <-time.After(time.Millisecond):
			}
		}
		if n := sp.e.Nodes(); n > limit+1 {
			t.Fatalf("after %d files there are %d nodes", i, n)
		}
	}
	if trims < files/limit {
		t.Errorf("the kernel was asked %d times", trims)
	}
	f.Release(nil, &fuse.ReleaseIn{InHeader: header(first), Fh: open.Fh})
}
