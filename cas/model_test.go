package cas

import (
	"bytes"
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// model is a store beside the map that it should equal.
type model struct {
	store  *Store
	o      Options
	disk   *vfs.MemFS
	blobs  map[Ref][]byte // what must be there
	synced map[Ref][]byte // of that: what a crash must not take
	stale  bool           // something has happened to all of it since it was checked
}

// drawContent draws from few pieces, so that contents share chunks.
func drawContent(t *rapid.T) []byte {
	pieces := rapid.SliceOfN(rapid.IntRange(0, 2), 0, 2).Draw(t, "pieces")
	var b []byte
	for _, p := range pieces {
		switch p {
		case 0:
			b = append(b, make([]byte, ChunkBytes)...)
		default:
			b = append(b, bytes.Repeat(random(uint64(p), 1024), ChunkBytes/1024)...)
		}
	}
	return append(b, random(9, rapid.SampledFrom([]int{0, 1, 40, 2000}).Draw(t, "tail"))...)
}

// sorted returns the refs in order: what is drawn must not depend on a map's.
func sorted(blobs map[Ref][]byte) []Ref {
	return slices.SortedFunc(maps.Keys(blobs), func(a, b Ref) int { return bytes.Compare(a[:], b[:]) })
}

func (m *model) put(t *rapid.T) {
	b := drawContent(t)
	var ref Ref
	var err error
	if rapid.Bool().Draw(t, "reader") {
		ref, _, err = m.store.PutReader(bytes.NewReader(b))
	} else {
		ref, err = m.store.Put(b)
	}
	if err != nil || ref != SumBytes(b) {
		t.Fatalf("put: %s, %v", ref, err)
	}
	m.blobs[ref] = b
}

func (m *model) sync(t *rapid.T) {
	if err := m.store.Sync(); err != nil {
		t.Fatal(err)
	}
	for ref, b := range m.blobs {
		m.synced[ref] = b
	}
}

func (m *model) collect(t *rapid.T) {
	m.stale = true
	die := map[Ref]bool{}
	for _, ref := range sorted(m.blobs) {
		if rapid.Bool().Draw(t, "dies") {
			die[ref] = true
			delete(m.blobs, ref)
			delete(m.synced, ref)
		}
	}
	_, _, err := m.store.Collect(context.Background(), func(ref Ref) bool { _, ok := m.blobs[ref]; return ok })
	if err != nil {
		t.Fatal(err)
	}
	chunks := map[Ref]bool{}
	for _, b := range m.blobs {
		for ; len(b) > 0; b = b[min(len(b), ChunkBytes):] {
			chunks[SumBytes(b[:min(len(b), ChunkBytes)])] = true
		}
	}
	for ref := range die {
		if ok, err := m.store.Has(ref); err != nil || ok != chunks[ref] {
			t.Fatalf("dead %s: there %v, needed %v, %v", ref, ok, chunks[ref], err)
		}
	}
}

func (m *model) reopen(t *rapid.T) {
	if err := m.store.Close(); err != nil {
		t.Fatal(err)
	}
	m.open(t)
}

// crash loses some of what was not synced, down to single blocks.
func (m *model) crash(t *rapid.T) {
	cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "percent")}
	cfg.RNG = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	after := m.disk.CrashClone(cfg)
	if err := m.store.Close(); err != nil {
		t.Fatal(err)
	}
	m.disk, m.o.fs = after, after
	m.open(t)
	for ref := range m.blobs {
		if _, ok := m.synced[ref]; ok {
			continue
		}
		if ok, err := m.store.Has(ref); err != nil || !ok {
			if err != nil {
				t.Fatal(err)
			}
			delete(m.blobs, ref)
		}
	}
}

func (m *model) open(t *rapid.T) {
	s, err := Open("s", m.o)
	if err != nil {
		t.Fatal(err)
	}
	m.store, m.stale = s, true
}

func (m *model) check(t *rapid.T) {
	if !m.stale {
		return
	}
	m.stale = false
	for ref, b := range m.blobs {
		got, err := m.store.Get(ref)
		if err != nil || !bytes.Equal(got, b) {
			t.Fatalf("Get(%s): %d bytes, want %d, %v", ref, len(got), len(b), err)
		}
		blob, err := m.store.Open(ref)
		if err != nil {
			t.Fatal(err)
		}
		p, at := make([]byte, 100), int64(len(b)/2)
		n, err := blob.ReadAt(p, at)
		if (err != nil && err != io.EOF) || !bytes.Equal(p[:n], b[at:min(int(at)+100, len(b))]) {
			t.Fatalf("ReadAt(%s, %d): %d bytes, %v", ref, at, n, err)
		}
		if err := blob.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *model) verify(t *rapid.T) {
	counts, err := m.store.Verify(context.Background(), func(p Problem) { t.Fatalf("problem: %v", p.Err) })
	if err != nil || counts.Chunks+counts.Lists < len(m.blobs) {
		t.Fatalf("%+v, %v; %d blobs", counts, err, len(m.blobs))
	}
}

// A store equals a map from hash to bytes, through collect, reopen and crash.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, disk := memory()
		m := &model{o: o, disk: disk, blobs: map[Ref][]byte{}, synced: map[Ref][]byte{}}
		m.open(t)
		defer func() { _ = m.store.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"put":     m.put,
			"put too": m.put,
			"sync":    m.sync,
			"collect": m.collect,
			"reopen":  m.reopen,
			"crash":   m.crash,
			"verify":  m.verify,
			"":        m.check,
		})
	})
}
