package overlay

import (
	"bytes"

	"github.com/aymanbagabas/go-udiff"
)

// meta3 merges attributes, each by itself.
func meta3(base, mine, theirs *meta) (out meta, clean bool) {
	out, clean = *mine, true
	pick := func(b, a, t uint32) uint32 {
		switch {
		case t == b || t == a:
			return a
		case a == b:
			return t
		}
		clean = false
		return a
	}
	out.mode = pick(base.mode, mine.mode, theirs.mode)
	out.uid, out.gid = pick(base.uid, mine.uid, theirs.uid), pick(base.gid, mine.gid, theirs.gid)
	out.xattrs = map[string][]byte{}
	for _, of := range []map[string][]byte{mine.xattrs, theirs.xattrs} {
		for name := range of {
			b, inBase := base.xattrs[name]
			a, inMine := mine.xattrs[name]
			t, inTheirs := theirs.xattrs[name]
			take, has := a, inMine
			switch {
			case inTheirs == inBase && bytes.Equal(t, b), inTheirs == inMine && bytes.Equal(t, a):
			case inMine == inBase && bytes.Equal(a, b):
				take, has = t, inTheirs
			default:
				clean = false
			}
			if has {
				out.xattrs[name] = take
			}
		}
	}
	return out, clean
}

// merge3 merges text by line. It is clean when no change of the one touches a change of the other, but for those that both
// made; go-udiff, which makes the diffs too, is golang.org/x/tools' own, kept and fuzzed.
func merge3(base, mine, theirs []byte) ([]byte, bool) {
	for _, b := range [][]byte{base, mine, theirs} {
		if bytes.IndexByte(b, 0) >= 0 {
			return nil, false
		}
	}
	x, y := udiff.Lines(string(base), string(mine)), udiff.Lines(string(base), string(theirs))
	for _, a := range x {
		for _, b := range y {
			if a != b && a.Start <= b.End && b.Start <= a.End {
				return nil, false
			}
		}
	}
	all, ok := udiff.Merge(x, y)
	if !ok {
		return nil, false
	}
	out, err := udiff.ApplyBytes(base, all)
	return out, err == nil
}
