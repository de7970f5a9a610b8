package fsnotify

// Added by `operetta build` to fsnotify before 1.8, where each system has a Watcher of its own.

// Watcher watches files and folders.
type Watcher struct {
	Events chan Event
	Errors chan error
	*poller
}

// NewWatcher creates a Watcher.
func NewWatcher() (*Watcher, error) { return NewBufferedWatcher(0) }

// NewBufferedWatcher creates a Watcher with a buffered channel of events.
func NewBufferedWatcher(size uint) (*Watcher, error) {
	events, errors := make(chan Event, size), make(chan error)
	return &Watcher{Events: events, Errors: errors, poller: newPoller(events, errors)}, nil
}
