package acceptance

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"syscall"
)

// profileEnv is a folder for CPU profiles of a console that is a process of its own: one for each step of a first
// delivery.
const profileEnv = "INTAKE_PROFILE"

// profileSteps writes a profile from one SIGUSR1 to the next.
func profileSteps(dir string) {
	if dir == "" {
		return
	}
	steps := make(chan os.Signal, 1)
	signal.Notify(steps, syscall.SIGUSR1)
	go func() {
		for n := 0; ; n++ {
			f, err := os.Create(filepath.Join(dir, fmt.Sprintf("cpu%d.prof", n)))
			if err != nil || pprof.StartCPUProfile(f) != nil {
				return
			}
			<-steps
			pprof.StopCPUProfile()
			_ = f.Close()
		}
	}()
}
