package integration

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// supervised mounts the classic way, with a supervisor.
func supervised(t *testing.T) (*rig.Workspace, int) {
	t.Helper()
	w := rig.NewMounted(t, "--transport", "classic")
	pid := w.Supervisor()
	if pid == 0 {
		t.Fatal("the daemon has no supervisor")
	}
	return w, pid
}

func ended(t *testing.T, what string, pid int) {
	t.Helper()
	rig.Eventually(t, what+" to end", func() bool { return !rig.Alive(pid) })
}

// TestSupervisorEnds: with the mount, on being told, and not at all where it could do nothing.
func TestSupervisorEnds(t *testing.T) {
	w, keeper := supervised(t)
	w.KillDaemon()
	w.Unmount()
	ended(t, "the supervisor of what was unmounted", keeper)

	w, keeper = supervised(t)
	daemon := w.Daemon()
	if err := syscall.Kill(keeper, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended(t, "a supervisor that was told to", keeper)
	ended(t, "its daemon", daemon)
	if w.Mounted() {
		t.Error("it is mounted still")
	}

	w = rig.NewMounted(t, "--transport", "classic", "--supervise", "off")
	if keeper := w.Supervisor(); keeper != 0 {
		t.Errorf("a daemon that is to have no supervisor has %d", keeper)
	}
}

// TestSupervisedConfig: the next daemon goes by what the first one read, and does not look at the file, which may be below the
// mount, and be something else by now.
func TestSupervisedConfig(t *testing.T) {
	w := rig.New(t)
	w.Sh(`echo 'guard = "off"' >conf.toml`).OK()
	w.Mount("--transport", "classic", "--config", w.Path("conf.toml"))
	w.Sh(`echo 'nothing = "of it"' >conf.toml; echo 'guard = "on"' >.ttfs.toml`).OK()
	w.KillDaemon()
	if got := w.Status()["guard"]; got != "off" {
		t.Errorf("the guard is %q", got)
	}
	for _, want := range []string{"on", "off"} { // what was said since counts more
		w.Must("guard " + want)
		w.KillDaemon()
		if got := w.Status()["guard"]; got != want {
			t.Errorf("switched to %s, after a death the guard is %q", want, got)
		}
	}
	w.Unmount()
}

// TestNamesAfterADeath: what changed while no daemon could tell the kernel of it, as a move that the next one completes, is seen at once.
func TestNamesAfterADeath(t *testing.T) {
	w, below := under(t, "--transport", "classic")
	w.Sh("echo old >open/gone; test ! -e open/came; test -e open/gone").OK()
	if err := errors.Join(os.WriteFile(below+"/open/came", []byte("came"), 0o644), os.Remove(below+"/open/gone")); err != nil {
		t.Fatal(err)
	}
	w.KillDaemon()
	w.Sh("test -e open/came; test ! -e open/gone").OK()
}

// TestSupervisorKilled: the daemon goes on alone; its death is then the mount's.
func TestSupervisorKilled(t *testing.T) {
	w, keeper := supervised(t)
	if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended(t, "the supervisor", keeper)
	w.Sh(`echo alone >f; exec 3>>f; rm f; echo more >&3; echo again >f; cat f`).OK()
	w.Kill()
	if _, err := os.ReadFile(w.Path("f")); err == nil {
		t.Error("a mount without a daemon and a supervisor is read")
	}
	w.Bury()
	if b, err := os.ReadFile(w.Path("f")); err != nil || string(b) != "again\n" {
		t.Errorf("f holds %q, %v", b, err)
	}
}

// TestSupervisorGivesUp: where no daemon can go on, the mount ends, who waits gets an error, and the log says what to do.
func TestSupervisorGivesUp(t *testing.T) {
	w, keeper := supervised(t)
	w.Sh(`echo kept >f`).OK()
	w.Unmount()
	ended(t, "the first supervisor", keeper)
	lock, err := os.OpenFile(w.Path(".tt/lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	w.Mount("--transport", "classic")
	keeper = w.Supervisor()
	taken := make(chan error, 1)
	// When the daemon dies, somebody else has its store.
	go func() { taken <- syscall.Flock(int(lock.Fd()), syscall.LOCK_EX) }()
	rig.Eventually(t, "somebody to wait for the lock", func() bool {
		b, err := os.ReadFile("/proc/locks")
		return err == nil && strings.Contains(string(b), "-> FLOCK")
	})
	if err := syscall.Kill(w.Daemon(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(w.Path("not/looked/up")); err == nil {
		t.Error("something is there")
	}
	ended(t, "a supervisor that can do nothing", keeper)
	if w.Mounted() {
		t.Fatal("it is mounted still")
	}
	log, err := os.ReadFile(w.Path(".tt/daemon.log"))
	if err != nil || !strings.Contains(string(log), "Mount it again with `ttfs mount") {
		t.Errorf("the log does not say what to do: %v\n%s", err, log)
	}
	if b, err := os.ReadFile(w.Path("f")); err != nil || string(b) != "kept\n" {
		t.Errorf("f holds %q, %v", b, err)
	}
	lock.Close()
	w.Mount("--transport", "classic")
}
