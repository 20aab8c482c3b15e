package overlay

import (
	"github.com/ttfs/ttfs/guard"
	"github.com/ttfs/ttfs/journal"
)

// kProcess is the letter of what is kept of the processes of agents: pid, start. The engine keeps the bytes and does not
// look into them.
const kProcess = 'p'

// Processes are the records that SaveProcesses kept. Errors: what the journal says.
func (e *Engine) Processes() (map[guard.Process][]byte, error) {
	out := map[guard.Process][]byte{}
	err := e.j.Scan([]byte{kProcess}, func(k, v []byte) error {
		if len(k) == 17 {
			out[guard.Process{PID: int(keyNum(k, 0)), Start: keyNum(k, 1)}] = append([]byte(nil), v...)
		}
		return nil
	})
	return out, storeError("open", err)
}

// SaveProcesses keeps records of processes and forgets others. Errors: what the journal says; nothing was kept or
// forgotten then. Durability: that of the journal's records.
func (e *Engine) SaveProcesses(keep map[guard.Process][]byte, forget []guard.Process) error {
	if len(keep) == 0 && len(forget) == 0 {
		return nil
	}
	var b journal.Batch
	for p, v := range keep {
		b.Put(key(kProcess, uint64(p.PID), p.Start), v)
	}
	for _, p := range forget {
		b.Delete(key(kProcess, uint64(p.PID), p.Start))
	}
	return storeError("keep who is which agent", e.j.Commit(&b))
}
