package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/ttfs/ttfs/fs"
)

// isolation is the mode in which run's agent works: the one that was asked for, else the one that it was given before.
// Errors: exitUsage for no mode, exitFailed for one that this machine does not allow: none takes its place.
func (m *mounted) isolation(o runOptions) (string, error) {
	mode := o.isolation
	if mode == "" && o.agent != "" {
		switch given, err := m.word("agents/" + o.agent + "/isolation"); {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return "", err
		case given == "fork":
			mode = given
		}
	}
	if mode != "fork" {
		return mode, nil
	}
	if err := fs.ProbeForks(); err != nil {
		return "", &failure{code: exitFailed, text: "run: --isolation fork cannot be had here", err: err, next: "`ttfs fork NAME` makes a fork that is reached at .tt/forks/NAME/tree"}
	}
	return mode, nil
}

// isolationHelp offers the modes that can be had here, in the help of run and to completion.
func isolationHelp(c *cobra.Command) error {
	help := c.HelpFunc()
	c.SetHelpFunc(func(c *cobra.Command, args []string) {
		f := c.Flags().Lookup("isolation")
		modes := isolations(fs.ProbeForks() == nil)
		f.Usage = strings.Replace(f.Usage, "none|fork|ro", strings.Join(modes, "|"), 1)
		if len(modes) == 2 {
			f.Usage += "; a fork cannot be had on this machine, see `ttfs doctor`"
		}
		help(c, args)
	})
	return c.RegisterFlagCompletionFunc("isolation", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return isolations(fs.ProbeForks() == nil), cobra.ShellCompDirectiveNoFileComp
	})
}

// inFork is the workspace as a fork of it, at the fork's own path.
func (m *mounted) inFork(name string) *mounted {
	return &mounted{dir: m.path(filepath.Join("forks", name, "tree"))}
}

// enterFork makes this process see a fork at the workspace's path, and goes to the directory in which it was.
func (m *mounted) enterFork(name, here string) error {
	if err := fs.CoverWorkspace(m.dir, m.inFork(name).dir); err != nil {
		return &failure{code: 126, text: "run: the fork " + name + " cannot be entered", err: err}
	}
	if err := os.Chdir(here); err != nil {
		return &failure{code: 126, text: "run: the current directory", err: err, next: "it is not in the fork " + name + ": cd to one that is"}
	}
	return nil
}

// tellFork says what a merge of a fork would bring, whoever in it has changed it, and what to do with it.
func (m *mounted) tellFork(name string, mine bool, w io.Writer) error {
	b, err := m.read("forks/" + name + "/files")
	if err != nil {
		return err
	}
	if changed := parseChanges(string(b)); len(changed) == 0 {
		fmt.Fprintf(w, "ttfs: %s changed nothing\n", name)
	} else {
		fmt.Fprintf(w, "ttfs: %s changed %s:\n", name, count(len(changed), "path"))
		printChanges(w, changed, maxTold)
	}
	at := ""
	if mine { // the workspace is unmounted by now, or soon
		at = "ttfs mount " + quoteArg(m.dir) + " && "
	}
	fmt.Fprintf(w, "merge with: %sttfs merge %s     (what it changed: %s)\ndiscard with: %sttfs discard %s\n", at, name, quoteArg(m.path("forks/"+name+"/diff")), at, name)
	return nil
}
