package overlay

import (
	"fmt"
	"strings"
	"testing"
)

// TestMergeAttributes: of what both sides changed, each attribute is merged by itself, and the bytes by themselves, also where one side
// has put a new file in the place of the old one, as editors do. What both changed alike is no conflict; what they changed
// otherwise is one, and then nothing has changed.
func TestMergeAttributes(t *testing.T) {
	type does = func(s *stand) error
	mode := func(mode uint32) does { return func(s *stand) error { return s.chmod("a", mode) } }
	owner := func(uid, gid uint32) does { return func(s *stand) error { return s.chown("a", uid, gid) } }
	attr := func(name, value string) does { return func(s *stand) error { return s.setXattr("a", name, value) } }
	gone := func(s *stand) error { return s.removeXattr("a", "user.k") }
	text := func(content string) does { return func(s *stand) error { return s.rewrite("a", content) } }
	saved := func(content string) does { // with the attributes of the file before, as editors do it
		return func(s *stand) error {
			st := s.stat("a")
			s.must(s.create("a.new", content, uint32(st.Mode)&0o7777))
			s.must(s.chown("a.new", st.Uid, st.Gid))
			s.must(s.setXattr("a.new", "user.k", "v"))
			return s.rename("a.new", "a", 0)
		}
	}
	all := func(do ...does) does {
		return func(s *stand) error {
			for _, f := range do {
				s.must(f(s))
			}
			return nil
		}
	}
	const base, one, two, both = "1\n2\n3\n4\n5\n", "ONE\n2\n3\n4\n5\n", "1\n2\n3\n4\nFIVE\n", "ONE\n2\n3\n4\nFIVE\n"
	is := func(mode, uid, gid uint32, attrs, content string) string {
		return fmt.Sprintf("mode=%o uid=%d gid=%d%s %s", mode, uid, gid, attrs, content)
	}
	const k = ` user.k="v"`
	for _, c := range []struct {
		name         string
		mine, theirs does
		want         string // "": a conflict
	}{
		{"one mode", mode(0o755), mode(0o755), is(0o755, 0, 0, k, base)},
		{"two modes", mode(0o755), mode(0o600), ""},
		{"bytes and mode", text(one), mode(0o755), is(0o755, 0, 0, k, one)},
		{"mode and bytes", mode(0o755), text(two), is(0o755, 0, 0, k, two)},
		{"both bytes, both mode and owner", all(text(one), mode(0o755)), all(text(two), owner(7, 8)), is(0o755, 7, 8, k, both)},
		{"mode and owner", mode(0o755), owner(7, 8), is(0o755, 7, 8, k, base)},
		{"user and group", owner(7, 0), owner(0, 8), is(0o644, 7, 8, k, base)},
		{"two owners", owner(7, 0), owner(8, 0), ""},
		{"one attribute each", attr("user.m", "m"), attr("user.t", "t"), is(0o644, 0, 0, k+` user.m="m" user.t="t"`, base)},
		{"the same attribute alike", attr("user.k", "w"), attr("user.k", "w"), is(0o644, 0, 0, ` user.k="w"`, base)},
		{"an attribute otherwise", attr("user.k", "w"), attr("user.k", "x"), ""},
		{"removed and mode", gone, mode(0o600), is(0o600, 0, 0, "", base)},
		{"removed twice", gone, gone, is(0o644, 0, 0, "", base)},
		{"removed and changed", gone, attr("user.k", "w"), ""},
		{"mode here, a new file there", mode(0o755), saved(two), is(0o755, 0, 0, k, two)},
		{"a new file here, mode there", saved(one), mode(0o755), is(0o755, 0, 0, k, one)},
		{"owner and bytes here, a new file there", all(text(one), owner(7, 8)), saved(two), is(0o644, 7, 8, k, both)},
		{"new files, and modes alike", all(saved(one), mode(0o755)), all(saved(two), mode(0o755)), is(0o755, 0, 0, k, both)},
		{"two modes, a new file there", mode(0o755), all(saved(two), mode(0o600)), ""},
		{"two modes, new files", all(saved(one), mode(0o755)), all(saved(two), mode(0o600)), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, 1)
			s.begin("base")
			s.must(s.create("a", base, 0o644))
			s.must(s.setXattr("a", "user.k", "v"))
			f := s.fork("one")
			s.begin("mine")
			s.must(c.mine(s))
			s.must(c.theirs(f))
			before := s.tree()
			state := func() string {
				st := s.stat("a")
				id, err := s.walk("a")
				s.must(err)
				_, attrs, _ := strings.Cut(s.describe(id, &st), " user.")
				if attrs != "" {
					attrs = " user." + attrs
				}
				return is(uint32(st.Mode)&0o7777, st.Uid, st.Gid, attrs, s.content("a"))
			}
			res, err := s.e.Merge("one", MergeOptions{})
			s.names = map[dentry]NodeID{}
			if c.want == "" {
				s.must(err, Conflict)
				s.same(s.tree(), before, "refused")
				return
			}
			s.must(err)
			if got := state(); got != c.want {
				t.Errorf("it became\n%s, not\n%s", got, c.want)
			}
			if res.To != res.From {
				s.undo()
				s.names = map[dentry]NodeID{}
				s.same(s.tree(), before, "undone")
				s.redo()
				s.names = map[dentry]NodeID{}
			}
			if again := s.merged(MergeOptions{}); again.To != again.From {
				t.Errorf("another merge changes %v", again.Paths)
			}
			if got := state(); got != c.want {
				t.Errorf("merged again it became\n%s, not\n%s", got, c.want)
			}
			s.verify()
		})
	}
}
