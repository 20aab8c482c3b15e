package journal

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// model drives a journal and a map side by side, with checkpoints, reopens and crashes at any byte.
type model struct {
	t    *testing.T
	o    Options
	dir  string
	j    *Journal
	want map[string]string
	// history holds the states after each record since the last checkpoint, with the tail segment's name and end.
	history []state
}

type state struct {
	seg  string
	end  int64
	want map[string]string
}

func (m *model) note() {
	m.history = append(m.history, state{m.j.tail.path, m.j.tail.end.Load(), maps.Clone(m.want)})
}

func (m *model) open(t *rapid.T) {
	j, err := Open(m.dir, m.o)
	if err != nil {
		t.Fatal(err)
	}
	if p := j.Problems(); len(p) > 0 {
		t.Fatal(p)
	}
	m.j, m.history = j, nil
	m.note()
}

var (
	modelKeys   = rapid.StringOfN(rapid.SampledFrom([]rune("ab\x00\u00ff")), 0, 4, -1)
	modelValues = rapid.Custom(func(t *rapid.T) string {
		n := rapid.SampledFrom([]int{0, 1, 20, 512, 513, 900, 3000}).Draw(t, "size")
		return strings.Repeat(rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "fill"), n)
	})
)

func (m *model) commit(t *rapid.T) {
	var b Batch
	for range rapid.IntRange(0, 5).Draw(t, "ops") {
		key := modelKeys.Draw(t, "key")
		switch rapid.SampledFrom([]string{"put", "put", "put", "delete", "prefix"}).Draw(t, "op") {
		case "put":
			value := modelValues.Draw(t, "value")
			b.Put([]byte(key), []byte(value))
			m.want[key] = value
		case "delete":
			b.Delete([]byte(key))
			delete(m.want, key)
		case "prefix":
			b.DeletePrefix([]byte(key))
			maps.DeleteFunc(m.want, func(k, _ string) bool { return strings.HasPrefix(k, key) })
		}
	}
	if err := m.j.Commit(&b); err != nil {
		t.Fatal(err)
	}
	m.note()
}

func (m *model) checkpoint(t *rapid.T) {
	if err := m.j.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	m.history = nil
	m.note()
}

func (m *model) compact(t *rapid.T) {
	if err := m.j.Compact(); err != nil {
		t.Fatal(err)
	}
	m.history = nil
	m.note()
	if dead := m.j.mostlyDead(); len(dead) > 0 {
		t.Fatalf("segments that are mostly dead are left: %v", dead)
	}
}

func (m *model) reopen(t *rapid.T) {
	if err := m.j.Close(); err != nil {
		t.Fatal(err)
	}
	m.open(t)
}

// crash abandons the journal and cuts the tail segment anywhere behind what is known to be durable.
func (m *model) crash(t *rapid.T) {
	last := m.history[len(m.history)-1]
	low, floor := int64(headerBytes), 0
	for i, s := range m.history {
		if s.seg == last.seg {
			low, floor = s.end, i
			break
		}
	}
	if floor > 0 && m.history[floor].seg == last.seg {
		// The segment was begun by the record floor itself; what precedes it is the state in the segment before.
		low, floor = headerBytes, floor-1
	}
	abandon(m.t, m.j)
	if done := m.j.done; segPath(m.dir, done.seg) == last.seg {
		low = max(low, done.offset) // written by a checkpoint in the background
	}
	cut := low + rapid.Int64Range(0, last.end-low).Draw(t, "cut")
	if err := os.Truncate(last.seg, cut); err != nil {
		t.Fatal(err)
	}
	m.want = m.history[floor].want
	for _, s := range m.history[floor:] {
		if s.seg == last.seg && s.end <= cut {
			m.want = s.want
		}
	}
	m.want = maps.Clone(m.want)
	m.open(t)
}

func (m *model) check(t *rapid.T) {
	got := map[string]string{}
	err := m.j.Scan(nil, func(k, v []byte) error { got[string(k)] = string(v); return nil })
	if err != nil || !maps.Equal(got, m.want) {
		t.Fatalf("%v\ngot %s\nwant %s", err, brief(got), brief(m.want))
	}
	prefix := modelKeys.Draw(t, "scan")
	view, err := m.j.View([]byte(prefix)[:rapid.IntRange(0, len(prefix)).Draw(t, "of the view")])
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	all := got
	// The second time the view's iterator is somewhere else, and the third time it goes back.
	for i, prefix := range []string{prefix, prefix + "a", prefix} {
		got := maps.Clone(all)
		maps.DeleteFunc(got, func(k, _ string) bool { return !strings.HasPrefix(k, prefix) })
		scan := view.Scan
		if i == 0 {
			scan = m.j.Scan
		}
		err = scan([]byte(prefix), func(k, v []byte) error {
			if want, has := got[string(k)]; !has || want != string(v) {
				return fmt.Errorf("key %q", k)
			}
			delete(got, string(k))
			return nil
		})
		if err != nil || len(got) > 0 {
			t.Fatal(prefix, err, brief(got))
		}
	}
	key := modelKeys.Draw(t, "get")
	want, there := m.want[key]
	v, ok, err := m.j.Get([]byte(key))
	if err != nil || ok != there || string(v) != want {
		t.Fatalf("get %q: %v %v, %d bytes", key, ok, err, len(v))
	}
}

func (m *model) verify(t *rapid.T) {
	n, err := m.j.Verify(m.t.Context(), func(p Problem) { t.Error(p) })
	if err != nil || n.Problems > 0 || n.Keys != int64(len(m.want)) {
		t.Fatalf("%+v, want %d keys, %v", n, len(m.want), err)
	}
}

// TestModel: whatever happens, the journal holds what the map holds. Another seed: -rapid.seed=N -rapid.checks=M.
func TestModel(t *testing.T) {
	for name, value := range map[string]string{"rapid.seed": "20240601", "rapid.checks": "40", "rapid.nofailfile": "true"} {
		if f := flag.Lookup(name); f.Value.String() == f.DefValue {
			if err := f.Value.Set(value); err != nil {
				t.Fatal(err)
			}
		}
	}
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		m := &model{t: t, dir: filepath.Join(t.TempDir(), fmt.Sprint(runs)), want: map[string]string{}}
		m.o = Options{FloorBytes: -1, SegmentBytes: 4000, indexFS: vfs.NewMem()}
		if rapid.Bool().Draw(rt, "small memtable") {
			m.o.MemBytes = 2000
		}
		m.open(rt)
		defer func() { _ = m.j.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"commit": m.commit, "commit2": m.commit, "commit3": m.commit, "commit4": m.commit,
			"checkpoint": m.checkpoint, "compact": m.compact, "reopen": m.reopen, "crash": m.crash, "verify": m.verify, "": m.check,
		})
	})
}
