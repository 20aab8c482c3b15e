package integration

import (
	"os"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

func TestMain(m *testing.M) {
	if os.Getenv(envPosixTest) != "" { // a child of TestPosix: it has a world already
		os.Exit(m.Run())
	}
	rig.Main(m)
}
