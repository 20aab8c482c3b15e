package overlay

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMergeNeverBlocked: what every build and every `git status` writes anew bars no merge; the index of a fork that used git
// comes with what it did.
func TestMergeNeverBlocked(t *testing.T) {
	for _, c := range []struct {
		name, index string
		inFork      func(f *stand) error
	}{
		{"looked", "mine", func(f *stand) error { return f.create("made", "by the fork", 0o600) }},
		{"committed", "theirs", func(f *stand) error { return f.create(".git/HEAD", "theirs", 0o600) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := forkTree(t)
			s.must(s.mkdir(".git", 0o755))
			s.must(s.create(".git/index", "base", 0o600))
			s.must(s.create("x.log", "base", 0o600))
			f := s.fork("one")
			s.begin("mine")
			for by, of := range map[string]*stand{"mine": s, "theirs": f} {
				of.must(of.create(".git/index.lock", by, 0o600))
				of.must(of.rename(".git/index.lock", ".git/index", 0))
				of.must(of.rewrite("x.log", by))
			}
			f.must(c.inFork(f))
			s.merged(MergeOptions{})
			for path, want := range map[string]string{".git/index": c.index, "x.log": "mine"} {
				if got, err := os.ReadFile(filepath.Join(s.dir, path)); err != nil || string(got) != want {
					t.Errorf("%s is %q, want %q (%v)", path, got, want, err)
				}
			}
			s.verify()
		})
	}
}
