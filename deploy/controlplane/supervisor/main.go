// Package supervisor runs a real Kubernetes control plane for tests in the
// foreground: etcd, kube-apiserver and, on request, the controllers, the
// scheduler and kwok, each a child process.
//
// It promises:
//   - "ready" means ready: discovery and OpenAPI are served, namespace default
//     exists, and what --with asked for has done its first work;
//   - all state is under --dir; a second start on it resumes the same data with
//     the same credentials and, while the port is free, the same address;
//   - no child outlives it, whether it is asked to stop, is killed, or its
//     parent dies;
//   - a component that dies is started again at the same address, so the
//     kubeconfig stays valid; one that keeps failing ends the whole, with its log;
//   - every listener is on 127.0.0.1.
//
// It is for one machine and one user: etcd takes any local connection, does not
// sync to disk, and the kubeconfig's token is all-powerful. It runs on Linux and
// macOS. It imports nothing of Kubernetes, so it builds alone in seconds.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Exit codes of Main.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

const usage = `Runs a real Kubernetes control plane in the foreground, for tests and for trying things.

Usage:
  controlplane up --dir DIR [--with LIST] [--port PORT] [--assets DIR] [--audit] [--timeout DURATION]
  controlplane help

  --dir DIR       where everything is kept; a second start on it resumes the same data
  --with LIST     also run these, separated by commas: controllers, scheduler, kwok
                  (kwok plays one Node: Pods become ready and claims bound, nothing runs)
  --port PORT     the API server's port (otherwise a free one, remembered in DIR)
  --assets DIR    the folder of etcd, kube-apiserver, ...; default $KUBEBUILDER_ASSETS,
                  else the folder of this program
  --audit         log every request to DIR/audit.log (level Metadata, all stages)
  --timeout D     how long the first start may take (default 2m)

When all of it is ready, one line goes to standard output:
  ready KUBECONFIG=/absolute/path/of/DIR/kubeconfig

SIGINT, SIGTERM or the end of the parent process stops everything; a second signal
stops it at once. Exit code 0: stopped as asked; 1: failed; 2: wrong usage.

In DIR: kubeconfig, pids.json (component: pid), logs/COMPONENT.log, audit.log.
Without "controllers" nobody creates ServiceAccounts, so Pods are admitted without one.
`

// Main is the program: it parses args (the first is the program's name), runs
// and returns the exit code.
func Main(args []string) int {
	command := ""
	if len(args) > 1 {
		command = args[1]
	}
	switch command {
	case "up":
		return up(args)
	case "help", "-h", "-help", "--help":
		fmt.Print(usage)
		return exitDone
	case "":
		fmt.Fprint(os.Stderr, usage)
		return exitUsage
	default:
		fmt.Fprintf(os.Stderr, "controlplane: unknown command %q; see `controlplane help`\n", command)
		return exitUsage
	}
}

func up(args []string) int {
	options, err := parseOptions(args[2:])
	if errors.Is(err, errHelp) {
		fmt.Print(usage)
		return exitDone
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "controlplane: %v; see `controlplane help`\n", err)
		return exitUsage
	}
	// Read before anything slow, or a parent that dies meanwhile goes unseen.
	parent := os.Getppid()

	// Whoever read our one line may have closed the pipes: a write must then
	// fail, not kill us. Notify (not Ignore), as children inherit ignored signals.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)

	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	hurry := make(chan struct{})
	go func() {
		stop(fmt.Errorf("%w: %v", errAsked, <-signals))
		<-signals
		close(hurry)
	}()
	go watchParent(ctx, parent, stop)

	err = run(ctx, options, args[0], os.Stdout, os.Stderr, hurry)
	if err != nil && !errors.Is(err, errAsked) {
		fmt.Fprintf(os.Stderr, "controlplane: %v\n", err)
		return exitFailed
	}
	return exitDone
}

// errAsked is the cause of a clean stop: a signal, or the parent's end.
var errAsked = errors.New("asked to stop")

// watchParent stops everything when the process that started us is gone. There
// is no portable notification for that, so it asks.
func watchParent(ctx context.Context, parent int, stop context.CancelCauseFunc) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if os.Getppid() != parent {
				stop(fmt.Errorf("%w: the parent process ended", errAsked))
				return
			}
		}
	}
}

// run takes the lock, prepares DIR and supervises until ctx ends or it fails.
func run(ctx context.Context, options options, program string, stdout, stderr io.Writer, hurry <-chan struct{}) error {
	assets, err := findAssets(options, program)
	if err != nil {
		return err
	}
	dir := layout(options.dir)
	if err := dir.create(); err != nil {
		return err
	}
	lock, err := acquireLock(dir.lock())
	if err != nil {
		return err
	}
	defer lock.release()

	if err := ensureCredentials(dir); err != nil {
		return fmt.Errorf("credentials in %s: %w", dir, err)
	}
	if err := writeConfigs(dir); err != nil {
		return fmt.Errorf("configuration in %s: %w", dir, err)
	}
	messages, err := newMessages(dir, stderr)
	if err != nil {
		return err
	}
	defer messages.close()
	return newCluster(options, assets, dir, messages).run(ctx, stdout, hurry)
}
