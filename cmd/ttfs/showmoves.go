package main

import (
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/ttfs/ttfs/fs"
)

// showMovesVerb is the hidden verb of the process by which a daemon shows moves to programs that watch files.
const showMovesVerb = "show-moves"

// showMoves starts that process.
var showMoves = [...]string{"/proc/self/exe", showMovesVerb}

// init keeps that process on its first thread: the daemon knows it by its pid, which is only that thread's number.
func init() {
	if len(os.Args) == 2 && os.Args[1] == showMovesVerb {
		runtime.LockOSThread()
	}
}

func newShowMoves(s streams) *cobra.Command {
	return &cobra.Command{
		Use: showMovesVerb, Short: "what a daemon starts", Hidden: true, Args: positional(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return runShowMoves(s)
		},
	}
}

func runShowMoves(s streams) error {
	if err := fs.ShowMoves(s.in, s.out); err != nil {
		return failed("show moves", err, "")
	}
	return nil
}
