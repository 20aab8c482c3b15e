package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
	"github.com/ttfs/ttfs/integration/treecmp"
)

// crashRounds is 30, and 1000 when TTFS_NIGHTLY=1.
func crashRounds() int {
	if os.Getenv("TTFS_NIGHTLY") == "1" {
		return 1000
	}
	return 100
}

// TestKillAnywhere kills the daemon at a random instant under a writer that
// logs each change when it was acknowledged, again and again. After every
// remount the tree is what the writer was told, give or take the one change
// that was under way; and the history is whole: back to 0 is exactly the start,
// forward is exactly the end.
func TestKillAnywhere(t *testing.T) {
	t.Parallel()
	const seed = 11
	random := rand.New(rand.NewPCG(seed, 0))
	w := rig.New(t)
	twin := rig.New(t) // the same changes on the bare disk: what the tree must be
	for _, side := range []*rig.Workspace{w, twin} {
		side.Python(crashWriter, "start").OK()
	}
	w.Mount()
	start := w.Snapshot()
	done := 0 // changes that the tree holds
	rounds := crashRounds()
	for round := range rounds {
		w.Task(fmt.Sprintf("round %d", round))
		acked := killUnderWriter(t, w, random, done)
		w.Mount()
		done = settle(t, w, twin, done, acked, round)
		if round%10 == 9 || round == rounds-1 {
			end, last := w.Snapshot(), w.Active()
			w.Must("switch 0")
			w.Same(fmt.Sprintf("round %d (seed %d): back at 0", round, seed), start)
			w.Must("switch " + itoa(last))
			w.Same(fmt.Sprintf("round %d (seed %d): forward again", round, seed), end)
		}
	}
	if done < rounds {
		t.Errorf("%d changes in %d rounds: the writer hardly ran", done, rounds)
	}
	w.Unmount()
	w.TTFS("fsck").OK()
}

// killUnderWriter runs the writer from its change number from, kills the daemon
// somewhere in it and returns how many changes in all were acknowledged.
func killUnderWriter(t *testing.T, w *rig.Workspace, random *rand.Rand, from int) (acked int) {
	t.Helper()
	log := w.Dir + ".log"
	_ = os.Remove(log)
	cmd := w.Command(t.Context(), w.Dir, os.Getenv(rig.EnvPython), "-c", crashWriter, "run", itoa(from), itoa(from+100000), log)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	goal := random.IntN(60)
	moment := time.Duration(random.IntN(4000)) * time.Microsecond
	rig.Eventually(t, "the writer's first changes", func() bool { return lines(log) > goal })
	spin(moment)
	select {
	case err := <-ended:
		t.Fatalf("the writer ended while the daemon was alive: %v: %s", err, said.String())
	default:
	}
	w.Kill()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("the writer: %v: %s", err, said.String())
		}
	case <-time.After(rig.CommandLimit):
		_ = cmd.Cancel()
		t.Fatalf("the writer hangs on a mount whose daemon was killed")
	}
	w.Bury()
	return from + lines(log)
}

// settle finds out whether the change under way was made, and returns how many
// changes the tree holds.
func settle(t *testing.T, w, twin *rig.Workspace, from, acked, round int) int {
	t.Helper()
	got := w.Snapshot().WithoutTimes()
	var reports []string
	for _, n := range []int{acked, acked + 1} {
		twin.Python(crashWriter, "run", itoa(from), itoa(n), os.DevNull).OK()
		from = n
		report := treecmp.Report(twin.Snapshot().WithoutTimes(), got)
		if report == "" {
			return n
		}
		reports = append(reports, report)
	}
	t.Fatalf("round %d: after the crash the tree is neither at change %d:\n%s\nnor at %d:\n%s",
		round, acked, reports[0], acked+1, reports[1])
	return 0
}

// TestKillDuringMove kills the daemon in the middle of undo, redo and switch:
// at the next mount the move is completed or was not begun, and the tree is
// that of the task that is active.
func TestKillDuringMove(t *testing.T) {
	t.Parallel()
	const seed = 12
	random := rand.New(rand.NewPCG(seed, 0))
	w := rig.NewMounted(t)
	states := map[int]treecmp.Tree{0: w.Snapshot()}
	ids := []int{0}
	for i, script := range []string{
		`for i in $(seq 150); do echo $i >f$i; done; mkdir d; cp f* d; ln f1 hard; head -c 3000000 /dev/zero | tr '\0' x >big`,
		`for i in $(seq 150); do echo two >>f$i; done; rm -rf d; mkdir d; echo new >d/only; printf y | dd of=big bs=1 seek=1000000 conv=notrunc status=none`,
		`rm f1*; mkdir f1; cp f2* f1; rm big; mkdir big; chmod 700 f2*; rm hard; ln f30 hard`,
	} {
		id := w.Task(fmt.Sprintf("step %d", i))
		w.Sh(script).OK()
		ids, states[id] = append(ids, id), w.Snapshot()
	}
	limit := 4 * time.Millisecond
	for round := range 12 {
		from := w.Active()
		to := ids[random.IntN(len(ids))]
		cmd := w.Command(t.Context(), "/", "sh", "-c", `echo "switch $1" >"$2"`, "sh", itoa(to), w.Path(".tt/ctl"))
		began := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		spin(time.Duration(random.Int64N(int64(limit))))
		w.Kill()
		err := cmd.Wait()
		if took := time.Since(began); err == nil && took > limit {
			limit = took // it got through: a longer range of instants
		} else if err != nil {
			limit += limit / 2
		}
		w.Bury()
		w.Mount()
		now := w.Active()
		if now != from && now != to {
			t.Fatalf("round %d (seed %d): from %d to %d, and after the crash the active task is %d", round, seed, from, to, now)
		}
		if err == nil && now != to {
			t.Fatalf("round %d (seed %d): the move to %d was acknowledged, but the active task is %d", round, seed, to, now)
		}
		w.Same(fmt.Sprintf("round %d (seed %d): killed while moving from %d to %d, active %d", round, seed, from, to, now), states[now])
	}
	for _, id := range ids {
		w.Must("switch " + itoa(id))
		w.Same("at last, switch "+itoa(id), states[id])
	}
	w.Unmount()
	w.TTFS("fsck").OK()
}

// spin waits for an instant in the middle of something else, which is the point
// of these tests; sleeping would be too coarse.
func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

func lines(path string) int {
	b, _ := os.ReadFile(path)
	return strings.Count(string(b), "\n")
}
