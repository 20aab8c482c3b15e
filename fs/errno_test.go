package fs

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/overlay"
)

// kindsIn are the constants of type Kind that a source file declares, by their text.
func kindsIn(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && fmt.Sprint(v.Type) == "Kind" {
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all[v.Names[0].Name] = text
		}
		return true
	})
	if len(all) < 10 {
		t.Fatalf("only %d kinds in %s", len(all), file)
	}
	return all
}

// TestEveryKindHasAnErrno: none is told as EIO for want of an entry.
func TestEveryKindHasAnErrno(t *testing.T) {
	for name, text := range kindsIn(t, "overlay/errors.go") {
		if _, has := errnos[overlay.Kind(text)]; !has {
			t.Errorf("overlay.%s has no errno", name)
		}
		err := controlError("x", fmt.Errorf("wrapped: %w", &overlay.Error{Op: "y", Kind: overlay.Kind(text)}))
		if got, want := control.Errno(err), errnos[overlay.Kind(text)]; got != want && got != syscall.EIO {
			t.Errorf("overlay.%s is %v for a file and %v for ctl", name, want, got)
		}
	}
	for name, text := range kindsIn(t, "control/errors.go") {
		code, known := errno(fmt.Errorf("wrapped: %w", &control.Error{Op: "x", Kind: control.Kind(text)}))
		if code == 0 || known == (code == syscall.EIO) {
			t.Errorf("control.%s: %v, known %v", name, code, known)
		}
	}
}

// TestEIOIsLogged: a program learns of an error without a kind that it is EIO; the log says what it was.
func TestEIOIsLogged(t *testing.T) {
	for _, c := range []struct {
		err  error
		want syscall.Errno
		logs bool
	}{
		{nil, 0, false},
		{syscall.ENOENT, syscall.ENOENT, false},
		{&control.Error{Op: "a", Kind: control.NoFile, Err: errors.New("the cause")}, syscall.ENOENT, false},
		{controlError("files", errors.New("the cause")), syscall.EIO, true},
		{controlError("files", &overlay.Error{Op: "files", Kind: overlay.Damaged, Err: errors.New("the cause")}), syscall.EIO, true},
		{fmt.Errorf("json: %w", errors.New("the cause")), syscall.EIO, true},
	} {
		var b bytes.Buffer
		f := &face{log: slog.New(slog.NewTextHandler(&b, nil))}
		if got := f.status("read", c.err); got != fuse.Status(c.want) {
			t.Errorf("%v is %v, want %v", c.err, got, c.want)
		}
		if logged := strings.Contains(b.String(), "the cause"); logged != c.logs || strings.Count(b.String(), "\n") > 1 {
			t.Errorf("%v is logged as %q", c.err, b.String())
		}
	}
}
