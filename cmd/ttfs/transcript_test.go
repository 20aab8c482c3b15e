package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// say runs a command line as a person would, without a mount.
func say(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = execute(t.Context(), args, streams{strings.NewReader(""), &o, &e})
	return o.String(), e.String(), code
}

// TestTranscripts are the words and codes of what cannot be done.
func TestTranscripts(t *testing.T) {
	plain := t.TempDir()
	real, err := realDir(plain)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(plain)
	none := "ttfs: no workspace: neither DIR nor a directory above it is mounted or was ever; mount one with `ttfs mount DIR`, or name it with --workspace DIR\n"
	for _, c := range []struct {
		line string
		code exitCode
		errs string
	}{
		{"frobnicate", exitUsage, "ttfs: \"frobnicate\" is not a verb; `ttfs help` lists the verbs\n"},
		{"und", exitUsage, "ttfs: \"und\" is not a verb; did you mean run or undo?\n"},
		{"undo --frobnicate", exitUsage, "ttfs: undo: unknown flag: --frobnicate; see `ttfs undo --help`\n"},
		{"undo 3", exitUsage, "ttfs: undo: unknown command \"3\" for \"ttfs undo\"; write: ttfs undo [--agent A] [--force|--skip] [--dry-run] [flags]\n"},
		{"mount", exitUsage, "ttfs: mount: accepts 1 arg(s), received 0; write: ttfs mount [flags] DIR\n"},
		{"mount --guard maybe .", exitUsage, "ttfs: mount: --guard is on or off, not \"maybe\"\n"},
		{"mount --transport pigeon .", exitUsage, "ttfs: mount: --transport is auto or classic or uring, not \"pigeon\"\n"},
		{"switch", exitUsage, "ttfs: switch: accepts 1 arg(s), received 0; write: ttfs switch N [--agent A] [--force|--skip] [--dry-run] [flags]\n"},
		{"switch x", exitUsage, "ttfs: switch: \"x\" is not the number of a task; `ttfs log --all` lists them\n"},
		{"switch -- -1", exitUsage, "ttfs: switch: \"-1\" is not the number of a task; `ttfs log --all` lists them\n"},
		{"switch 01", exitUsage, "ttfs: switch: \"01\" is not the number of a task; `ttfs log --all` lists them\n"},
		{"show two", exitUsage, "ttfs: show: \"two\" is not the number of a task; `ttfs log --all` lists them\n"},
		{"log -n -1", exitUsage, "ttfs: log: -n is a number of tasks, not -1\n"},
		{"run --isolation jail -- true", exitUsage, "ttfs: run: --isolation is none, fork or ro, not \"jail\"\n"},
		{"undo --force --skip", exitUsage, "ttfs: undo: --force and --skip exclude each other\n"},
		{"completion tcsh", exitUsage, "ttfs: completion: invalid argument \"tcsh\" for \"ttfs completion\"; write: ttfs completion bash|zsh|fish|powershell [flags]\n"},
		{"status", exitNotMounted, none},
		{"task x", exitNotMounted, none},
		{"why", exitNotMounted, none},
		{"stale", exitNotMounted, none},
		{"stale f", exitUsage, "ttfs: stale: unknown command \"f\" for \"ttfs stale\"; write: ttfs stale [--agent NAME] [--json] [flags]\n"},
		{"mount --guard= DIR", exitUsage, "ttfs: mount: --guard is on or off, not empty\n"},
		{"agents", exitNotMounted, none},
		{"log", exitNotMounted, none},
		{"undo", exitNotMounted, none},
		{"fsck", exitNotMounted, none},
		{"unmount", exitNotMounted, none},
		{"unmount DIR", exitNotMounted, "ttfs: DIR is not mounted; mount it with `ttfs mount DIR`\n"},
		{"--workspace DIR log", exitNotMounted, "ttfs: DIR is not mounted; mount it with `ttfs mount DIR`\n"},
		{"-w DIR/none status", exitFailed, "ttfs: lstat DIR/none: no such file or directory; name a directory that exists\n"},
		{"mount DIR/none", exitFailed, "ttfs: mount: lstat DIR/none: no such file or directory; name a directory that exists\n"},
	} {
		t.Run(c.line, func(t *testing.T) {
			out, errs, code := say(t, strings.Fields(strings.ReplaceAll(c.line, "DIR", real))...)
			if got, want := strings.ReplaceAll(errs, real, "DIR"), c.errs; got != want {
				t.Errorf("stderr is\n%swant\n%s", got, want)
			}
			if code != int(c.code) {
				t.Errorf("exit %d, want %d", code, int(c.code))
			}
			if out != "" {
				t.Errorf("stdout is %q", out)
			}
		})
	}
	if left, err := os.ReadDir(plain); err != nil || len(left) != 0 {
		t.Errorf("something was left behind: %v, %v", left, err)
	}
}

// TestAnswers go to stdout, with nothing on stderr.
func TestAnswers(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		line string
		want []string
	}{
		{"", []string{"undo", "Exit codes:", "64   usage"}},
		{"help", []string{"undo", "Exit codes:"}},
		{"help undo", []string{"ttfs undo --dry-run", "--agent"}},
		{"version", []string{"ttfs ", "go1."}},
		{"version --json", []string{`"version"`, `"platform"`}},
		{"doctor", []string{"kernel", "fuse"}},
		{"doctor --json", []string{`"passthrough"`, `"why"`}},
		{"completion bash", []string{"ttfs"}},
	} {
		t.Run(c.line, func(t *testing.T) {
			out, errs, code := say(t, strings.Fields(c.line)...)
			if code != 0 || errs != "" {
				t.Errorf("exit %d, stderr %q", code, errs)
			}
			for _, word := range c.want {
				if !strings.Contains(out, word) {
					t.Errorf("stdout lacks %q:\n%s", word, out)
				}
			}
		})
	}
}

// TestEveryVerbHasAnExample: and each file of a verb has its newX.
func TestEveryVerbHasAnExample(t *testing.T) {
	root := newRoot(streams{strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}})
	verbs := 0
	for _, c := range root.Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		verbs++
		if c.Short == "" || !strings.Contains(c.Example, "ttfs "+c.Name()) {
			t.Errorf("%s has no example or says nothing of itself", c.Name())
		}
		b, err := os.ReadFile(c.Name() + ".go")
		if err != nil || !bytes.Contains(b, []byte("func new"+strings.ToUpper(c.Name()[:1])+c.Name()[1:]+"(")) {
			t.Errorf("%s.go does not declare its verb: %v", c.Name(), err)
		}
	}
	if verbs < 17 {
		t.Errorf("%d verbs", verbs)
	}
}
