// Package supervisor runs a real Kubernetes control plane for tests: etcd,
// kube-apiserver and, on request, the controllers, the scheduler and kwok, each a
// child process.
//
// Its guarantees:
//   - It reports ready when discovery and OpenAPI are served, namespace default
//     exists, and each component of --with has done its first work.
//   - All state is under --dir. A second start resumes the same data with the same
//     credentials and, while the port is free, the same address.
//   - At most one supervisor runs in a --dir. A second one fails and names the
//     first: its pid, its start and its kubeconfig.
//   - No child outlives the supervisor. The supervisor stops on a signal and, unless
//     it is detached, when its parent ends.
//   - A component that dies is restarted at the same address, so the kubeconfig stays
//     valid. One that keeps failing stops everything, with its log.
//   - Every listener is on 127.0.0.1.
//
// The control plane is for one machine and one user: etcd accepts any local
// connection and does not sync to disk, and the kubeconfig's token is
// all-powerful. The supervisor runs on Linux and macOS. It imports nothing of
// Kubernetes, so it builds in seconds.
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

const usage = `Runs a real Kubernetes control plane for tests and experiments.

Usage:
  controlplane up --dir DIR [--detach] [--with LIST] [--port PORT] [--assets DIR] [--audit]
                  [--authorization-config FILE] [--egress-selector-config FILE]
                  [--timeout DURATION]
  controlplane down --dir DIR
  controlplane help

  --dir DIR       keep everything here; a second start resumes the same data
  --detach        run in the background and return when ready; stop it with "down"
  --with LIST     also run these, separated by commas: controllers, scheduler, kwok
                  (kwok simulates one Node: Pods become ready and claims bound, nothing runs)
  --port PORT     the API server's port (default: a free one, remembered in DIR)
  --assets DIR    the folder of etcd, kube-apiserver, ...; default $KUBEBUILDER_ASSETS,
                  else the folder of this program
  --audit         log every request to DIR/audit.log (level Metadata, all stages)
  --authorization-config FILE
                  the API server's authorizers (an AuthorizationConfiguration; default: RBAC)
  --egress-selector-config FILE
                  the API server's way to Pods and Services (an EgressSelectorConfiguration)
  --timeout D     limit of the first start (default 2m)

When everything is ready, "up" prints one line to standard output:
  ready KUBECONFIG=/absolute/path/of/DIR/kubeconfig

Without --detach, SIGINT, SIGTERM or the end of the parent process stops everything;
a second signal stops it at once. Messages also go to DIR/logs/controlplane.log.
Exit code 0: stopped, or detached and ready; 1: failed; 2: wrong usage.

In DIR: kubeconfig, pids.json (component: pid), logs/COMPONENT.log, audit.log.
Without "controllers" nothing creates ServiceAccounts, so Pods are admitted without one.
`

// Main parses args, of which the first is the program's name, runs the command and
// returns the exit code.
func Main(args []string) int {
	command := ""
	if len(args) > 1 {
		command = args[1]
	}
	switch command {
	case "up":
		return up(args)
	case "down":
		return down(args[2:], os.Stdout, os.Stderr)
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
		return wrongUsage(os.Stderr, err)
	}
	if options.detach && os.Getenv(detachedVariable) == "" {
		return detach(args, os.Stdout, os.Stderr)
	}
	// Read the parent's pid before anything slow, or its end goes unnoticed.
	parent := os.Getppid()

	// The reader of our one line may have closed the pipes. A write must then fail
	// and not kill us. Notify, not Ignore: children inherit ignored signals.
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
	if !options.detach {
		go watchParent(ctx, parent, stop)
	}

	err = run(ctx, options, args[0], os.Stdout, os.Stderr, hurry)
	if err != nil && !errors.Is(err, errAsked) {
		return failed(os.Stderr, err)
	}
	return exitDone
}

// errAsked is the cause of a clean stop: a signal, or the parent's end.
var errAsked = errors.New("asked to stop")

// watchParent stops everything when the parent process has ended. It polls: there
// is no portable notification.
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

// run acquires the lock, prepares DIR and supervises until ctx ends or it fails.
func run(ctx context.Context, options options, program string, stdout, stderr io.Writer, hurry <-chan struct{}) error {
	assets, err := findAssets(options, program)
	if err != nil {
		return err
	}
	dir := layout(options.dir)
	if err := dir.create(); err != nil {
		return err
	}
	lock, err := acquireLock(dir)
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
