package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestConfig: what .ttfs.toml says counts from the next mount on, flags beat it, and --config names another.
func TestConfig(t *testing.T) {
	w := rig.New(t)
	put(t, w, ".ttfs.toml", "guard = \"off\"\n[classes]\ntemp = [\"out/\"]\n")
	w.Mount()
	if got := w.Status()["guard"]; got != "off" {
		t.Errorf("guard=%s, the file says off", got)
	}
	put(t, w, ".ttfs.toml", "known = [\"mybot\"]\n[classes]\ntemp = [\"out/\"]\n")
	if got := w.Status()["guard"]; got != "off" {
		t.Errorf("guard=%s: the file was read again", got)
	}
	w.Unmount()
	w.Mount()
	if got := w.Status()["guard"]; got != "on" {
		t.Errorf("guard=%s after the next mount", got)
	}
	// What the kernel knows a process by is the name of its file: a shell called mybot is an agent of that name.
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	bot := filepath.Join(rig.Disk(t), "mybot")
	if err := os.WriteFile(bot, shell, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := w.Sh(bot + " -c 'cat .tt/status; :'").OK().Stdout; !strings.Contains(got, "agent=mybot-") {
		t.Errorf("a known program is told:\n%s", got)
	}
	w.Sh("mkdir out && echo 1 > out/f").OK()
	a, b := agent(t, w, "a"), agent(t, w, "b")
	a.Say("cat out/f")
	b.Say("echo 2 > out/f")
	if out := a.Say("echo 3 > out/f; echo exit=$?"); !strings.Contains(out, "exit=0") {
		t.Errorf("a file of the class TEMP: %s", out)
	}
	a.Say("cd /")
	b.Say("cd /")
	w.Unmount()

	put(t, w, ".ttfs.toml", "guard = \"off\"\n")
	w.Mount("--guard", "on")
	if got := w.Status()["guard"]; got != "on" {
		t.Errorf("guard=%s: the flag is to beat the file", got)
	}
	w.Unmount()

	other := filepath.Join(rig.Disk(t), "other.toml")
	if err := os.WriteFile(other, []byte("# nothing\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.Mount("--config", other)
	if got := w.Status()["guard"]; got != "on" {
		t.Errorf("guard=%s: the workspace's own file was read beside --config", got)
	}
	w.Unmount()

	put(t, w, ".ttfs.toml", "\nguards = \"off\"\n")
	for _, flags := range [][]string{nil, {"--foreground"}} {
		r := w.TTFSIn("/", append(append([]string{"mount"}, flags...), w.Dir)...)
		if r.Code == 0 || !strings.Contains(r.Stderr, ".ttfs.toml:2") || !strings.Contains(r.Stderr, "guards") || !strings.Contains(r.Stderr, "blind = ") {
			t.Errorf("%v: a key that is not known: %s", flags, r)
		}
	}
	if w.Mounted() {
		t.Error("it mounted all the same")
	}
}
