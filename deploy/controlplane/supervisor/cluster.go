// The life of a cluster: start, wait until ready, restart dead components, stop.

package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	startAttempts = 3               // of the first start
	portPatience  = 2 * time.Second // for the children of a killed predecessor to end
	clientGrace   = 2 * time.Second // controllers, scheduler, kwok: they hold no state
	serverGrace   = 5 * time.Second // API server: lets open requests finish
	etcdGrace     = 3 * time.Second
	settled       = 30 * time.Second // a component that ran this long restarts without delay
	maxCrashes    = 5                // in a row, before the cluster gives up
)

// cluster owns the child processes of one --dir.
type cluster struct {
	options  options
	assets   string
	dir      layout
	messages *messages
	at       ports   // fixed once the first start succeeded
	client   *client // of the API server at at.APIServer
	failures chan error

	mu       sync.Mutex
	running  map[string]*process // exactly those in pids.json
	stopping bool                // once true, nothing is started
}

func newCluster(o options, assets string, dir layout, m *messages) *cluster {
	return &cluster{
		options: o, assets: assets, dir: dir, messages: m,
		failures: make(chan error, len(o.programs())),
		running:  map[string]*process{},
	}
}

// run returns the cause of ctx when ctx ends, or an error if the cluster failed.
// No child is left then.
func (c *cluster) run(ctx context.Context, stdout io.Writer, hurry <-chan struct{}) error {
	defer c.close(hurry)
	first, cancel := context.WithTimeoutCause(ctx, c.options.timeout, errTimeout)
	err := c.startAll(first, hurry)
	cancel()
	if errors.Is(err, errTimeout) {
		return fmt.Errorf("%w after %v; end of %s:\n%s", err, c.options.timeout,
			c.dir.log(apiserver), tail(c.dir.log(apiserver), 0))
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "ready KUBECONFIG=%s\n", c.dir.kubeconfig()); err != nil {
		return fmt.Errorf("report readiness: %w", err)
	}
	keeping, stop := context.WithCancel(ctx)
	defer stop() // before close, which kills the components
	for _, program := range c.options.programs() {
		go c.keep(keeping, program, c.process(program))
	}
	select {
	case <-ctx.Done():
		c.messages.say("stopping: %v", context.Cause(ctx))
		return context.Cause(ctx)
	case err := <-c.failures:
		return err
	}
}

var errTimeout = errors.New("not ready in time")

// startAll makes the first start. A component that dies meanwhile costs an attempt,
// for example because another process took its port.
func (c *cluster) startAll(ctx context.Context, hurry <-chan struct{}) error {
	known := loadPorts(c.dir.ports())
	for attempt := 1; ; attempt++ {
		var err error
		if c.at, err = choosePorts(known, c.options.port, portPatience, isFree); err != nil {
			return err
		}
		err = c.startOnce(ctx)
		var died *diedError
		if !errors.As(err, &died) || attempt == startAttempts {
			return err
		}
		c.messages.say("%v\nstarting again (attempt %d of %d)", err, attempt+1, startAttempts)
		c.stopRunning(hurry)
		known = c.at
		if strings.Contains(died.tail, "address already in use") {
			known = ports{}
		}
	}
}

func (c *cluster) startOnce(ctx context.Context) error {
	var err error
	if err = c.at.save(c.dir.ports()); err != nil {
		return err
	}
	if c.client, err = newClient(c.dir, c.at.APIServer); err != nil {
		return err
	}
	if err = writeKubeconfigs(c.dir, c.at.APIServer); err != nil {
		return err
	}
	// Start both at once: the API server connects to etcd only after half a second.
	servers, clients := c.options.programs()[:2], c.options.programs()[2:]
	for _, program := range servers {
		if _, err := c.launch(program); err != nil {
			return err
		}
	}
	if err := await(ctx, c.client, serving, c.anyDied); err != nil {
		return err
	}
	for _, program := range clients {
		if _, err := c.launch(program); err != nil {
			return err
		}
	}
	return await(ctx, c.client, readyProbes(c.options), c.anyDied)
}

// keep restarts program, now running as p, whenever it dies, until ctx ends. It
// counts deaths by the program's own exit and deaths right after a start: it waits
// longer after each and gives up after maxCrashes. A later kill from outside is
// a test's, and is not counted.
func (c *cluster) keep(ctx context.Context, program string, p *process) {
	crashes := 0
	for {
		select {
		case <-p.done:
		case <-ctx.Done():
			return
		}
		if ctx.Err() != nil {
			return
		}
		c.forget(program)
		died := diedOf(p)
		crashes = countCrashes(crashes, time.Since(p.started), p.killed())
		if crashes > maxCrashes {
			c.failures <- fmt.Errorf("giving up after %d crashes in a row: %w", crashes, died)
			return
		}
		delay := backoff(crashes)
		c.messages.say("%v\nstarting %s again in %v", died, program, delay)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return
		}
		var err error
		p, err = c.launch(program)
		if errors.Is(err, errStopping) {
			return
		}
		if err != nil {
			c.failures <- err
			return
		}
		if program == apiserver {
			c.reportReturn(ctx, p)
		}
	}
}

// reportReturn logs when the API server serves again. It returns early if p dies.
func (c *cluster) reportReturn(ctx context.Context, p *process) {
	err := await(ctx, c.client, serving, func() error {
		if p.ended() {
			return diedOf(p)
		}
		return nil
	})
	if err == nil {
		c.messages.say("%s serves again after %v", p.program, time.Since(p.started).Round(time.Millisecond))
	}
}

// countCrashes returns the number of crashes in a row, including the latest death.
func countCrashes(before int, uptime time.Duration, killed bool) int {
	if uptime < time.Second || (!killed && uptime < settled) {
		return before + 1
	}
	return 0
}

// backoff returns the pause after that many crashes in a row: 0, 250 ms, doubling.
func backoff(crashes int) time.Duration {
	if crashes == 0 {
		return 0
	}
	return 250 * time.Millisecond << min(crashes-1, 5)
}

var errStopping = errors.New("stopping")

// launch starts program. It returns errStopping while the cluster is stopping.
func (c *cluster) launch(program string) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return nil, errStopping
	}
	p, err := start(c.assets, program, arguments(program, c.options, c.dir, c.at), c.dir)
	if err != nil {
		return nil, err
	}
	c.running[program] = p
	return p, c.savePids()
}

func (c *cluster) process(program string) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[program]
}

func (c *cluster) forget(program string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, program)
	if err := c.savePids(); err != nil {
		c.messages.say("%v", err)
	}
}

// savePids writes pids.json. The caller holds c.mu.
func (c *cluster) savePids() error {
	pids := map[string]int{}
	for program, p := range c.running {
		pids[program] = p.pid
	}
	text, err := json.Marshal(pids)
	if err != nil {
		return err
	}
	return writeFile(c.dir.pids(), append(text, '\n'))
}

// diedError reports that a component ended by itself or by a signal from outside.
type diedError struct{ program, state, path, tail string }

func (e *diedError) Error() string {
	return fmt.Sprintf("%s died (%s); end of %s:\n%s", e.program, e.state, e.path, e.tail)
}

// diedOf describes the end of p, which has ended.
func diedOf(p *process) *diedError {
	return &diedError{p.program, p.state.String(), p.logPath, p.tail()}
}

// anyDied returns a *diedError if a component has ended.
func (c *cluster) anyDied() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, program := range c.options.programs() {
		if p := c.running[program]; p != nil && p.ended() {
			return diedOf(p)
		}
	}
	return nil
}

// close ends every child for good.
func (c *cluster) close(hurry <-chan struct{}) {
	c.mu.Lock()
	c.stopping = true
	c.mu.Unlock()
	c.stopRunning(hurry)
	_ = os.Remove(c.dir.pids())
}

// stopRunning ends the children, clients first and etcd last: an API server
// without etcd takes minutes to end.
func (c *cluster) stopRunning(hurry <-chan struct{}) {
	c.mu.Lock()
	running := maps.Clone(c.running)
	clear(c.running)
	c.mu.Unlock()

	var clients sync.WaitGroup
	for _, program := range []string{kwok, scheduler, controller} {
		if p := running[program]; p != nil {
			clients.Go(func() { p.stop(clientGrace, hurry) })
		}
	}
	clients.Wait()
	if p := running[apiserver]; p != nil {
		p.stop(serverGrace, hurry)
	}
	if p := running[etcd]; p != nil {
		p.stop(etcdGrace, hurry)
	}
}
