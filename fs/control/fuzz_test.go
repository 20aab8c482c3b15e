package control

import (
	"errors"
	"strings"
	"testing"
)

// FuzzPaths: whatever is asked for below `.tt`, it is there or it is not; what is listed is found; every error has an errno.
func FuzzPaths(f *testing.F) {
	for _, p := range []string{"", "README", "tasks/1/files", "tasks/01", "tasks/18446744073709551616", "at/0", "agents/kid/list.json", "agents/../x",
		"blame/d/.tt", "blame.json/quiet/x", "forks/a/tree", "fsck", "x\x00y", strings.Repeat("a/", 100)} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		b := lined{newFake(), map[string][]Version{"d/f": {{Task: 1}}, "quiet": nil}, map[string]bool{"": true, "d": true}}
		n := Tree(b)
		for name := range strings.SplitSeq(p, "/") {
			below, err := n.Lookup(name)
			if err != nil {
				if !errors.Is(err, NoFile) || strings.ContainsAny(err.Error(), "\n\x00") {
					t.Fatalf("%q: %v", p, err)
				}
				return
			}
			n = below
		}
		if n.Mode()&^0o777 != 0 {
			t.Fatalf("%q has mode %o", p, n.Mode())
		}
		switch n.Kind() {
		case Dir:
			all, err := n.List()
			if err != nil {
				t.Fatalf("%q: %v", p, err)
			}
			for _, sub := range all {
				name := sub.Path()[strings.LastIndexByte(sub.Path(), '/')+1:]
				if again, err := n.Lookup(name); err != nil || again.Path() != sub.Path() {
					t.Fatalf("%q lists %q, which is not found: %v", p, name, err)
				}
			}
		case File:
			if _, err := n.Content(Caller{Agent: "user"}); err != nil && Errno(err) == 0 {
				t.Fatalf("%q: %v", p, err)
			}
		}
	})
}
