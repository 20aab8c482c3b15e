package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/ttfs/ttfs/fs/overlay"
)

// exitCode is an exit status; it is an error itself, the kind of a failure.
type exitCode int

// The exit codes are an interface: DESIGN section 2.
const (
	exitOK          exitCode = 0
	exitFailed      exitCode = 1
	exitConflict    exitCode = 3
	exitGuard       exitCode = 4
	exitNoTask      exitCode = 5
	exitNotMounted  exitCode = 6
	exitUsage       exitCode = 64
	exitInterrupted exitCode = 130
)

// exitTable is the one table: the help prints it and a test reads it.
var exitTable = []struct {
	code    exitCode
	meaning string
}{
	{exitOK, "ok"},
	{exitFailed, "failed"},
	{exitConflict, "refused by a conflict"},
	{exitGuard, "refused by the guard"},
	{exitNoTask, "no such task or agent"},
	{exitNotMounted, "not mounted"},
	{exitUsage, "usage"},
	{exitInterrupted, "interrupted"},
}

// Error is what the code means.
func (c exitCode) Error() string {
	for _, row := range exitTable {
		if row.code == c {
			return row.meaning
		}
	}
	return fmt.Sprintf("exit %d", int(c))
}

func exitHelp() string {
	var s strings.Builder
	s.WriteString("Exit codes:")
	for _, row := range exitTable {
		fmt.Fprintf(&s, "\n  %-4d %s", int(row.code), row.meaning)
	}
	return s.String() + "\n`run` exits with the status of its command, 128 and the signal's number when one ended it."
}

// failure is the error of this package: a sentence for a person, and the exit code. Errors: the code and the cause, by
// errors.Is.
type failure struct {
	code exitCode
	// text says what happened and to what, next what to do about it; "" where there is nothing to do or say.
	text, next string
	err        error
}

// Error is the sentence.
func (f *failure) Error() string {
	s := f.text
	if f.err != nil {
		if s != "" {
			s += ": "
		}
		s += f.err.Error()
	}
	if f.next != "" {
		s += "; " + f.next
	}
	return s
}

// Unwrap gives the code and the cause.
func (f *failure) Unwrap() []error {
	if f.err == nil {
		return []error{f.code}
	}
	return []error{f.code, f.err}
}

func usage(format string, args ...any) error {
	return &failure{code: exitUsage, text: fmt.Sprintf(format, args...)}
}

// failed is a failure whose code is that of its cause.
func failed(text string, err error, next string) error {
	return &failure{code: exitCode(codeOf(err)), text: text, err: err, next: next}
}

// status is the failure of `run`: nothing to say, the command said it.
func status(code int) error { return &failure{code: exitCode(code)} }

// causes tell which code an error of the layers below has, where no failure holds one.
var causes = []struct {
	cause error
	code  exitCode
}{
	{context.Canceled, exitInterrupted},
	{overlay.Conflict, exitConflict},
	{overlay.Protected, exitConflict},
	{overlay.Fenced, exitGuard},
	{overlay.NoTask, exitNoTask},
	{overlay.NoAgent, exitNoTask},
	{overlay.AtRoot, exitNoTask},
	{overlay.NothingToDo, exitNoTask},
	{overlay.Pruned, exitNoTask},
	{syscall.ENOTCONN, exitNotMounted},
	{syscall.ECONNABORTED, exitNotMounted},
	{syscall.ECANCELED, exitNotMounted}, // the daemon died, and the request was on its way by io_uring
}

// refusals tell which code the errno of a refused write to `.tt/ctl` has. Source: DESIGN section 3.
var refusals = map[syscall.Errno]exitCode{
	syscall.EBUSY:   exitConflict,
	syscall.ESTALE:  exitGuard,
	syscall.ENODATA: exitGuard,
	syscall.ENOENT:  exitNoTask,
}

// refusalCode is the exit code of a refused write to `.tt/ctl`.
func refusalCode(err error) exitCode {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if code, ok := refusals[errno]; ok {
			return code
		}
	}
	return exitCode(codeOf(err))
}

// codeOf is the exit code of an error.
func codeOf(err error) int {
	if err == nil {
		return int(exitOK)
	}
	if f, ok := asFailure(err); ok {
		return int(f.code)
	}
	for _, c := range causes {
		if errors.Is(err, c.cause) {
			return int(c.code)
		}
	}
	return int(exitFailed)
}
