package integration

import (
	"os"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// orphan is seen by the daemon, loses its parent, and says who it is when it is told to.
const orphan = `
import os, sys, time
work, said = sys.argv[1], sys.argv[2]
parent = os.getpid()
if os.fork():
    while not os.path.exists(said + ".known"): time.sleep(0.01)
    os._exit(0)
os.setsid()
open(work + "/f").read()
open(said + ".known", "w").close()
while os.getppid() == parent: time.sleep(0.01)
open(said + ".seen", "w").close()
for _ in range(6000):
    if os.path.exists(said + ".go"): break
    time.sleep(0.01)
who = open(work + "/.tt/status").read()
open(said + ".new", "w").write(who)
os.rename(said + ".new", said)
`

// TestAgentsOverRestart: who is registered stays who it is when the daemon is started anew, killed or not: the shell, what
// it starts later, and, after an unmount, a child whose parents have died. Who has ended stays ended.
func TestAgentsOverRestart(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"kill", "unmount"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := mounted(t)
			put(t, w, "f", "from the user\n")
			said := w.Dir + ".said"
			sh := w.Shell("/")
			whoIs := func() string { return strings.TrimSpace(sh.Say("grep ^agent= " + w.Path(".tt/status"))) }
			sh.Say("echo 'agent a' > " + w.Path(".tt/ctl"))
			sh.Say(os.Getenv(rig.EnvPython) + " -c '" + orphan + "' " + w.Dir + " " + said + " > /dev/null 2>&1")
			rig.Eventually(t, "the orphan", func() bool { return exists(said + ".seen") })
			if how == "kill" {
				w.Kill()
				w.Bury()
			} else {
				w.Unmount()
			}
			w.Mount()
			if got := whoIs(); got != "agent=a" {
				t.Errorf("the registered shell's child is %q", got)
			}
			if err := os.WriteFile(said+".go", nil, 0o644); err != nil {
				t.Fatal(err)
			}
			rig.Eventually(t, "the orphan's word", func() bool { return exists(said) })
			// What became known of descent in the last 20 s before a kill is not kept.
			if b, err := os.ReadFile(said); err != nil || how == "unmount" && !strings.Contains(string(b), "agent=a\n") {
				t.Errorf("the orphan is %q, %v", b, err)
			}
			if got := w.Status()["agent"]; got != "user" {
				t.Errorf("the test itself is %s", got)
			}
			sh.Say("echo end > " + w.Path(".tt/ctl"))
			w.Kill()
			w.Bury()
			w.Mount()
			if got := whoIs(); got != "agent=user" {
				t.Errorf("after its end, the shell is %q", got)
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
