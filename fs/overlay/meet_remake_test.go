package overlay

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestRemakeBesideMoves stops an agent's revert, restore or forced undo. Another's moves in the same directory go to their end
// meanwhile, since of the directory both change the times alone; and the mode that another gave it since stays.
func TestRemakeBesideMoves(t *testing.T) {
	for name, act := range map[string]func(s *stand) error{
		"revert": func(s *stand) error { _, err := s.e.Revert("a", 2, MoveOptions{}); return err },
		"restore": func(s *stand) error {
			_, err := s.e.Restore("a", 1, []string{"d/gone", "d/a"}, MoveOptions{})
			return err
		},
		"force": func(s *stand) error { _, err := s.e.Undo("a", MoveOptions{Force: true}); return err },
	} {
		for _, point := range []string{"prepare", "restore", "settle", "end"} {
			t.Run(name+" at "+point, func(t *testing.T) {
				s := newStand(t, 1)
				s.set = func(o *Options) { o.Notify = nil }
				s.reopen()
				s.must(s.mkdir("d", 0o755))
				for _, f := range []string{"d/a", "d/gone", "d/b", "x"} {
					s.must(s.create(f, "old "+f, 0o644))
				}
				s.begin("a's")
				s.must(errors.Join(s.rewrite("d/a", "a's"), s.unlink("d/gone"), s.rewrite("x", "a's")))
				o := s.beside("o")
				_, err := o.e.BeginTask("o", "o's")
				s.must(errors.Join(err, o.rewrite("d/b", "o's"), o.create("d/b.new", "o's", 0o644)))
				third := s.beside("third")
				_, err = third.e.BeginTask("third", "of the third")
				s.must(errors.Join(err, third.chmod("d", 0o711)))
				if name == "force" {
					s.must(third.append("x", " and the third's"))
				}
				m := s.stopAt(point, func() error { return act(s) })
				m.meanwhile(t, func() error {
					do := func(_ MoveResult, err error) error { return err }
					return errors.Join(do(o.e.Undo("o", MoveOptions{})), do(o.e.Redo("o", MoveOptions{})), do(o.e.Undo("o", MoveOptions{})))
				})
				m.goOn()
				s.must(<-m.ended)
				s.point = nil
				for path, want := range map[string]string{"d/a": "old d/a", "d/gone": "old d/gone", "d/b": "old d/b"} {
					if got, err := os.ReadFile(filepath.Join(s.dir, path)); err != nil || string(got) != want {
						t.Errorf("%s has %q, want %q (%v)", path, got, want, err)
					}
				}
				if st := s.stat("d"); st.Mode&0o7777 != 0o711 {
					t.Errorf("d has mode %o", st.Mode&0o7777)
				}
				s.verify()
			})
		}
	}
}
