package overlay

import (
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// Class says how much a move of an agent's may do to a path.
type Class string

// The classes, in the order in which they are looked for: the first that takes a path in is its class.
const (
	// System is what the machine or the project is set up with. Platform is what makes agents what they are. Agents move
	// both by force only.
	System   Class = "SYSTEM"
	Platform Class = "PLATFORM"
	// User is everything that is of no other class.
	User Class = "USER"
	// Temp never stands in the way of a move, and is not guarded.
	Temp Class = "TEMP"
)

// Classes are patterns of paths by class, in gitignore's syntax, after the built-in ones: of one class the last that matches
// decides, and a leading ! takes a path out.
type Classes struct {
	System, Platform, User, Temp []string
}

// notOurs is what tools put into a workspace and take out of it again: names below it mean nothing for this project.
var notOurs = []string{"!.git/", "!node_modules/", "!vendor/", "!site-packages/", "!.venv/", "!venv/"}

var systemPatterns = []string{".env*", "secrets*", "settings.json", "config.json", "docker-compose.y*ml", ".ttfs.toml"}

var platformPatterns = []string{
	"agents/", "skills/", "plugins/", ".claude/", ".codex/", ".gemini/", ".opencode/", ".cursor/",
}

// tempPatterns are logs, caches and scratch files.
var tempPatterns = []string{
	"logs/", "*.log", "cache/", ".cache/", "__pycache__/", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", "*.pyc",
	"tmp/", "*.tmp", "*.swp", "*~",
}

// classifier knows the class of every path.
type classifier struct {
	lists [4]rules
}

// rules are the patterns of one class.
type rules struct {
	class Class
	all   []rule
}

type rule struct {
	pattern gitignore.Pattern
	// anchored: it has a slash, so that it is of the path and not of a name.
	anchored bool
	// out: it takes a path out.
	out bool
	// literal is the one name that the pattern matches, "" for others; dirs: of directories alone.
	literal string
	dirs    bool
}

func (r *rule) matches(parts []string, dir bool) bool {
	name := parts[len(parts)-1]
	switch {
	case r.literal != "":
		return name == r.literal && (dir || !r.dirs)
	case r.anchored:
		return r.pattern.Match(parts, dir) != gitignore.NoMatch
	}
	return r.pattern.Match(parts[len(parts)-1:], dir) != gitignore.NoMatch
}

func newClassifier(c Classes) *classifier {
	return &classifier{[4]rules{
		{System, compile(systemPatterns, notOurs, c.System)},
		{Platform, compile(platformPatterns, notOurs, c.Platform)},
		{User, compile(c.User)},
		{Temp, compile(tempPatterns, c.Temp)},
	}}
}

func compile(lists ...[]string) (out []rule) {
	for _, list := range lists {
		for _, line := range list {
			bare := strings.TrimPrefix(line, "!")
			name := strings.TrimSuffix(bare, "/")
			r := rule{pattern: gitignore.ParsePattern(line, nil), anchored: strings.Contains(name, "/"), out: bare != line}
			if !strings.ContainsAny(name, "/*?[]\\! \t#") {
				r.literal, r.dirs = name, name != bare
			}
			out = append(out, r)
		}
	}
	return out
}

// verdict is what is known of a path and of all below it: by list, the last rule that has matched it or a directory above
// it, counted from 1. Unlike in git, what is below a directory that is taken in can be taken out again.
type verdict struct{ last [4]int }

// class is the class of a path of which this is the verdict.
func (v verdict) class(c *classifier) Class {
	for i, last := range v.last {
		if last > 0 && !c.lists[i].all[last-1].out {
			return c.lists[i].class
		}
	}
	return User
}

// below is the verdict on a path, from that on the directory that it is in.
func (c *classifier) below(up verdict, parts []string, dir bool) verdict {
	v := up
	for i := range c.lists {
		all := c.lists[i].all
		for n := len(all); n > up.last[i]; n-- {
			if all[n-1].matches(parts, dir) {
				v.last[i] = n
				break
			}
		}
	}
	return v
}

// of is the class of a file.
func (c *classifier) of(path string) Class {
	parts := strings.Split(path, "/")
	var v verdict
	for i := 1; i <= len(parts); i++ {
		v = c.below(v, parts[:i], i < len(parts))
	}
	return v.class(c)
}
