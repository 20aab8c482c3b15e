package fs

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/identity"
	"github.com/ttfs/ttfs/fs/overlay"
	"golang.org/x/sys/unix"
)

// testSpace is a space over a directory with an engine of its own.
func testSpace(t *testing.T, f *face, files map[string]string) *space {
	t.Helper()
	return testSpaceWith(t, f, files, nil)
}

// testSpaceWith is testSpace with other options; then its engine tells the face what it has to tell.
func testSpaceWith(t *testing.T, f *face, files map[string]string, set func(*overlay.Options)) *space {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	st, err := openStore(storeOptions{dir: dir, create: true, logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	sp := &space{back: &backend{Refusals: &control.Refusals{}, ids: f.ids, log: st.log}}
	o := overlay.Options{Root: st.root, Store: st.tt, Journal: st.journal, Blobs: st.blobs}
	if set != nil {
		o.Notify = &notifier{f: f, sp: sp}
		set(&o)
	}
	sp.e, err = overlay.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	sp.back.Engine = sp.e
	t.Cleanup(func() {
		if err := sp.e.Close(); err != nil {
			t.Error(err)
		}
		if err := st.close(); err != nil {
			t.Error(err)
		}
	})
	return sp
}

// twoSpaces is a face over two engines: the workspace, and one that is served as the tree of agent kid's fork.
func twoSpaces(t *testing.T) (*face, *space) {
	t.Helper()
	f := &face{RawFileSystem: fuse.NewDefaultRawFileSystem(), log: slog.New(slog.DiscardHandler), ids: identity.New(identity.Options{})}
	f.main = testSpace(t, f, map[string]string{"f": "main\n", "other": "main\n"})
	fork := testSpace(t, f, map[string]string{"f": "fork\n", "own": "fork\n"})
	fork.name, fork.agent, fork.up = "kid", "kid", f.main
	if !f.views.own(fork) {
		t.Fatal("no view")
	}
	return f, fork
}

func header(id uint64) fuse.InHeader { return fuse.InHeader{NodeId: id} }

// find looks a name up, as anybody.
func find(t *testing.T, f *face, dir uint64, name string) fuse.EntryOut {
	t.Helper()
	h := header(dir)
	var out fuse.EntryOut
	if s := f.Lookup(nil, &h, name, &out); !s.Ok() {
		t.Fatalf("lookup %s in %x: %v", name, dir, s)
	}
	return out
}

// content is what a file holds, by open, read and release.
func content(t *testing.T, f *face, id uint64) string {
	t.Helper()
	in := fuse.OpenIn{InHeader: header(id), Flags: unix.O_RDONLY}
	var out fuse.OpenOut
	if s := f.Open(nil, &in, &out); !s.Ok() {
		t.Fatalf("open %x: %v", id, s)
	}
	defer f.Release(nil, &fuse.ReleaseIn{InHeader: header(id), Fh: out.Fh})
	b := make([]byte, 4096)
	r, s := f.Read(nil, &fuse.ReadIn{InHeader: header(id), Fh: out.Fh, Size: 4096}, b)
	if !s.Ok() {
		t.Fatalf("read %x: %v", id, s)
	}
	got, _ := r.Bytes(b)
	return string(got)
}

// TestSpacesAreApart: nodes, handles and names of two engines do not meet, though their numbers are the same.
func TestSpacesAreApart(t *testing.T) {
	f, fork := twoSpaces(t)
	root := fork.id(overlay.RootNode)
	a, b := find(t, f, fuse.FUSE_ROOT_ID, "f"), find(t, f, root, "f")
	if node(a.NodeId) != node(b.NodeId) || a.NodeId == b.NodeId || f.space(b.NodeId) != fork || f.space(a.NodeId) != f.main {
		t.Fatalf("nodes %x and %x", a.NodeId, b.NodeId)
	}
	if got := content(t, f, a.NodeId) + content(t, f, b.NodeId); got != "main\nfork\n" {
		t.Errorf("they hold %q", got)
	}
	for id, want := range map[uint64]float64{a.NodeId: longTimeout.Seconds(), b.NodeId: longTimeout.Seconds()} {
		var out fuse.AttrOut
		if s := f.GetAttr(nil, &fuse.GetAttrIn{InHeader: header(id)}, &out); !s.Ok() || out.Timeout().Seconds() != want {
			t.Errorf("node %x: %v, attributes for %v", id, s, out.Timeout())
		}
	}
	if b.EntryTimeout() != longTimeout {
		t.Errorf("an entry of a fork's own tree is kept for %v", b.EntryTimeout())
	}
	gone := header(root)
	var none fuse.EntryOut
	if s := f.Lookup(nil, &gone, "other", &none); !s.Ok() || none.NodeId != 0 {
		t.Errorf("the workspace's file is in the fork: %v %x", s, none.NodeId)
	}
	// Nothing is moved, linked or copied from one to the other.
	if s := f.Rename(nil, &fuse.RenameIn{InHeader: header(root), Newdir: fuse.FUSE_ROOT_ID}, "own", "own"); s != fuse.Status(syscall.EXDEV) {
		t.Errorf("rename: %v", s)
	}
	var out fuse.EntryOut
	if s := f.Link(nil, &fuse.LinkIn{InHeader: header(fuse.FUSE_ROOT_ID), Oldnodeid: b.NodeId}, "linked", &out); s != fuse.Status(syscall.EXDEV) {
		t.Errorf("link: %v", s)
	}
	// What is made in the fork is the fork agent's, in its engine alone.
	var made fuse.CreateOut
	if s := f.Create(nil, &fuse.CreateIn{InHeader: header(root), Flags: unix.O_WRONLY, Mode: unix.S_IFREG | 0o644}, "new", &made); !s.Ok() {
		t.Fatalf("create: %v", s)
	}
	if n, s := f.Write(nil, &fuse.WriteIn{InHeader: header(made.NodeId), Fh: made.Fh}, []byte("new")); !s.Ok() || n != 3 {
		t.Errorf("write: %v", s)
	}
	if _, s := f.CopyFileRange(nil, &fuse.CopyFileRangeIn{InHeader: header(a.NodeId), FhIn: made.Fh, NodeIdOut: made.NodeId, FhOut: made.Fh, Len: 1}); s != fuse.Status(syscall.EXDEV) {
		t.Errorf("copy_file_range: %v", s)
	}
	f.Release(nil, &fuse.ReleaseIn{InHeader: header(made.NodeId), Fh: made.Fh})
	if got := content(t, f, made.NodeId); got != "new" {
		t.Errorf("it holds %q", got)
	}
	if n := len(f.main.e.Tasks()); n != 0 {
		t.Errorf("the workspace has %d tasks", n)
	}
	tasks := fork.e.Tasks()
	if len(tasks) != 1 || tasks[0].Agent != "kid" {
		t.Errorf("the fork's tasks: %+v", tasks)
	}
	f.Forget(b.NodeId, 1)
	if got := content(t, f, a.NodeId); got != "main\n" {
		t.Errorf("after the fork's was forgotten: %q", got)
	}
}

// TestSpacesControl: each space has its own `.tt`, as its agent sees it, with views of its own.
func TestSpacesControl(t *testing.T) {
	f, fork := twoSpaces(t)
	status := func(root uint64) string {
		t.Helper()
		return content(t, f, find(t, f, find(t, f, root, overlay.StoreName).NodeId, "status").NodeId)
	}
	if got := status(fuse.FUSE_ROOT_ID); !strings.Contains(got, "agent=user\n") {
		t.Errorf("the workspace's: %s", got)
	}
	if got := status(fork.id(overlay.RootNode)); !strings.Contains(got, "agent=kid\n") {
		t.Errorf("the fork's: %s", got)
	}
	tt := find(t, f, fork.id(overlay.RootNode), overlay.StoreName)
	as := find(t, f, find(t, f, tt.NodeId, "as").NodeId, "below")
	v, ok := f.views.at(viewOf(as.NodeId))
	if !ok || v.sp != fork || v.agent != "below" || as.EntryTimeout() != 0 || f.isOwn(as.NodeId) {
		t.Errorf("the view of an agent in a fork: %+v, %v", v, as.EntryTimeout())
	}
	if own := find(t, f, as.NodeId, "own"); f.space(own.NodeId) != fork || own.AttrTimeout() != 0 {
		t.Errorf("a file through it: %x, %v", own.NodeId, own.AttrTimeout())
	}
	if got := status(as.NodeId); !strings.Contains(got, "agent=below\n") {
		t.Errorf("its status: %s", got)
	}
	if p := fork.e.ParentOf("below"); p != "kid" {
		t.Errorf("its parent is %q", p)
	}
	again := find(t, f, find(t, f, tt.NodeId, "as").NodeId, "below")
	inMain := find(t, f, find(t, f, find(t, f, fuse.FUSE_ROOT_ID, overlay.StoreName).NodeId, "as").NodeId, "below")
	if again.NodeId != as.NodeId || viewOf(inMain.NodeId) == viewOf(as.NodeId) {
		t.Errorf("views %x, %x and %x", as.NodeId, again.NodeId, inMain.NodeId)
	}
	if !f.views.known("kid") || !f.views.known("below") || f.views.known("nobody") {
		t.Error("the views' agents are not known")
	}
	fork.gone.Store(true)
	if f.views.known("kid") {
		t.Error("an agent of a fork that has gone is kept")
	}
}
