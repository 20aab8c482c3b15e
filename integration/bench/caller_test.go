package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
)

// What the caller is told by its environment.
const (
	envCaller = "TTFS_BENCH_CALLER" // set: be a caller
	envMount  = "TTFS_BENCH_MOUNT"  // the mount that the side stands on, "" for the bare disk
	envCtl    = "TTFS_BENCH_CTL"    // .tt/ctl, "" where there are no tasks
	envAssets = "TTFS_BENCH_ASSETS" // what jobs work with
)

// A request is a line of JSON on the caller's standard input, its answer one on the standard output.
type request struct {
	// Course is one of the courses, or busy, idle, command, delay or write.
	Course string
	// Parent is a directory: a fresh one is made in it. Of command it is the line.
	Parent string
}

type answer struct {
	Rows []measured
	Err  string
}

type measured struct {
	Row   string
	Times []time.Duration
}

// step is one part of a course. Without a row it prepares, and is not timed.
type step struct {
	row string
	// sameTask: no task begins before this step.
	sameTask bool
	run      func(c *caller, dir string) ([]time.Duration, error)
}

type course struct {
	name    string
	steps   []step
	seconds bool // it takes that long
}

// caller is this process, on one side.
type caller struct {
	size
	mount, ctl, assets string
	echo               *echo // nil until it is asked
}

func callerMain() int {
	// A collection while a call is timed would be measured with it.
	debug.SetGCPercent(-1)
	c := &caller{size: sizes(), mount: os.Getenv(envMount), ctl: os.Getenv(envCtl), assets: os.Getenv(envAssets)}
	all := map[string]course{}
	for _, one := range append(callCourses(c.size), jobCourses()...) {
		all[one.name] = one
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var busy *busyAgent
	for {
		var q request
		if err := in.Decode(&q); err != nil {
			return 0 // the parent is done
		}
		var a answer
		var err error
		switch {
		case q.Course == "busy":
			busy = startBusy(c, q.Parent)
		case q.Course == "idle":
			a.Rows, err = busy.stop()
		case q.Course == "command":
			var times []time.Duration
			timed(&times, func() { _, err = c.command(q.Parent) })
			a.Rows = []measured{{"command", times}}
		case q.Course == "delay":
			var times []time.Duration
			times, err = c.delay()
			a.Rows = []measured{{"delay", times}}
		case q.Course == "replace":
			var times []time.Duration
			timed(&times, func() { err = c.replace(q.Parent) })
			a.Rows = []measured{{"replace", times}}
		case q.Course == "write":
			err = c.rewrite(q.Parent)
		default:
			a.Rows, err = c.run(all[q.Course], q.Parent)
		}
		if err != nil {
			a.Err = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return 1
		}
		debug.FreeOSMemory()
	}
}

// run is one round of a course.
func (c *caller) run(one course, parent string) ([]measured, error) {
	if len(one.steps) == 0 {
		return nil, errors.New("no such course")
	}
	dir, err := os.MkdirTemp(parent, "round")
	if err != nil {
		return nil, err
	}
	var rows []measured
	for _, s := range one.steps {
		if !s.sameTask {
			if err := c.task(one.name); err != nil {
				return rows, err
			}
		}
		times, err := s.run(c, dir)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", s.row, err)
		}
		if s.row != "" {
			rows = append(rows, measured{s.row, times})
		}
	}
	return rows, nil
}

// task begins one, where there are tasks.
func (c *caller) task(title string) error {
	_, err := c.command("task " + title)
	return err
}

// command writes to .tt/ctl and reads the reply.
func (c *caller) command(line string) (string, error) {
	if c.ctl == "" {
		return "", nil
	}
	f, err := os.OpenFile(c.ctl, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, wrote := f.WriteString(line)
	reply, err := io.ReadAll(f)
	if wrote != nil {
		return string(reply), fmt.Errorf("%s: %w: %s", line, errors.Unwrap(wrote), firstLine(string(reply)))
	}
	return string(reply), err
}

// callerProcess is the other end.
type callerProcess struct {
	cmd *exec.Cmd
	in  *json.Encoder
	out *json.Decoder
	end func()
}

// startCaller starts one with its current directory at /. It ends with the benchmark.
func startCaller(b testing.TB, w *rig.Workspace, mount, ctl string) *callerProcess {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	self, err := os.Executable()
	must(b, err)
	cmd := w.Command(ctx, "/", self)
	cmd.Env = append(cmd.Env, envCaller+"=1", envMount+"="+mount, envCtl+"="+ctl, envAssets+"="+assetsDir(), envBench+"="+os.Getenv(envBench))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(b, err)
	out, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	p := &callerProcess{cmd: cmd, in: json.NewEncoder(in), out: json.NewDecoder(bufio.NewReader(out))}
	p.end = func() { in.Close(); cancel(); _ = cmd.Wait() }
	b.Cleanup(p.end)
	return p
}

// ask has the caller do one round of a course below parent.
func (p *callerProcess) ask(course, parent string) ([]measured, error) {
	if err := p.in.Encode(request{course, parent}); err != nil {
		return nil, err
	}
	var a answer
	if err := p.out.Decode(&a); err != nil {
		return nil, fmt.Errorf("the caller ended: %w", err)
	}
	if a.Err != "" {
		return a.Rows, errors.New(a.Err)
	}
	return a.Rows, nil
}

// register makes the caller, and all that it starts, an agent of the workspace.
func (p *callerProcess) register(w *rig.Workspace, name string) {
	w.Must(fmt.Sprintf("agent %s pid=%d", name, p.cmd.Process.Pid))
}

func assetsDir() string { return filepath.Join(os.Getenv(rig.EnvDisk), "assets") }

// firstLine is what of a message fits into a note below a table.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if len(line) > 160 {
		line = line[:160] + "..."
	}
	return line
}
