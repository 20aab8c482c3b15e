package overlay

import (
	"errors"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
	"github.com/ttfs/ttfs/tasktree"
)

func TestClasses(t *testing.T) {
	c := newClassifier(Classes{
		System:   []string{"deploy.toml", "!fixtures/", "!/web/settings.json"},
		Platform: []string{".mybot/", "!plugins/ours/", "/tools/*.json"},
		User:     []string{"important.log"},
		Temp:     []string{"out/", "!keep.log"},
	})
	for path, want := range map[string]Class{
		"main.go": User, "src/a b.c": User, "": User,
		".env": System, ".env.local": System, "deep/down/.env": System, "secrets.yaml": System, "secrets/key": System,
		"settings.json": System, "a/config.json": System, "docker-compose.yml": System, "docker-compose.yaml": System, ".ttfs.toml": System,
		"deploy.toml": System, "fixtures/config.json": User, "a/fixtures/deep/.env": User, "web/settings.json": User, "x/web/settings.json": System,
		"environment": User, "myconfig.json": User, "config.json.bak": User,
		"agents/one.md": Platform, "a/skills/x": Platform, "plugins/p": Platform, "plugins/ours/p": User, "plugins/ours/.env": System, ".claude/settings.json": System, ".claude/x": Platform,
		".mybot/x": Platform, "agents": User, "tools/x.json": Platform, "a/tools/x.json": User, "tools/x.txt": User,
		"agents/x.log": Platform, "agents/.env": System,
		"x.log": Temp, "logs/x": Temp, "a/__pycache__/x.pyc": Temp, "out/x": Temp, "important.log": User, "keep.log": User, "cache/config.json": System,
		"node_modules/x/config.json": User, "node_modules/x/plugins/y.js": User, ".git/refs/heads/agents/x": User, "vendor/x/settings.json": User,
		"node_modules/x/y.log": Temp,
	} {
		if got := c.of(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// TestProtected: an agent moves protected paths by force only, also its own; the user moves them; TEMP never blocks.
func TestProtected(t *testing.T) {
	for _, c := range []struct {
		path  string
		class Class // "": not protected
	}{
		{".env", System}, {"a/config.json", System}, {"agents/x.md", Platform}, {"x.log", ""}, {"main.go", ""}, {"ours/config.json", ""},
	} {
		for _, what := range []string{"change", "create", "remove", "mode"} {
			t.Run(c.path+" "+what, func(t *testing.T) {
				s := newStand(t, 1)
				s.set = func(o *Options) { o.Classes.System = []string{"!ours/"} }
				s.reopen()
				s.agent = tasktree.User
				s.must(errors.Join(s.mkdir("a", 0o755), s.mkdir("agents", 0o755), s.mkdir("ours", 0o755), s.create("plain", "1", 0o644)))
				if what != "create" {
					s.must(s.create(c.path, "first", 0o644))
				}
				before := s.snapshot(true)
				s.agent = "a"
				s.begin("one")
				s.must(s.rewrite("plain", "2"))
				switch what {
				case "change":
					s.must(s.append(c.path, " more"))
				case "create":
					s.must(s.create(c.path, "new", 0o644))
				case "remove":
					s.must(s.unlink(c.path))
				case "mode":
					s.must(s.chmod(c.path, 0o600))
				}
				after := s.snapshot(true)
				protect := MoveOptions{Protect: true, By: "a"}
				_, err := s.e.Undo("a", protect)
				if c.class == "" {
					s.must(err)
					s.check("after the undo", before)
					return
				}
				if !errors.Is(err, Protected) {
					t.Fatalf("undo: %v", err)
				}
				s.check("after the refusal", after)
				report := s.e.ConflictsOf("a")
				if len(report) != 1 || report[0].Path != c.path || report[0].Class != c.class || report[0].Agent != "a" || report[0].Lost == "" {
					t.Errorf("report: %+v", report)
				}
				at := s.e.Active("a")
				force := protect
				force.Force = true
				_, err = s.e.Undo("a", force)
				s.must(err)
				s.check("after force", before)
				if len(s.e.Tasks()) != int(at) {
					t.Error("nobody else's work was displaced, and yet there is a task for it")
				}
				_, err = s.e.Redo("a", MoveOptions{}) // as the user does
				s.must(err)
				s.check("after the user's redo", after)
				skip := protect
				skip.Skip = true
				_, err = s.e.Undo("a", skip)
				s.must(err)
				if got := s.content("plain"); got != "1" {
					t.Errorf("skip left %q", got)
				}
				s.must(s.rewrite("plain", "1")) // the clock aside, nothing else is to differ
				now, want := timeless(s.snapshot(true)), timeless(after)
				if now[c.path] != want[c.path] {
					t.Errorf("skip changed %s: %s, was %s", c.path, now[c.path], want[c.path])
				}
			})
		}
	}
}

// TestProtectedRevert: the same for the revert of a task.
func TestProtectedRevert(t *testing.T) {
	s := newStand(t, 1)
	s.must(s.create(".env", "first", 0o644))
	s.begin("one")
	s.must(s.append(".env", " more"))
	at := s.e.Active("a")
	s.begin("two")
	before := s.snapshot(true)
	if _, err := s.e.Revert("a", at, MoveOptions{Protect: true, By: "a"}); !errors.Is(err, Protected) {
		t.Fatalf("revert: %v", err)
	}
	s.check("after the refusal", before)
	_, err := s.e.Revert("a", at, MoveOptions{Protect: true, By: "a", Force: true})
	s.must(err)
	if got := s.content(".env"); got != "first" {
		t.Errorf(".env is %q", got)
	}
}

// TestLiteralRules holds rules that are a name alone against the matcher of gitignore's syntax that they go without.
func TestLiteralRules(t *testing.T) {
	c := newClassifier(Classes{System: []string{"plain", "dir/", "!out", "!outdir/", "a b", "x\\y", "tail ", "#no", "q?", "[ab]", "*"}})
	names := []string{"", "plain", "plain2", "dir", "out", "outdir", "a b", "x\\y", "xy", "tail", "tail ", "#no", "qq", "a", "logs", "agents", "settings.json", ".git", "LOGS"}
	literal := 0
	for _, l := range c.lists {
		for _, r := range l.all {
			if r.literal != "" {
				literal++
			}
			for _, name := range names {
				for _, dir := range []bool{false, true} {
					parts := []string{"up", name}
					of := parts[1:]
					if r.anchored {
						of = parts
					}
					if got, want := r.matches(parts, dir), r.pattern.Match(of, dir) != gitignore.NoMatch; got != want {
						t.Errorf("rule %+v says %v of %q (directory %v), should be %v", r, got, name, dir, want)
					}
				}
			}
		}
	}
	if literal < 20 {
		t.Errorf("only %d rules are names", literal)
	}
}
