// Command agent is the first process of the guest that tests/numa boots.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"sluice/tests/numa"
)

func main() {
	if err := run(); err != nil {
		fmt.Println("agent:", err)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	time.Sleep(time.Minute) // the first process must not end
}

func run() error {
	if err := prepare(); err != nil {
		return err
	}
	b, err := os.ReadFile(numa.Scenarios)
	if err != nil {
		return err
	}
	var list []numa.Scenario
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	out, err := os.OpenFile(numa.Reports, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer out.Close()
	for _, s := range list {
		fmt.Println("agent:", s.Name)
		r := numa.Report{Name: s.Name, Exit: -1}
		if err := runScenario(&s, &r); err != nil {
			r.Error = err.Error()
		}
		if err := json.NewEncoder(out).Encode(r); err != nil {
			return err
		}
	}
	return nil
}
