package main

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/pprof"
)

// envProfile names a file, by its absolute path, into which a daemon writes a profile of its processor time, from before it
// mounts until the mount has gone. It is for people who work on ttfs: `make profile` sets it.
const envProfile = "TTFS_CPUPROFILE"

// startProfile begins one if it is asked for; stop ends it. A profile that cannot be written is no reason not to mount.
func startProfile(log *slog.Logger) (stop func()) {
	path := os.Getenv(envProfile)
	if path == "" {
		return func() {}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		if err = pprof.StartCPUProfile(f); err == nil {
			log.Info("profiling", "file", path)
			return func() {
				pprof.StopCPUProfile()
				if err := f.Close(); err != nil {
					log.Error("the profile", "err", err)
				}
			}
		}
		f.Close()
	}
	log.Error(fmt.Sprintf("no profile: %s names a file that can be written", envProfile), "err", err)
	return func() {}
}
