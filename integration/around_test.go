package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// under is a workspace that is mounted, and the path by which this process comes to it below the mount.
func under(t *testing.T, flags ...string) (w *rig.Workspace, below string) {
	w = rig.New(t)
	w.Sh("mkdir open; chmod 777 open").OK()
	fd, err := unix.Open(w.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	w.Mount(flags...)
	return w, fmt.Sprintf("/proc/self/fd/%d", fd)
}

// TestCreateOfWhatIsThere: the kernel believes that a name is not there, has the file made, and asks nobody whether the caller
// may open it: it was to be the caller's own. One that has come there meanwhile is opened as any other, or not.
func TestCreateOfWhatIsThere(t *testing.T) {
	w, below := under(t)
	other := "setpriv --reuid 65534 --regid 65534 --clear-groups "
	for _, name := range []string{"secret", "public"} {
		if r := w.Sh("cd open && " + other + "test -e " + name); r.Code == 0 {
			t.Fatal("it is there already")
		}
	}
	for name, mode := range map[string]os.FileMode{"secret": 0o600, "public": 0o666} {
		file := below + "/open/" + name
		if err := os.WriteFile(file, []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	read := "cd open && " + other + "sh -c 'exec 3<>%s && cat <&3'" // O_RDWR|O_CREAT
	if r := w.Sh(fmt.Sprintf(read, "secret")); r.Code == 0 || strings.Contains(r.Stdout, "secret") {
		t.Errorf("another user opens what it may not: %q", r.Stdout)
	}
	if r := w.Sh(fmt.Sprintf(read, "public")).OK(); r.Stdout != "public\n" {
		t.Errorf("another user reads %q", r.Stdout)
	}
}

// TestHolesBesideTheStore: to look for holes in a file below .tt does not make the kernel give up asking of others.
func TestHolesBesideTheStore(t *testing.T) {
	w := mounted(t)
	w.Sh("truncate -s 1M sparse; echo end >> sparse").OK()
	seek := `import os, sys
for path in sys.argv[1:]:
    fd = os.open(path, os.O_RDONLY)
    try:
        print(os.lseek(fd, 0, os.SEEK_DATA), os.lseek(fd, 0, os.SEEK_HOLE))
    except OSError as e:
        print(e.errno)
    os.close(fd)
`
	size := len(get(t, w, ".tt/README"))
	want := fmt.Sprintf("1048576 0\n0 %d\n1048576 0\n", size)
	if got := w.Python(seek, "sparse", ".tt/README", "sparse").OK().Stdout; got != want {
		t.Errorf("data and holes are at %q, want %q", got, want)
	}
}

// TestSeenBesideAView: what is done through an agent's view shows at once in the workspace itself, whose attributes the kernel
// keeps.
func TestSeenBesideAView(t *testing.T) {
	w := mounted(t)
	put(t, w, "f", "1234")
	put(t, w, "from", strings.Repeat("x", 100))
	w.Sh("ls .tt/as/bob >/dev/null").OK()
	const program = `import os
view = ".tt/as/bob/"
fd, src = os.open(view + "f", os.O_RDWR), os.open(view + "from", os.O_RDONLY)
for act in (lambda: os.posix_fallocate(fd, 0, 50), lambda: os.copy_file_range(src, fd, 100, 0, 0), lambda: os.link(view + "f", view + "g")):
    os.stat("f")
    act()
    st = os.stat("f")
    print(st.st_size, st.st_nlink)
`
	if got, want := w.Python(program).OK().Stdout, "50 1\n100 1\n100 2\n"; got != want {
		t.Errorf("size and links are %q, want %q", got, want)
	}
}
