package overlay

import (
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
)

// What a damaged store holds is anything. A decoder gives an error or a value; a value that it gives has one encoding, which
// gives the value again. So nothing is understood that nobody wrote.

// again holds a decoder against its encoder.
func again[V any](t *testing.T, b []byte, decode func([]byte) (V, error), encode func(*V) []byte) {
	t.Helper()
	v, err := decode(b)
	if err != nil {
		return
	}
	c := encode(&v)
	w, err := decode(c)
	if err != nil || !reflect.DeepEqual(v, w) {
		t.Fatalf("%x is %+v, encoded %x, which is %+v, %v", b, v, c, w, err)
	}
}

func FuzzObject(f *testing.F) {
	o := object{id: 7, kind: 0o100000, key: inoKey{5, 6}, at: spot{1, "name"}, was: spot{3, ""}}
	f.Add(o.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		again(t, b, func(b []byte) (object, error) { return decodeObject(7, b) }, (*object).encode)
	})
}

func FuzzPiece(f *testing.F) {
	for _, p := range []piece{
		{size: 3, data: []byte("abc")}, keepData(0, make([]byte, 5000)), {size: 1 << 40, kind: pieceHole}, {size: 9, kind: pieceCopy, copy: 4},
		{size: 9, kind: pieceBlob, holes: []span{{1, 2}, {5, 9}}},
	} {
		f.Add(p.encode(), int64(4096))
	}
	f.Fuzz(func(t *testing.T, b []byte, off int64) {
		p, err := decodePiece(off, b)
		if err == nil && (p.size < 0 || p.off < 0 || p.off > p.off+p.size || p.kind == pieceInline && int64(len(p.data)) != p.size) {
			t.Fatalf("%x is %+v", b, p)
		}
		for _, h := range p.holes {
			if err == nil && (h.from < 0 || h.to < h.from || h.to > p.size) {
				t.Fatalf("%x has the hole %+v in %d bytes", b, h, p.size)
			}
		}
		again(t, b, func(b []byte) (piece, error) { return decodePiece(off, b) }, (*piece).encode)
	})
}

func FuzzMeta(f *testing.F) {
	m := meta{mode: 0o100644, uid: 1, gid: 2, atime: -3, mtime: 4, rdev: 5, xattrs: map[string][]byte{"user.a": []byte("v"), "user.b": nil}}
	f.Add(m.encode())
	f.Add((&meta{}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		w, err := decodeMeta(m.encode())
		if err != nil || !m.equal(&w) || m.atime != w.atime {
			t.Fatalf("%x is %+v, then %+v, %v", b, m, w, err)
		}
	})
}

func FuzzTask(f *testing.F) {
	f.Add(encodeTask(&tasktree.Task{ID: 9, Parent: 3, Agent: "a", Under: 2, Title: "title", Auto: true, Started: unstamp(5), Ended: unstamp(6), Files: 4, Over: 1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		again(t, b, func(b []byte) (tasktree.Task, error) { return decodeTask(9, b) }, encodeTask)
	})
}

func FuzzShare(f *testing.F) {
	f.Add(share{1, 2, 1, 2}.encode(), thing{obj: 7}.key(3))
	f.Add(share{1 << 60, 0, 3, 4}.encode(), thing{at: spot{5, "a/b"}}.key(1<<63))
	f.Fuzz(func(t *testing.T, b, k []byte) {
		again(t, b, decodeShare, func(s *share) []byte { return s.encode() })
		// Of an object 0 nobody has a share, so that its key is taken for that of the entry of no name.
		if th, id, ok := parseShareKey(k); ok && len(k) > 0 && k[0] == kShare && (k[1] == 'e' || th.obj != 0) && string(th.key(id)) != string(k) {
			t.Fatalf("%x is %+v of task %d, whose key is %x", k, th, id, th.key(id))
		}
	})
}

func FuzzMover(f *testing.F) {
	m := &mover{plan: tasktree.Plan{Agent: "a", From: 3, To: 1}, done: 1}
	for _, s := range []tasktree.Step{{Task: 3}, {Task: 2, Redo: true}} {
		m.plan.Steps = append(m.plan.Steps, s)
		m.parts = append(m.parts, part{Step: s, only: []thing{{obj: 4}, {at: spot{1, "x"}}}})
	}
	f.Add(m.encode(true))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, prepared, err := decodeMover(nil, b)
		if err != nil {
			return
		}
		if m.done < 0 || m.done > len(m.parts) {
			t.Fatalf("%d of %d parts are made", m.done, len(m.parts))
		}
		w, p, err := decodeMover(nil, m.encode(prepared))
		if err != nil || p != prepared || w.done != m.done || !reflect.DeepEqual(m.parts, w.parts) || !reflect.DeepEqual(m.plan, w.plan) || len(m.skip) != len(w.skip) {
			t.Fatalf("%x is %+v, then %+v, %v", b, m, w, err)
		}
	})
}

func FuzzFork(f *testing.F) {
	at := tasktree.TaskID(4)
	info := ForkInfo{num: 1, epoch: 2}
	info.Agent, info.Parent, info.Under, info.At, info.Created = "a", "b", 2, &at, unstamp(7)
	f.Add(info.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		again(t, b, func(b []byte) (ForkInfo, error) { return decodeFork("f", b) }, (*ForkInfo).encode)
	})
}

// FuzzImages: a record of an image under any key.
func FuzzImages(f *testing.F) {
	m := meta{mode: 1}
	for _, kv := range [][2][]byte{
		{entryKey(1, spot{2, "n"}), encodeNumber(4)}, {metaKey(1, 2), m.encode()}, {contentKey(1, 2), encodeNumber(9)},
		{pieceKey(1, 2, 3), (&piece{size: 1, data: []byte("x")}).encode()}, {{kEntry}, nil}, {[]byte{kPiece, 0}, {1}},
	} {
		f.Add(kv[0], kv[1])
	}
	f.Fuzz(func(t *testing.T, k, v []byte) {
		if len(k) == 0 {
			return // the journal has no such key
		}
		im := newImages()
		if err := im.add(k, v); err == nil {
			for id, c := range im.contents {
				if c.size < 0 {
					t.Fatalf("object %d has %d bytes", id, c.size)
				}
			}
		}
		im.things()
	})
}

// FuzzDirents: what getdents gives is the kernel's; but whole records of any content are read to their end.
func FuzzDirents(f *testing.F) {
	f.Add([]byte("name"), byte(4))
	f.Fuzz(func(t *testing.T, name []byte, kind byte) {
		if len(name) > 255 {
			return
		}
		b := make([]byte, (19+len(name)+1+7)/8*8)
		binary.NativeEndian.PutUint16(b[16:], uint16(len(b)))
		b[18] = kind
		copy(b[19:], name)
		if ent, size := parseDirent(b); size != len(b) || len(ent.Name) > len(name) {
			t.Fatalf("%q, %d", ent.Name, size)
		}
	})
}

// FuzzPath: a path of a command never leads out of the workspace or into the store.
func FuzzPath(f *testing.F) {
	for _, p := range []string{"", "a/b", "..", "a/../b", ".tt/log", "/", "a//b", "\x00"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		parts, err := splitPath("x", p)
		if err != nil {
			if !errors.Is(err, Invalid) {
				t.Fatal(err)
			}
			return
		}
		for i, part := range parts {
			if part == "" || part == "." || part == ".." || i == 0 && part == StoreName {
				t.Fatalf("%q is %q", p, parts)
			}
		}
	})
}
