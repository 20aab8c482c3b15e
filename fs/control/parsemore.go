package control

import (
	"strconv"
	"strings"

	"github.com/ttfs/ttfs/tasktree"
)

// named reads a NAME and gives the words after it.
func named(rest string) (tasktree.Agent, []string, string) {
	args := words(rest)
	if len(args) == 0 {
		return "", nil, "a name is missing"
	}
	if !validName(args[0]) {
		return "", nil, badName(args[0])
	}
	return tasktree.Agent(args[0]), args[1:], ""
}

// options reads key=value words, each key once; take says what is wrong with a value, "" for nothing, and whether the
// key is known.
func options(args []string, take func(key, value string) (detail string, known bool)) string {
	var before []string
	for _, w := range args {
		key, value, _ := strings.Cut(w, "=")
		for _, k := range before {
			if k == key {
				return clip(key) + " is there twice"
			}
		}
		before = append(before, key)
		detail, known := take(key, value)
		if !known {
			return clip(w) + " is not understood here"
		}
		if detail != "" {
			return detail
		}
	}
	return ""
}

func parseAgent(rest string) (Command, string) {
	name, args, detail := named(rest)
	if detail != "" {
		return Command{}, detail
	}
	if name == tasktree.User {
		return Command{}, "user is the human and cannot be registered"
	}
	c := Command{Name: name}
	detail = options(args, func(key, value string) (string, bool) {
		switch key {
		case "parent":
			if !validName(value) {
				return badName(value), true
			}
			c.Parent = tasktree.Agent(value)
		case "isolation":
			if value != "none" && value != "fork" && value != "ro" {
				return "the isolation is none, fork or ro", true
			}
			c.Isolation = value
		case "pid":
			pid, err := strconv.ParseInt(value, 10, 32)
			if err != nil || pid < 1 || strconv.FormatInt(pid, 10) != value {
				return clip(value) + " is not the number of a process", true
			}
			c.PID = int(pid)
		default:
			return "", false
		}
		return "", true
	})
	return c, detail
}

func parseEnd(rest string) (Command, string) {
	if strings.TrimSpace(rest) == "" {
		return Command{}, ""
	}
	name, args, detail := named(rest)
	if detail == "" && len(args) > 0 {
		detail = clip(args[0]) + " is not understood here"
	}
	return Command{Name: name}, detail
}

func parseFork(rest string) (Command, string) {
	name, args, detail := named(rest)
	if detail != "" {
		return Command{}, detail
	}
	c := Command{Name: name}
	detail = options(args, func(key, value string) (string, bool) {
		if key != "at" {
			return "", false
		}
		id, ok := parseID(value)
		if !ok {
			return badID(value), true
		}
		c.At = &id
		return "", true
	})
	return c, detail
}

func parseMerge(rest string) (Command, string) {
	name, args, detail := named(rest)
	if detail != "" {
		return Command{}, detail
	}
	c := Command{Name: name}
	for _, w := range args {
		switch {
		case w == "strict" && !c.Strict:
			c.Strict = true
		case (w == "force=mine" || w == "force=theirs") && c.Prefer == "":
			c.Prefer = strings.TrimPrefix(w, "force=")
		case w == "dry-run" && !c.DryRun:
			c.DryRun = true
		default:
			return Command{}, clip(w) + " is not understood here"
		}
	}
	return c, ""
}

func parseDiscard(rest string) (Command, string) {
	name, args, detail := named(rest)
	if detail != "" {
		return Command{}, detail
	}
	c := Command{Name: name}
	for _, w := range args {
		if w != "force" || c.Force {
			return Command{}, clip(w) + " is not understood here"
		}
		c.Force = true
	}
	return c, ""
}

func parseGuard(rest string) (Command, string) {
	switch args := words(rest); {
	case len(args) == 1 && args[0] == "on":
		return Command{On: true}, ""
	case len(args) == 1 && args[0] == "off":
		return Command{}, ""
	}
	return Command{}, "the guard is turned on or off"
}
