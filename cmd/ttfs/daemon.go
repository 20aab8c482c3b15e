package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ttfs/ttfs/fs"
	"github.com/ttfs/ttfs/fs/estate"
	"github.com/ttfs/ttfs/fs/overlay"
	"golang.org/x/sys/unix"
)

// serving is what a daemon writes into its pipe once it serves; anything else is why it does not.
const serving = "serving\n"

// readyFD is the descriptor of that pipe in the daemon.
const readyFD = 3

// args are the flags with which a daemon is started.
func (o mountOptions) args() []string {
	args := []string{"--ready", strconv.Itoa(readyFD), "--allow-other=" + strconv.FormatBool(o.allowOther)}
	for _, c := range choices {
		if v := *c.field(&o); v != "" {
			args = append(args, "--"+c.flag, v)
		}
	}
	if o.store != "" {
		args = append(args, "--store", o.store)
	}
	if o.config != "" {
		args = append(args, "--config", o.config)
	}
	return append(args, "--", o.dir)
}

// startDaemon starts this program again, in a session of its own, and returns when it serves. What it prints before
// that is part of the error if it does not.
func startDaemon(o mountOptions, told io.Writer) error {
	r, w, err := os.Pipe()
	if err != nil {
		return failed("mount "+o.dir, err, "")
	}
	defer r.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{"ttfs", "supervise", o.dir}, o.args()...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = w, w
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return failed("start the daemon of "+o.dir, err, "")
	}
	said, err := io.ReadAll(r) // ends when the daemon has let the pipe go, by serving or by ending
	if err != nil {
		return failed("wait for the daemon of "+o.dir, err, "see `ttfs status`")
	}
	before, serves := bytes.CutSuffix(said, []byte(serving))
	if serves {
		if _, err := told.Write(before); err != nil {
			return err
		}
		return cmd.Process.Release()
	}
	end := cmd.Wait()
	text := strings.TrimPrefix(strings.TrimSpace(string(said)), "ttfs: ")
	if text == "" {
		text = fmt.Sprintf("the daemon of %s ended before it served: %v; see %s/.tt/daemon.log", o.dir, end, o.dir)
	}
	return &failure{code: exitFailed, text: text}
}

// runDaemon is the daemon: it mounts, says so, and stays until the mount has gone.
func runDaemon(o mountOptions) error {
	keeper, err := o.takeKeeper()
	if err == nil {
		err = closeStray()
	}
	if err != nil {
		return failed("mount "+o.dir, err, "")
	}
	if keeper != nil {
		defer keeper.Close()
	}
	_ = os.WriteFile("/proc/self/comm", []byte("ttfs"), 0) // it is `exe` else: a name in ps, no more
	signal.Ignore(syscall.SIGHUP)
	log := &lateLog{dir: o.dir, under: o.left[estate.NameRoot]}
	defer log.close()
	if err := log.reserve(); err != nil {
		return failed("mount "+o.dir, err, "")
	}
	kept := keeper
	if keeper != nil && !o.supervised() {
		_ = keeper.Say(estate.Alone) // it may be gone
		kept = nil
	}
	server, stop, err := serve(o, kept, slog.New(slog.NewTextHandler(log, nil)))
	if keeper != nil && fs.Over(err) {
		_ = keeper.Say(estate.Over)
		return nil
	}
	if err != nil {
		_ = log.open(false) // what fails here is told anyhow
		return err
	}
	if err := log.open(true); err != nil {
		return errors.Join(failed("open the log of "+o.dir, err, ""), detach(o.dir, true), server.Close())
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return errors.Join(failed("mount "+o.dir, err, ""), detach(o.dir, true), server.Close())
	}
	if keeper != nil { // a keeper that is gone keeps nothing
		_ = keeper.Keep(estate.NameLog, log.fd())
		_ = keeper.Say(estate.Serving)
	}
	if _, err := unix.Write(readyFD, []byte(serving)); err != nil && !errors.Is(err, syscall.EPIPE) {
		log.Write([]byte("tell that it serves: " + err.Error() + "\n"))
	}
	for fd, to := range map[int]int{0: int(null.Fd()), 1: log.fd(), 2: log.fd()} {
		if err := unix.Dup3(to, fd, 0); err != nil {
			log.Write([]byte("let the terminal go: " + err.Error() + "\n"))
		}
	}
	unix.Close(readyFD)
	return finish(server, stop)
}

// runForeground is mount --foreground.
func runForeground(o mountOptions, s streams) error {
	server, stop, err := serve(o, nil, slog.New(slog.NewTextHandler(s.err, nil)))
	if err != nil {
		return err
	}
	return finish(server, stop)
}

// lockLimit is how long a mount waits for the store's lock: a daemon that was killed loses its mount a moment before it
// loses its lock.
const lockLimit = 3 * time.Second

// serve mounts. From then on, a signal to end unmounts, lazily when the mount is in use.
func serve(o mountOptions, keeper *estate.Keeper, log *slog.Logger) (server *fs.Server, stop func(), err error) {
	unix.Umask(0)
	if err := os.Chdir("/"); err != nil {
		return nil, nil, failed("mount "+o.dir, err, "")
	}
	options := fs.Options{
		Dir: o.dir, StoreDir: o.store, Config: o.config, Guard: o.guard, Blind: o.blind, Durability: o.durability, OnStoreError: o.onStoreError,
		Passthrough: o.passthrough, AllowOther: o.allowOther, Transport: o.transport, ShowMoves: showMoves[:], Pack: pack[:], Keeper: keeper, Logger: log,
	}
	tuneCollector()
	profiled := startProfile(log)
	for until := time.Now().Add(lockLimit); ; time.Sleep(20 * time.Millisecond) {
		if server, err = fs.Mount(options); keeper != nil && fs.Over(err) {
			profiled()
			return nil, nil, err
		}
		if !errors.Is(err, overlay.Locked) || time.Now().After(until) {
			break
		}
	}
	if err != nil {
		profiled()
		return nil, nil, &failure{code: exitFailed, text: "mount " + o.dir, err: err}
	}
	log.Info("serving", "dir", o.dir, "pid", os.Getpid(), "version", version)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for got := range signals {
			err := server.Unmount()
			if err != nil {
				err = detach(o.dir, true)
			}
			log.Info("told to end", "signal", got, "err", err)
		}
	}()
	return server, func() { profiled(); signal.Stop(signals); close(signals) }, nil
}

// finish waits until the mount has gone and closes the store.
func finish(server *fs.Server, stop func()) error {
	server.Wait()
	stop()
	if err := server.Close(); err != nil {
		return failed("close the store", err, "run `ttfs fsck`")
	}
	return nil
}

// closeStray closes the descriptors that this process inherited beside the four that it should have: they are those
// that do not close at exec, as none of the runtime's own stays open there.
func closeStray() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= readyFD {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	unix.CloseOnExec(readyFD)
	return nil
}
