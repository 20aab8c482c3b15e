package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/ttfs/ttfs"

// pkg is what `go list` tells of a package.
type pkg struct {
	ImportPath, Dir, Doc                string
	Deps, GoFiles                       []string
	TestGoFiles, XTestGoFiles, CgoFiles []string
}

// packages are all of the module.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,Deps,GoFiles,TestGoFiles,XTestGoFiles,CgoFiles", "./...")
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 8 {
		t.Fatalf("only %d packages found", len(all))
	}
	return all
}

// TestTopLevel: the rooms of the house, and nothing beside them.
func TestTopLevel(t *testing.T) {
	allowed := []string{
		"cmd", "fs", "cas", "journal", "tasktree", "guard", "integration", "docs",
		"go.mod", "go.sum", "Makefile", "README.md", "LICENSE", "CHANGELOG.md",
		"ttfs", "bin", // built here, not kept
	}
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, e := range entries {
		switch {
		case slices.Contains(allowed, e.Name()):
			seen++
		case !strings.HasPrefix(e.Name(), "."):
			t.Errorf("%s does not belong to the top level", e.Name())
		}
	}
	if seen < 12 {
		t.Errorf("only %d of the rooms are there", seen)
	}
	commands, err := os.ReadDir("..")
	if err != nil || len(commands) != 1 {
		t.Errorf("cmd holds more than ttfs: %v, %v", commands, err)
	}
}

// mayImport says which of our packages each room may depend on, deep. Source: HOUSE-STYLE section 1.
var mayImport = map[string][]string{
	"cas":          {},
	"tasktree":     {},
	"guard":        {},
	"journal":      {"tasktree", "cas"},
	"fs/overlay":   {"guard", "tasktree", "journal", "cas"},
	"fs/identity":  {"tasktree"},
	"fs/control":   {"tasktree", "fs/identity"},
	"fs/transport": {"guard", "tasktree", "journal", "cas"},
	"fs":           {"guard", "tasktree", "journal", "cas", "fs"},
	"integration":  {"integration"},
	"cmd":          {"fs", "guard", "tasktree", "journal", "cas"},
}

// room is the longest name of the table that holds a package.
func room(path string) string {
	path = strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
	best := ""
	for name := range mayImport {
		if (path == name || strings.HasPrefix(path, name+"/")) && len(name) > len(best) {
			best = name
		}
	}
	return best
}

// TestArrows: imports go down only.
func TestArrows(t *testing.T) {
	for _, p := range packages(t) {
		from := room(p.ImportPath)
		if from == "" {
			t.Errorf("%s is in no room of the table", p.ImportPath)
			continue
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, module) {
				to := strings.TrimPrefix(dep, module+"/")
				inside := to == from || strings.HasPrefix(to, from+"/")
				if !inside && !slices.ContainsFunc(mayImport[from], func(r string) bool { return to == r || strings.HasPrefix(to, r+"/") }) {
					t.Errorf("%s depends on %s", p.ImportPath, dep)
				}
			}
		}
		fuse := slices.ContainsFunc(p.Deps, func(d string) bool { return strings.HasPrefix(d, "github.com/hanwen/go-fuse/") })
		if fuse && slices.Contains([]string{"fs/overlay", "fs/identity", "fs/control", "cas", "journal", "tasktree", "guard"}, from) {
			t.Errorf("%s depends on go-fuse", p.ImportPath)
		}
		pebble := slices.ContainsFunc(p.Deps, func(d string) bool { return strings.HasPrefix(d, "github.com/cockroachdb/pebble") })
		if pebble && slices.Contains([]string{"tasktree", "guard", "fs/identity", "fs/control", "integration"}, from) {
			t.Errorf("%s depends on pebble", p.ImportPath)
		}
		if from == "integration" || from == "tasktree" || from == "guard" {
			for _, dep := range p.Deps {
				if strings.HasPrefix(dep, module) && room(dep) != from {
					t.Errorf("%s depends on %s: it is to import nothing of ours", p.ImportPath, dep)
				}
			}
		}
	}
}

// TestPureDecisions: what decides reads no clock, no disk, and logs nothing.
func TestPureDecisions(t *testing.T) {
	for _, p := range packages(t) {
		if r := room(p.ImportPath); r != "tasktree" && r != "guard" {
			continue
		}
		for _, f := range p.GoFiles {
			b, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			if m := regexp.MustCompile(`"(os|log|log/slog|io/fs|net|math/rand|golang\.org/x/sys/unix)"|time\.Now\(`).Find(b); m != nil {
				t.Errorf("%s/%s has %s", p.ImportPath, f, m)
			}
		}
	}
}

// TestPackageComments: each says its purpose, and what a maintainer must know.
func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		if len(p.Doc) == 0 {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// TestFileLength: past 400 lines a file is split.
func TestFileLength(t *testing.T) {
	for _, p := range packages(t) {
		for _, f := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles, p.CgoFiles) {
			b, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(b, []byte("\n")); n > 400 {
				t.Errorf("%s/%s has %d lines", p.ImportPath, f, n)
			}
		}
	}
}

// TestNoMachinePaths: nothing names a directory of one machine.
func TestNoMachinePaths(t *testing.T) {
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bad := regexp.MustCompile(`(^|[^A-Za-z0-9_./-])/wo` + `rk/|\.\./sha` + `red|/tmp/[a-z]/`)
	looked := 0
	err = filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == ".tools" || d.Name() == ".tt" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		kept := []string{".go", ".md", ".sh", ".txt", ".golden", ".mod"}
		if d.IsDir() || !slices.Contains(kept, filepath.Ext(path)) && !slices.Contains([]string{"Makefile", "run", "tools", "fuse"}, d.Name()) {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		looked++
		if m := bad.Find(b); m != nil {
			t.Errorf("%s names %s", path, m)
		}
		return nil
	})
	if err != nil || looked < 50 {
		t.Errorf("looked at %d files: %v", looked, err)
	}
}
