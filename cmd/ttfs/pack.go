package main

import (
	"github.com/spf13/cobra"
	"github.com/ttfs/ttfs/fs"
)

// packVerb is the hidden verb of the process that hashes and compresses for a daemon's archiver.
const packVerb = "pack-chunks"

// pack starts that process.
var pack = [...]string{"/proc/self/exe", packVerb}

func newPack(s streams) *cobra.Command {
	return &cobra.Command{
		Use: packVerb, Short: "what a daemon starts", Hidden: true, Args: positional(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return runPack(s)
		},
	}
}

func runPack(s streams) error {
	if err := fs.Pack(s.in, s.out); err != nil {
		return failed("pack chunks", err, "")
	}
	return nil
}
