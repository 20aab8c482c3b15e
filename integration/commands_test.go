package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestCommandsDoNotWaitForOthers gives commands while an undo of many files is under way that another process gave through the
// same `.tt/ctl`: they are answered meanwhile. The kernel lets one write at a time to an inode.
func TestCommandsDoNotWaitForOthers(t *testing.T) {
	w := mounted(t)
	many, few := agent(t, w, "many"), agent(t, w, "few")
	all := "for i in $(seq 3000); do echo %d > many/$i; done; echo ok"
	many.Say("mkdir many; " + fmt.Sprintf(all, 1))
	many.Say("echo 'task again' > .tt/ctl; " + fmt.Sprintf(all, 2))
	undone, begins := make(chan string), filepath.Join(t.TempDir(), "begins")
	go func() { undone <- many.Say("echo > " + begins + "; echo undo > .tt/ctl && cat many/1 many/3000") }()
	rig.Eventually(t, "the undo begins", func() bool { _, err := os.Stat(begins); return err == nil })
	for meanwhile := 0; ; meanwhile++ {
		select {
		case got := <-undone:
			if got != "1\n1" {
				t.Errorf("after the undo the files are %q", got)
			}
			if meanwhile < 100 {
				t.Errorf("while 3000 files were taken back another agent began %d tasks", meanwhile)
			}
			return
		default:
			if got := few.Say("echo 'task short' > .tt/ctl && echo ok"); got != "ok" {
				t.Fatalf("task: %s", got)
			}
		}
	}
}
