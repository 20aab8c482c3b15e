package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// workspace is a directory that is, or could be, mounted.
type workspace struct {
	// dir is absolute and has no symlinks.
	dir string
	// mount is that of ours on it, if mounted says that there is one.
	mount   mountPoint
	mounted bool
	// tree is the fork, or the view of an agent, below its `.tt` that is meant; "" for the workspace itself.
	tree string
}

// root is the directory whose `.tt` is to be talked to.
func (w workspace) root() string {
	if w.tree != "" {
		return w.tree
	}
	return w.dir
}

// treeOf is the innermost fork's tree or agent's view that a path below a mount leads into; "" for none. Nothing is asked.
func treeOf(mount, path string) string {
	parts := strings.Split(strings.TrimPrefix(strings.TrimPrefix(path, mount), "/"), "/")
	end := 0
	for {
		switch at := parts[end:]; {
		case len(at) >= 4 && at[0] == ".tt" && at[1] == "forks" && at[3] == "tree":
			end += 4
		case len(at) >= 3 && at[0] == ".tt" && at[1] == "as":
			end += 3
		case end == 0:
			return ""
		default:
			return filepath.Join(mount, filepath.Join(parts[:end]...))
		}
	}
}

// find is the workspace that a verb is about. Errors: exitNotMounted, when there is none.
func (g *global) find() (workspace, error) {
	mounts, err := ownMounts()
	if err != nil {
		return workspace{}, err
	}
	if g.workspace != "" {
		return at(g.workspace, mounts)
	}
	cwd, err := os.Getwd()
	if err != nil {
		return workspace{}, &failure{code: exitNotMounted, text: "the current directory is gone", err: err, next: "cd into the workspace, or name it with --workspace DIR"}
	}
	if real, err := realDir(cwd); err == nil {
		cwd = real
	}
	for dir := cwd; ; dir = filepath.Dir(dir) {
		if m, ok := mountAt(mounts, dir); ok {
			return workspace{dir: dir, mount: m, mounted: true, tree: treeOf(dir, cwd)}, nil
		}
		if hasStore(dir) {
			return workspace{dir: dir}, nil
		}
		if dir == filepath.Dir(dir) {
			return workspace{}, &failure{code: exitNotMounted, text: fmt.Sprintf("no workspace: neither %s nor a directory above it is mounted or was ever", cwd),
				next: "mount one with `ttfs mount DIR`, or name it with --workspace DIR"}
		}
	}
}

// at is the workspace of that very directory.
func at(dir string, mounts []mountPoint) (workspace, error) {
	real, err := realDir(dir)
	if err != nil {
		return workspace{}, &failure{code: exitFailed, err: err, next: "name a directory that exists"}
	}
	m, mounted := mountAt(mounts, real)
	for up := filepath.Dir(real); !mounted && strings.Contains(real, "/.tt/"); up = filepath.Dir(up) {
		if m, ok := mountAt(mounts, up); ok && treeOf(up, real) == real {
			return workspace{dir: up, mount: m, mounted: true, tree: real}, nil
		}
		if up == filepath.Dir(up) {
			break
		}
	}
	return workspace{dir: real, mount: m, mounted: mounted}, nil
}

// atDir is the workspace of that very directory, as it is mounted now.
func atDir(dir string) (workspace, error) {
	mounts, err := ownMounts()
	if err != nil {
		return workspace{}, err
	}
	return at(dir, mounts)
}

// hasStore says whether a detached store of ours is in the directory.
func hasStore(dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, ".tt", "format"))
	return err == nil && strings.HasPrefix(string(b), "ttfs ")
}

// realDir makes a path absolute and follows its symlinks, also where its last part is a mount whose daemon is dead, on
// which every call but readlink fails.
func realDir(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, syscall.ENOTCONN) || path == filepath.Dir(path) {
		return real, err
	}
	up, err := realDir(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	here := filepath.Join(up, filepath.Base(path))
	target, err := os.Readlink(here)
	if err != nil {
		return here, nil
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(up, target)
	}
	return realDir(target)
}

// dead says whether the daemon of a mounted workspace is. A stat would not tell: the kernel answers it for a while.
func (w workspace) dead() bool {
	var st syscall.Statfs_t
	return w.mounted && isDead(syscall.Statfs(w.dir, &st))
}

// isDead says whether an error is that of a mount without a daemon. Source: fs/fuse/dev.c: fuse_abort_conn gives the
// second to requests that were waiting when the daemon died.
func isDead(err error) bool {
	return errors.Is(err, syscall.ENOTCONN) || errors.Is(err, syscall.ECONNABORTED) || errors.Is(err, syscall.ECANCELED) // the last: on its way by io_uring
}

// live is find for verbs that need the mount. Errors: exitNotMounted.
func (g *global) live() (*mounted, error) {
	w, err := g.find()
	if err != nil {
		return nil, err
	}
	if !w.mounted {
		return nil, notMounted(w)
	}
	return w.client()
}

func notMounted(w workspace) error {
	return &failure{code: exitNotMounted, text: w.dir + " is not mounted", next: "mount it with `ttfs mount " + quoteArg(w.dir) + "`"}
}

// quoteArg writes an argument as a shell reads it.
func quoteArg(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:@%+,", r))
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
