package main

import (
	"context"
	"fmt"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// What the service manager is told (sd_notify(3)). Without one, nothing happens.

// notifyReloading brackets a reload; the time is what tells two of them apart
// (Type=notify-reload in systemd.service(5)).
func notifyReloading() (done func()) {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) == nil {
		_, _ = sd.SdNotify(false, fmt.Sprintf("%s\nMONOTONIC_USEC=%d", sd.SdNotifyReloading, now.Nano()/1000))
	}
	return func() { _, _ = sd.SdNotify(false, sd.SdNotifyReady) }
}

func notifyStopping() { _, _ = sd.SdNotify(false, sd.SdNotifyStopping) }

// watchdog tells the service manager twice per period (WatchdogSec=) that the
// process is alive: that it gets every lock that a snapshot of its state takes.
// Whether clients are answered it does not try, lest a flood of them have the
// server restarted.
func (d *daemon) watchdog(ctx context.Context) {
	period, err := sd.SdWatchdogEnabled(false)
	if err != nil || period == 0 {
		return
	}
	go func() {
		tick := time.NewTicker(period / 2)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_ = d.status()
				_, _ = sd.SdNotify(false, sd.SdNotifyWatchdog)
			}
		}
	}()
}
