package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "0.1.0-dev"

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

// streams are what a verb reads from and writes to.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// global are the flags of every verb.
type global struct {
	workspace string
}

// execute runs one command line and gives its exit code.
func execute(ctx context.Context, args []string, s streams) int {
	root := newRoot(s)
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return int(exitOK)
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(s.err, "ttfs: "+text)
	}
	return codeOf(err)
}

// newRoot is the whole command line.
func newRoot(s streams) *cobra.Command {
	g := &global{}
	root := &cobra.Command{
		Use:           "ttfs VERB [flags] [args]",
		Short:         "a workspace that remembers: undo, redo and switch for everything that agents do to files",
		Long:          rootHelp + "\n\n" + exitHelp(),
		Example:       "  ttfs run --agent claude -- claude\n  ttfs log\n  ttfs undo --agent claude",
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			next := "`ttfs help` lists the verbs"
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				next = "did you mean " + strings.Join(near, " or ") + "?"
			}
			return usage("%q is not a verb; %s", args[0], next)
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SuggestionsMinimumDistance = 2
	root.PersistentFlags().StringVarP(&g.workspace, "workspace", "w", "", "the workspace `DIR`; else the one that contains the current directory")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%s: %v; see `%s --help`", c.Name(), err, c.CommandPath())
	})
	root.AddCommand(
		newMount(g, s), newSupervise(), newUnmount(g, s), newRun(g, s), newRunChild(s), newShowMoves(s), newPack(s),
		newTask(g, s), newLog(g, s), newShow(g, s), newDiff(g, s), newBlame(g, s),
		newUndo(g, s), newRedo(g, s), newSwitch(g, s), newRevert(g, s), newRestore(g, s),
		newForks(g, s), newFork(g, s), newMerge(g, s), newDiscard(g, s),
		newStatus(g, s), newWhy(g, s), newStale(g, s), newAgents(g, s), newStats(g, s), newFsck(g, s), newPrune(g, s),
		newDoctor(s), newCompletion(s), newVersion(s),
	)
	return root
}

const rootHelp = `ttfs is mounted over a workspace directory. Every change that any program makes there is recorded in the active task of
its agent, and any task can be taken back, forward or sideways, exactly. After unmount the workspace is an ordinary
directory again.`

// positional makes too few or too many arguments a usage error.
func positional(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usage("%s: %v; write: %s", c.Name(), err, c.UseLine())
		}
		return nil
	}
}

// asFailure finds the failure in an error.
func asFailure(err error) (*failure, bool) {
	var f *failure
	ok := errors.As(err, &f)
	return f, ok
}
