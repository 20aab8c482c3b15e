package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// kind is how one of the agents that people use keeps checkpoints in git: a repository beside the workspace (Gemini
// CLI, OpenCode), or commits that no branch has in the workspace's own (Codex).
type kind struct {
	name     string
	snapshot string // prints what restore is given as $1
	restore  string
}

// kinds take the workspace's directory as the current one and GIT_DIR from the environment.
var kinds = []kind{
	{"Gemini CLI", `git add -A . && git commit -q --allow-empty --no-verify -m "snapshot" && git rev-parse HEAD`,
		`git restore --source "$1" . && git clean -qfd`},
	{"OpenCode", `git add . && git write-tree`,
		`git add . && ` + removeAdded + ` && git read-tree "$1" && git checkout-index -q -a -f`},
	{"Codex", `export GIT_INDEX_FILE="$GIT_DIR/ghost.$$"; trap 'rm -f "$GIT_INDEX_FILE"' EXIT
		git rev-parse -q --verify HEAD >/dev/null && git read-tree HEAD
		git add --all && tree=$(git write-tree) && git commit-tree -m ghost "$tree"`,
		`export GIT_INDEX_FILE="$GIT_DIR/ghost.$$"; trap 'rm -f "$GIT_INDEX_FILE"' EXIT
		git read-tree "$1" && git add --all && ` + removeAdded + ` && git restore --source "$1" --worktree -- .`},
}

// removeAdded takes away what the index has and the snapshot has not: both list these and unlink them one by one.
const removeAdded = `git diff --cached --name-only --no-renames --diff-filter=A -z "$1" | xargs -0 -r rm -f`

// shadow is one such repository.
type shadow struct {
	kind
	tree, git, home string
	last            string
}

// newShadow makes one that has no snapshot yet. It is on the bare disk, outside the tree.
func newShadow(b testing.TB, tree string, k kind) *shadow {
	b.Helper()
	home := rig.Disk(b)
	s := &shadow{kind: k, tree: tree, git: filepath.Join(home, "git"), home: home}
	if _, err := s.sh(`git init -q && git config user.name n && git config user.email e && git config gc.auto 0 && git config core.fsync none && printf '.tt\n' >"$GIT_DIR/info/exclude"`); err != nil {
		b.Fatal(err)
	}
	return s
}

// try takes a snapshot, which another one's lock may prevent.
func (s *shadow) try() error {
	_, err := s.sh(s.kind.snapshot)
	return err
}

func (s *shadow) snapshot(b testing.TB) {
	b.Helper()
	out, err := s.sh(s.kind.snapshot)
	must(b, err)
	s.last = out
}

// undo brings the tree back to the last snapshot that snapshot made.
func (s *shadow) undo(b testing.TB) {
	b.Helper()
	_, err := s.sh(s.restore, s.last)
	must(b, err)
}

func (s *shadow) sh(script string, args ...string) (string, error) {
	cmd := exec.Command("sh", append([]string{"-c", script, "sh"}, args...)...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.tree, &out, &said
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "GIT_DIR=" + s.git, "GIT_WORK_TREE=" + s.tree, "GIT_CONFIG_NOSYSTEM=1"}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", s.name, err, firstLine(said.String()))
	}
	return string(bytes.TrimSpace(out.Bytes())), nil
}
