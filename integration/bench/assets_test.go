package bench

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// assets are what jobs work with: below assetsDir, on the bare disk.
//
//	tree/      files of Go's own source, in the order of their names, as many as sizes says
//	tree.tar   the same
//	repo/      the same, committed
//	module.tar the source of ttfs, as module/
//	npm/       package.json, package-lock.json, and a cache that has all that they name
type assets struct {
	files   int
	missing map[string]string // courses that cannot be, and why
}

// npmSet is one real program with its dependencies: 86 packages, 1,200 files.
const npmSet = `{"name":"job","version":"1.0.0","dependencies":{"eslint":"9.17.0"}}`

// makeAssets makes what is not there yet. They stay until the run ends, with the disk.
func makeAssets(b *testing.B) assets {
	b.Helper()
	dir := assetsDir()
	w := rig.New(b)
	a := assets{missing: map[string]string{}}
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		b.Fatal(err)
	}
	tree := filepath.Join(dir, "tree")
	a.files = copySource(b, tree, sizes().treeFiles)
	w.Run(dir, "sh", "-e", "-c", `tar cf tree.tar tree
		if [ ! -d repo ]; then cp -r tree repo; cd repo; git init -q; git add -A; git commit -qm start; git gc -q; fi`).OK()
	w.Run(dir, "sh", "-e", "-c", `tar cf module.tar --exclude=.git --exclude=.tools --exclude=.tt --exclude=./ttfs --transform 's,^\.,module,' -C "$1" .`,
		"sh", repository(b)).OK()
	npm := filepath.Join(dir, "npm")
	putFile(b, filepath.Join(npm, "package.json"), []byte(npmSet))
	got := w.Run(npm, "sh", "-e", "-c", `command -v npm >/dev/null || { echo "npm is not in PATH" >&2; exit 1; }
		npm install --no-audit --no-fund --loglevel error --cache "$PWD/cache"; rm -rf node_modules`)
	if got.Code != 0 {
		a.missing["npm ci"] = firstLine(got.Stderr)
	}
	return a
}

// copySource copies files of Go's source, small ones first come, first served, without its test data.
func copySource(b *testing.B, to string, files int) int {
	b.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	must(b, err)
	from := filepath.Join(strings.TrimSpace(string(out)), "src")
	copied := 0
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > 32<<10 {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		putFile(b, filepath.Join(to, strings.TrimPrefix(path, from)), content)
		if copied++; copied == files {
			return fs.SkipAll
		}
		return nil
	})
	must(b, err)
	if copied < files {
		b.Fatal(fmt.Errorf("Go's source has only %d small files", copied))
	}
	return copied
}

// repository is the top of this one: tests run in the directory of their package.
func repository(b *testing.B) string {
	b.Helper()
	top, err := filepath.Abs("../..")
	must(b, err)
	return top
}
