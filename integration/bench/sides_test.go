package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// side is one column: a directory, and a process that works in it.
type side struct {
	name   string
	dir    string
	caller *callerProcess
	ours   bool // its failure fails the run
	lost   bool // it failed: it is not asked any more
}

// native is the first column, to which the others are compared.
const native = "native"

// startSides starts every column, without the peers when they are not wanted; those that cannot be are noted in the
// table. All end with the benchmark.
func startSides(b *testing.B, t *table, all bool) []*side {
	b.Helper()
	w := rig.New(b)
	sides := []*side{{name: native, dir: w.Dir, ours: true, caller: startCaller(b, w, "", "")}}
	for _, p := range peers {
		if !all {
			break
		}
		s, err := p.side(b)
		if err != nil {
			t.absent(p.name, firstLine(err.Error()))
			continue
		}
		sides = append(sides, s)
	}
	for _, m := range modes {
		s, err := m.side(b)
		if err != nil {
			t.absent(m.name, firstLine(err.Error()))
			if !m.mayFail {
				b.Errorf("%s: %v", m.name, err)
			}
			continue
		}
		sides = append(sides, s)
	}
	for _, s := range sides {
		if !slices.Contains(t.columns, s.name) {
			t.columns = append(t.columns, s.name)
		}
	}
	return sides
}

// mode is a way to mount ttfs.
type mode struct {
	name    string
	flags   []string
	agent   string // the caller is this agent
	mayFail bool
}

// modes are the columns of ttfs. Those without a transport have the one that a user gets.
var modes = []mode{
	{name: "ttfs classic", flags: []string{"--transport", "classic"}},
	{name: "ttfs io_uring", flags: []string{"--transport", "uring"}, mayFail: true},
	{name: "ttfs, guard off", flags: []string{"--guard", "off"}},
	{name: "ttfs, guarded agent", agent: "worker"},
}

func (m mode) side(b *testing.B) (*side, error) {
	b.Helper()
	w, err := mount(b, m.flags...)
	if err != nil {
		return nil, err
	}
	if len(m.flags) == 2 && m.flags[0] == "--transport" && w.Status()["transport"] != m.flags[1] {
		return nil, fmt.Errorf("asked for %s, it serves over %s", m.flags[1], w.Status()["transport"])
	}
	s := &side{name: m.name, dir: w.Dir, ours: true, caller: startCaller(b, w, w.Dir, w.Path(".tt/ctl"))}
	if m.agent != "" {
		s.caller.register(w, m.agent)
	}
	return s, nil
}

// mount makes a workspace and mounts it, and says why it cannot. It ends with the benchmark.
func mount(b testing.TB, flags ...string) (*rig.Workspace, error) {
	b.Helper()
	w := rig.New(b)
	if got := w.TTFSIn("/", append(append([]string{"mount"}, flags...), w.Dir)...); got.Code != 0 {
		return nil, errors.New(strings.TrimPrefix(strings.TrimSpace(got.Stderr), "ttfs: "))
	}
	return w, nil
}

// mountMust is mount for what has to work.
func mountMust(b testing.TB, flags ...string) *rig.Workspace {
	b.Helper()
	w, err := mount(b, flags...)
	must(b, err)
	return w
}

// compare runs rounds of courses, in turn on every side.
func compare(b *testing.B, t *table, sides []*side, courses []string, rounds int) {
	b.Helper()
	for r := range rounds {
		for _, course := range courses {
			for i := range sides {
				s := sides[(i+r)%len(sides)]
				if s.lost {
					continue
				}
				rows, err := s.caller.ask(course, s.dir)
				for _, m := range rows {
					t.add(m.Row, s.name, m.Times)
				}
				if err == nil {
					continue
				}
				s.lost = true
				t.note("%s stopped at `%s`: %s", s.name, course, firstLine(err.Error()))
				if s.ours {
					b.Errorf("%s, %s: %v", s.name, course, err)
				}
			}
		}
	}
	b.ReportMetric(0, "ns/op") // of all sides together: means nothing
}

// peer is another filesystem over a directory.
type peer struct {
	name    string
	command func(program, back, mount, scratch string) []string
	find    func(b *testing.B) (string, error)
}

// peers are those that a Debian system has, and go-fuse's own example at the version that ttfs is built with.
var peers = []peer{
	{name: "overlayfs", find: func(*testing.B) (string, error) { return "mount", nil }, command: func(program, back, mount, scratch string) []string {
		return []string{program, "-t", "overlay", "-o", overlayOptions(back, scratch), "overlay", mount}
	}},
	{name: "go-fuse loopback", find: loopback, command: func(program, back, mount, _ string) []string {
		return []string{program, "-q", "-allow-other", "-directmount", mount, back}
	}},
	{name: "libfuse hp", find: inPath("passthrough_hp"), command: func(program, back, mount, _ string) []string {
		return []string{program, "--foreground", back, mount}
	}},
	{name: "fuse-overlayfs", find: inPath("fuse-overlayfs"), command: func(program, back, mount, scratch string) []string {
		return []string{program, "-f", "-o", overlayOptions(back, scratch), mount}
	}},
	{name: "bindfs", find: inPath("bindfs"), command: func(program, back, mount, _ string) []string {
		return []string{program, "-f", back, mount}
	}},
	{name: "unionfs-fuse", find: inPath("unionfs-fuse"), command: func(program, back, mount, scratch string) []string {
		return []string{program, "-f", "-o", "cow", back + "=RW:" + filepath.Join(scratch, "lower") + "=RO", mount}
	}},
}

func overlayOptions(back, scratch string) string {
	return "lowerdir=" + filepath.Join(scratch, "lower") + ",upperdir=" + back + ",workdir=" + filepath.Join(scratch, "work")
}

func inPath(name string) func(*testing.B) (string, error) {
	return func(*testing.B) (string, error) {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("there is no %s in PATH", name)
		}
		return path, nil
	}
}

// loopback builds go-fuse's example, from the version that go.mod names.
func loopback(b *testing.B) (string, error) {
	path := filepath.Join(os.Getenv(rig.EnvScratch), "loopback")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	out, err := exec.Command("go", "build", "-o", path, "github.com/hanwen/go-fuse/v2/example/loopback").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build it: %w: %s", err, out)
	}
	return path, nil
}

func (p peer) side(b *testing.B) (*side, error) {
	b.Helper()
	program, err := p.find(b)
	if err != nil {
		return nil, err
	}
	disk := rig.Disk(b)
	back, mount := filepath.Join(disk, "back"), filepath.Join(disk, "mount")
	for _, d := range []string{back, mount, filepath.Join(disk, "lower"), filepath.Join(disk, "work")} {
		must(b, os.Mkdir(d, 0o755))
	}
	args := p.command(program, back, mount, disk)
	stop, err := serve(args, mount)
	if err != nil {
		return nil, err
	}
	b.Cleanup(func() {
		if err := stop(); err != nil {
			b.Logf("%s: %v", p.name, err)
		}
	})
	return &side{name: p.name, dir: mount, caller: startCaller(b, rig.New(b), mount, "")}, nil
}

// serve starts a program and waits until dir is a mount. stop takes the mount away and waits for the program's end.
func serve(args []string, dir string) (stop func() error, err error) {
	said, err := os.CreateTemp("", "peer")
	if err != nil {
		return nil, err
	}
	defer said.Close()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", said, said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var over error
	mounted := poll(func() bool {
		if over == nil {
			select {
			case err := <-ended:
				over = errors.Join(errors.New("it ended"), err)
				ended <- err
			default:
			}
		}
		return isMount(dir) || over != nil
	})
	if !mounted || !isMount(dir) {
		_ = cmd.Process.Kill()
		words, _ := os.ReadFile(said.Name())
		return nil, fmt.Errorf("it does not mount: %s %w", firstLine(string(words)), over)
	}
	return func() error {
		err := unix.Unmount(dir, unix.MNT_DETACH)
		if !poll(func() bool { return len(ended) > 0 }) {
			return errors.Join(err, errors.New("it does not end"), cmd.Process.Kill())
		}
		return err
	}, nil
}

// isMount tells whether dir is on another filesystem than what it is in.
func isMount(dir string) bool {
	var in, out unix.Stat_t
	return unix.Stat(dir, &in) == nil && unix.Stat(filepath.Dir(dir), &out) == nil && in.Dev != out.Dev
}
