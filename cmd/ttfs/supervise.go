package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/ttfs/ttfs/fs/estate"
	"golang.org/x/sys/unix"
)

// Names of a supervisor in ps, by which `ttfs unmount` knows it: of one that starts another daemon, and of one that does not.
const (
	keeperName  = "ttfs-keep"
	watcherName = "ttfs-watch"
)

// keeperFD is the descriptor of the socket to the supervisor in a daemon; what the supervisor has kept follows.
const keeperFD = 4

const (
	// mostUnborn is how many daemons in a row may end before they serve, mostDeaths how many may die within deathWindow: then the
	// mount ends. What kills every daemon would go on for ever.
	mostUnborn  = 3
	mostDeaths  = 100
	deathWindow = time.Minute
)

// A supervisor is the daemon's parent. It keeps /dev/fuse and the estate, and starts another daemon when one dies. It reads
// and writes nothing of the mount, and knows nothing of what it keeps but the names. Where no daemon can follow, it keeps
// nothing, and ends the connection when the daemon dies.
type supervisor struct {
	args []string // of a daemon
	dir  string

	mu     sync.Mutex
	kept   map[string]*os.File // +checklocks:mu
	child  *os.Process         // +checklocks:mu
	said   map[string]bool     // +checklocks:mu by the child that lives
	asked  bool                // +checklocks:mu to end
	served bool                // +checklocks:mu once
	alone  bool                // +checklocks:mu no daemon follows
	mount  mountID             // +checklocks:mu what the daemon serves
}

// supervised says whether a daemon gets a supervisor.
func (o mountOptions) supervised() bool {
	return cmp.Or(o.supervise, os.Getenv("TTFS_SUPERVISE"), "auto") != "off"
}

// takeKeeper takes what a daemon has from its supervisor; nil: it has none.
func (o mountOptions) takeKeeper() (*estate.Keeper, error) {
	if o.keeper == 0 {
		return nil, nil
	}
	unix.CloseOnExec(o.keeper)
	for _, fd := range o.left {
		unix.CloseOnExec(fd)
	}
	return estate.NewKeeper(o.keeper, maps.Clone(o.left))
}

func newSupervise() *cobra.Command {
	return &cobra.Command{
		Use: "supervise DIR ARGS...", Short: "start a daemon, and another when it is killed", Hidden: true, DisableFlagParsing: true,
		Args: cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return runSupervise(args[0], args[1:]) },
	}
}

func runSupervise(dir string, args []string) error {
	if err := closeStray(); err != nil {
		return failed("mount "+dir, err, "")
	}
	_ = os.WriteFile("/proc/self/comm", []byte(keeperName), 0)
	s := &supervisor{args: args, dir: dir, kept: map[string]*os.File{}}
	signal.Ignore(syscall.SIGHUP)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for got := range signals {
			s.mu.Lock()
			s.asked = true
			if s.child != nil {
				_ = s.child.Signal(got) // it unmounts; it may have ended
			}
			s.mu.Unlock()
		}
	}()
	ready := os.NewFile(readyFD, "ready")
	out := os.Stdout
	unborn := 0
	var deaths []time.Time
	for {
		why, again := s.life(ready, out)
		if !again {
			return why
		}
		ready, out = nil, nil
		now := time.Now()
		deaths = append(slices.DeleteFunc(deaths, func(t time.Time) bool { return now.Sub(t) > deathWindow }), now)
		if unborn++; s.has(estate.Serving) {
			unborn = 0
		}
		switch {
		case s.isAsked():
			return s.giveUp("it was told to end")
		case unborn >= mostUnborn:
			return s.giveUp(fmt.Sprintf("%d daemons in a row ended before they served; the last: %v", unborn, why))
		case len(deaths) >= mostDeaths:
			return s.giveUp(fmt.Sprintf("%d daemons died within %v; the last: %v", len(deaths), deathWindow, why))
		}
	}
}

// life starts a daemon and waits for its end. again: another is to follow.
func (s *supervisor) life(ready, out *os.File) (why error, again bool) {
	first := ready != nil
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return failed("mount "+s.dir, err, ""), !first
	}
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "keeper")
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Dir = []string{"ttfs", "mount", "--keeper", strconv.Itoa(keeperFD)}, "/"
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		theirs.Close()
		return failed("mount "+s.dir, err, ""), !first
	}
	defer null.Close()
	s.mu.Lock()
	s.said = map[string]bool{}
	if ready == nil {
		ready = null
	}
	if out == nil {
		if out = s.kept[estate.NameLog]; out == nil {
			out = null
		}
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.ExtraFiles = []*os.File{ready, theirs}
	var left []string
	for name, f := range s.kept {
		left = append(left, name+"="+strconv.Itoa(3+len(cmd.ExtraFiles)))
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	if len(left) > 0 {
		cmd.Args = append(cmd.Args, "--left", strings.Join(left, ","))
	}
	cmd.Args = append(cmd.Args, s.args...)
	err = cmd.Start()
	if err == nil {
		s.child = cmd.Process
	}
	s.mu.Unlock()
	theirs.Close()
	if err != nil {
		return failed("start the daemon of "+s.dir, err, ""), !first
	}
	if first {
		s.letGo(null)
	}
	heard := make(chan struct{})
	go func() { defer close(heard); s.listen(pair[0]) }()
	end := waitFor(cmd, heard, s.endConnection)
	<-heard // what it said before it died counts
	s.mu.Lock()
	defer s.mu.Unlock()
	s.child = nil
	switch {
	case end == nil || s.said[estate.Over]:
		return nil, false
	case s.served && s.alone:
		err := fmt.Errorf("the daemon of %s has died (%w), and its mount with it; mount it again with `ttfs mount %s`", s.dir, end, quoteArg(s.dir))
		if log := s.kept[estate.NameLog]; log != nil {
			fmt.Fprintf(log, "time=%s level=ERROR msg=%q\n", time.Now().Format(time.RFC3339), err)
		}
		return err, false
	case !s.served || s.kept[estate.NameFuse] == nil:
		var status *exec.ExitError
		if errors.As(end, &status) && status.ExitCode() > 0 {
			os.Exit(status.ExitCode()) // it has said why
		}
		return end, false
	}
	return end, true
}

// letGo lets the pipes of who started it go.
func (s *supervisor) letGo(null *os.File) {
	for _, fd := range []int{0, 1, 2, readyFD} {
		_ = unix.Dup3(int(null.Fd()), fd, 0) // descriptors that are open, onto one that is
	}
	unix.CloseOnExec(readyFD)
}

// listen does what a daemon says until it is gone.
func (s *supervisor) listen(socket int) {
	for {
		r, err := estate.Receive(socket)
		if err != nil {
			return
		}
		s.mu.Lock()
		switch {
		case r.Keep != "":
			if old := s.kept[r.Keep]; old != nil {
				old.Close()
			}
			if f := os.NewFile(uintptr(r.FD), r.Keep); len(s.kept) < estate.MostKept {
				s.kept[r.Keep] = f
			} else {
				f.Close()
			}
		case r.Drop != "":
			if f := s.kept[r.Drop]; f != nil {
				f.Close()
				delete(s.kept, r.Drop)
			}
		case r.Say == estate.Alone:
			s.alone = true
			_ = os.WriteFile("/proc/self/comm", []byte(watcherName), 0)
		default:
			if r.Say == estate.Serving {
				s.mount, _ = mountIDOf(s.dir) // without it, nothing is ended
			}
			s.said[r.Say] = true
			s.served = s.served || r.Say == estate.Serving
		}
		s.mu.Unlock()
	}
}

func (s *supervisor) has(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said[what]
}

func (s *supervisor) isAsked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// giveUp ends the mount: who waits for an answer gets an error, and the directory is an ordinary one again.
func (s *supervisor) giveUp(why string) error {
	s.mu.Lock()
	for name, f := range s.kept {
		f.Close()
		delete(s.kept, name)
	}
	s.mu.Unlock()
	err := detach(s.dir, true)
	text := fmt.Sprintf("the mount of %s has ended: %s; nothing of the workspace is lost. Mount it again with `ttfs mount %s`", s.dir, why, quoteArg(s.dir))
	if err != nil {
		text += fmt.Sprintf(" (it could not be taken away: %v; do it as root: umount -l %s)", err, quoteArg(s.dir))
	}
	if log, e := os.OpenFile(filepath.Join(s.dir, ".tt", "daemon.log"), os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0); err == nil && e == nil {
		fmt.Fprintf(log, "time=%s level=ERROR msg=%q\n", time.Now().Format(time.RFC3339), text)
		log.Close()
	}
	return errors.Join(errors.New(text), err)
}
