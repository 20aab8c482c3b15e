package main

import "github.com/spf13/cobra"

func newCompletion(s streams) *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "a script that makes your shell complete verbs and flags",
		Example:   "  source <(ttfs completion bash)",
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args:      positional(cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)),
		RunE:      func(c *cobra.Command, args []string) error { return runCompletion(c.Root(), args[0], s) },
	}
}

func runCompletion(root *cobra.Command, shell string, s streams) error {
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(s.out, true)
	case "zsh":
		return root.GenZshCompletion(s.out)
	case "fish":
		return root.GenFishCompletion(s.out, true)
	default:
		return root.GenPowerShellCompletionWithDesc(s.out)
	}
}
