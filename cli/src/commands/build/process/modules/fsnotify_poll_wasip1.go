package fsnotify

// Added by `operetta build`: the sandbox tells nobody of changed files, so whoever watches some
// has them looked at every few seconds. A change of a mounted Secret takes longer than that to
// arrive anyway.

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const pollInterval = 5 * time.Second

type poller struct {
	events chan Event
	errors chan error

	mutex sync.Mutex
	// What was seen of each watched path: of itself by the name "", and of what is in a folder.
	seen            map[string]map[string]polled
	running, closed bool
	done            chan struct{}
}

type polled struct {
	modified time.Time
	size     int64
	mode     fs.FileMode
}

func newPoller(events chan Event, errors chan error) *poller {
	return &poller{events: events, errors: errors, seen: make(map[string]map[string]polled), done: make(chan struct{})}
}

func (p *poller) Add(name string) error {
	found, err := pollPath(name)
	if err != nil {
		return err
	}

	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.closed {
		return ErrClosed
	}
	if !p.running {
		p.running = true
		go p.run()
	}
	p.seen[name] = found
	return nil
}

func (p *poller) AddWith(name string, _ ...addOpt) error { return p.Add(name) }

func (p *poller) Remove(name string) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.closed {
		return nil
	}
	if _, ok := p.seen[name]; !ok {
		return ErrNonExistentWatch
	}
	delete(p.seen, name)
	return nil
}

func (p *poller) WatchList() []string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	names := make([]string, 0, len(p.seen))
	for name := range p.seen {
		names = append(names, name)
	}
	return names
}

func (p *poller) Close() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if !p.closed {
		p.closed = true
		p.seen = nil
		close(p.done)
		if !p.running {
			p.end()
		}
	}
	return nil
}

func (p *poller) end() {
	close(p.events)
	close(p.errors)
}

func (p *poller) xSupports(op Op) bool { return op&^(Create|Write|Remove|Chmod) == 0 }

// run looks at the watched paths until none is left.
func (p *poller) run() {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-p.done:
			p.end()
			return
		case <-ticker.C:
		}

		for _, event := range p.look() {
			select {
			case p.events <- event:
			case <-p.done:
			}
		}

		p.mutex.Lock()
		if len(p.seen) == 0 && !p.closed {
			p.running = false
			p.mutex.Unlock()
			return
		}
		p.mutex.Unlock()
	}
}

// look compares what is there with what was seen.
func (p *poller) look() []Event {
	p.mutex.Lock()
	defer p.mutex.Unlock()

	var events []Event
	for name, before := range p.seen {
		now, err := pollPath(name)
		if err != nil {
			// As with inotify, a path that is removed is watched no longer.
			events = append(events, Event{Name: name, Op: Remove})
			delete(p.seen, name)
			continue
		}
		events = append(events, changes(name, before, now)...)
		p.seen[name] = now
	}
	return events
}

func changes(name string, before, now map[string]polled) (events []Event) {
	for entry, after := range now {
		path := filepath.Join(name, entry)
		was, existed := before[entry]
		switch {
		case !existed:
			events = append(events, Event{Name: path, Op: Create})
		case entry == "" && after.mode.IsDir():
			// Its entries say what has changed in it.
		case was.size != after.size || !was.modified.Equal(after.modified):
			events = append(events, Event{Name: path, Op: Write})
		case was.mode != after.mode:
			events = append(events, Event{Name: path, Op: Chmod})
		}
	}
	for entry := range before {
		if _, exists := now[entry]; !exists {
			events = append(events, Event{Name: filepath.Join(name, entry), Op: Remove})
		}
	}
	return events
}

// pollPath follows links: those of a mounted Secret point elsewhere after each change.
func pollPath(name string) (map[string]polled, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	found := map[string]polled{"": {info.ModTime(), info.Size(), info.Mode()}}
	if !info.IsDir() {
		return found, nil
	}

	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if info, err := os.Stat(filepath.Join(name, entry.Name())); err == nil {
			found[entry.Name()] = polled{info.ModTime(), info.Size(), info.Mode()}
		}
	}
	return found, nil
}
