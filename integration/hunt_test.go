package integration

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
)

// huntMain is the second half: tasks of random operations, a fork beside them, and moves, kills, merges and remounts between.
const huntMain = `
def dropheld():
  for held, maps in HELD.values():
    for fd in held:
        try: os.close(fd)
        except OSError: pass
    held.clear()
    for m in maps:
        try: m.close()
        except Exception: pass
    maps.clear()
def mount(): subprocess.run([TTFS, "mount", *FLAGS, WS], check=True, cwd="/")
def kill():
    pid = int(status()["pid"]); os.kill(pid, 9)
    try:
        while open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[0] != "Z": time.sleep(.01)
    except (FileNotFoundError, ProcessLookupError): pass # whose child it was has taken note
    dropheld(); subprocess.run(["umount", "-l", WS], check=True); mount()
os.makedirs(WS, exist_ok=True)
os.umask(0o022)
for i in range(12): 
    p = os.path.join(WS, name())
    try:
        if R.random() < .3: os.mkdir(p); open(p + "/in", "wb").write(data())
        else: open(p, "wb").write(data())
    except OSError: pass
mount()
snaps = {0: snap()}; cur = 0; parents = {}; bad = 0; moves = 0
fork = None; forksnap = None
def settle():
    # what is written through a mapping or a held descriptor up to here is of the task that ends here
    snaps[int(status()["task"])] = snap()
for step in range(STEPS):
    r = R.random()
    t = int(cmd("task step %d" % step).split()[1])
    for _ in range(R.randrange(1, 25)): op(WS)
    settle()
    if fork and R.random() < .7:
        if not same(forksnap, snap(fork), "fork after parent's task %d" % t): bad += 1; break
    if fork and R.random() < .5:
        for _ in range(R.randrange(1, 15)): op(fork)
        forksnap = snap(fork)
        if not same(snaps[t], snap(), "parent after fork's ops"): bad += 1; break
    if not fork and R.random() < .25 and not HELD[True][0] and not HELD[True][1]:
        nm = "k%d" % step; cmd("fork " + nm); fork = WS + "/.tt/forks/%s/tree" % nm; forkname = nm
        forksnap = snap(fork)
        if not same(snaps[t], forksnap, "a new fork"): bad += 1; break
    elif fork and R.random() < .2:
        if R.random() < .4:
            rep = cmd("merge " + forkname + R.choice(["", " force=mine", " force=theirs"]), ok=False)
            if rep and int(status()["task"]) != t: # a merge of nothing makes no task
                snaps[int(status()["task"])] = snap()
                cmd("undo"); moves += 1
                if not same(snaps[t], snap(), "undo of a merge"): bad += 1; break
        else:
            dropheld(); cmd("discard " + forkname + " force"); fork = None
    if r < .55:
        for _ in range(R.randrange(1, 4)):
            to = R.choice(list(snaps)) if R.random() < .7 else 0
            cmd("switch %d" % to); moves += 1
            got = snap()
            if not same(snaps[to], got, "switch from %d to %d at step %d" % (t, to, step)): bad += 1; break
        if bad: break
    if fork and R.random() < .4 and not same(forksnap, snap(fork), "fork after moves"): bad += 1; break
    if R.random() < .12:
        here = snap(); at = int(status()["task"])
        if R.random() < .5: kill()
        else:
            dropheld(); subprocess.run([TTFS, "unmount", WS], check=True, cwd="/")
            mount()
        if not same(here, snap(), "remount"): bad += 1; break
        if fork and not same(forksnap, snap(fork), "fork after remount"): bad += 1; break
dropheld()
if not bad:
    for to in R.sample(list(snaps), min(12, len(snaps))):
        cmd("switch %d" % to); moves += 1
        if not same(snaps[to], snap(), "at the end: switch to %d" % to): bad += 1; break
subprocess.run([TTFS, "unmount", "--lazy", WS] if bad else [TTFS, "unmount", WS], cwd="/")
if not bad:
    r = subprocess.run([TTFS, "--workspace", WS, "fsck"], capture_output=True, text=True, cwd="/")
    if r.returncode: print("SEED", SEED, "FSCK", r.stdout[:2000], r.stderr[:500]); bad += 1
print("seed", SEED, "ops", sum(count.values()), "tasks", len(snaps), "moves", moves, "bytes", compared, "BAD" if bad else "ok", "" if not bad else count)
sys.exit(1 if bad else 0)
`

// TestHunt looks for a lost byte, as somebody would who wants ttfs to lose one: random operations with real system calls, odd ones among
// them (held and mapped files written over the borders of tasks, O_TMPFILE, exchange, ranges, hard links, files that become directories,
// devices, ACLs), with descriptors and mappings that stay open over undo, forks that must not change behind their parent's, merges,
// kill -9 and remounts. The tree is compared whole with what it was at the end of each task that a move goes to.
func TestHunt(t *testing.T) {
	t.Parallel()
	seeds, steps, from := 2, 8, 1
	if os.Getenv("TTFS_NIGHTLY") == "1" {
		seeds, steps, from = 150, 40, 1000+int(time.Now().Unix()%math.MaxInt16)*1000
	}
	count := map[string]int{}
	for seed := from; seed < from+seeds && !t.Failed(); seed++ {
		w := rig.New(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		args := []string{"-c", huntOps + huntMain, os.Getenv(rig.EnvBinary), w.Dir, itoa(seed), itoa(steps)}
		out, err := w.Command(ctx, "/", os.Getenv(rig.EnvPython), args...).CombinedOutput()
		cancel()
		if err != nil || strings.Contains(string(out), "UNEXPECTED") {
			t.Errorf("seed %d: %v\n%s", seed, err, out)
		}
		fields := strings.Fields(string(out))
		for i := range len(fields) - 1 {
			var n int
			if _, err := fmt.Sscan(fields[i+1], &n); err == nil && n > 0 {
				count[fields[i]] += n
			}
		}
	}
	t.Logf("checked: %d operations in %d tasks, %d moves, %d bytes compared, from seed %d on", count["ops"], count["tasks"], count["moves"], count["bytes"], from)
	if count["ops"] < seeds*steps {
		t.Errorf("%d operations: it hardly ran", count["ops"])
	}
}
