package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/ttfs/ttfs/fs/overlay"
)

// TestExitTable holds the table against the contract: the README's list and the help.
func TestExitTable(t *testing.T) {
	want := "0 ok, 1 failed, 3 refused by a conflict, 4 refused by the guard, 5 no such task or agent, 6 not mounted, 64 usage, 130 interrupted"
	var rows []string
	for _, row := range exitTable {
		rows = append(rows, fmt.Sprintf("%d %s", int(row.code), row.meaning))
		if !strings.Contains(exitHelp(), fmt.Sprintf("%-4d %s", int(row.code), row.meaning)) {
			t.Errorf("the help lacks %d", int(row.code))
		}
		if row.code.Error() != row.meaning {
			t.Errorf("%d says %q", int(row.code), row.code.Error())
		}
	}
	if got := strings.Join(rows, ", "); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(strings.Fields(string(readme)), " "), want) {
		t.Error("the README has another list of exit codes")
	}
}

func TestCodeOf(t *testing.T) {
	at := func(k overlay.Kind) error { return fmt.Errorf("x: %w", &overlay.Error{Op: "undo", Kind: k}) }
	for _, c := range []struct {
		err  error
		want exitCode
	}{
		{nil, exitOK},
		{errors.New("any"), exitFailed},
		{at(overlay.Conflict), exitConflict},
		{at(overlay.Fenced), exitGuard},
		{at(overlay.NoTask), exitNoTask},
		{at(overlay.NoAgent), exitNoTask},
		{at(overlay.AtRoot), exitNoTask},
		{at(overlay.NothingToDo), exitNoTask},
		{at(overlay.IO), exitFailed},
		{at(overlay.Foreign), exitFailed},
		{at(overlay.Locked), exitFailed},
		{context.Canceled, exitInterrupted},
		{&os.PathError{Err: syscall.ENOTCONN}, exitNotMounted},
		{&os.PathError{Err: syscall.ECONNABORTED}, exitNotMounted},
		{&os.PathError{Err: syscall.ECANCELED}, exitNotMounted},
		{&os.PathError{Err: syscall.ENOENT}, exitFailed},
		{usage("x"), exitUsage},
		{fmt.Errorf("x: %w", notMounted(workspace{dir: "/w"})), exitNotMounted},
		{failed("x", at(overlay.AtRoot), ""), exitNoTask},
		{status(143), 143},
	} {
		if got := exitCode(codeOf(c.err)); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, int(got), int(c.want))
		}
	}
	for errno, want := range map[syscall.Errno]exitCode{
		syscall.EBUSY: exitConflict, syscall.ESTALE: exitGuard, syscall.ENODATA: exitGuard, syscall.ENOENT: exitNoTask,
		syscall.EINVAL: exitFailed, syscall.EPERM: exitFailed, syscall.ENOSPC: exitFailed, syscall.ENOTCONN: exitNotMounted,
	} {
		if got := refusalCode(&os.PathError{Err: errno}); got != want {
			t.Errorf("a write refused with %v: %d, want %d", errno, int(got), int(want))
		}
	}
}

// TestFailureSentence: what happened, to what, what to do next.
func TestFailureSentence(t *testing.T) {
	err := failed("open the store of /w", &overlay.Error{Op: "open", Path: "/w/.tt", Kind: overlay.Foreign}, "move it away")
	if got, want := err.Error(), "open the store of /w: open /w/.tt: not a ttfs store; move it away"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !errors.Is(err, overlay.Foreign) || !errors.Is(err, exitFailed) {
		t.Error("the kind and the code are not found in it")
	}
}
